// Updates of runs in memory, and how they end (M10).
// Owns: the outcomes that a run keeps, and for how long.
// Invariants: M10 (the first outcome counts; none is left open when its run closes), M8 (one that was not accepted in time is rejected).

import { RunClosedError, serializeError } from "@holdfast/core";
import type { InboxMessage, Store, UpdateOutcome } from "../port.ts";
import { KEYLESS_OUTCOME_KEPT } from "../updates.ts";
import { updateKey } from "./messageKeys.ts";
import type { KeptRun } from "./state.ts";

type RejectedUpdate = Parameters<Store["rejectUpdates"]>[0][number];

/** M10: no caller waits forever. */
export function refuseUpdates(run: KeptRun): void {
  const ids = [...(run.keys?.values() ?? [])].flatMap(({ update }) => update ?? []);
  const aside = new Set(run.next?.inbox.map(({ job }) => (job.type === "update" ? job.id : undefined)));
  const open = ids.filter((id) => run.updates?.has(id) !== true && !aside.has(id));
  if (open.length === 0) return;
  const error = serializeError(new RunClosedError({ runId: run.id, status: run.status }));
  const waiting = new Set(run.inbox.map(({ job }) => (job.type === "update" ? job.id : undefined)));
  run.updates ??= new Map();
  for (const id of open) run.updates.set(id, { status: waiting.has(id) ? "rejected" : "failed", error });
}
/** True: this is its outcome. Those without a key that have been kept for long enough go with it. */
export function settleUpdate(run: KeptRun, id: string, outcome: UpdateOutcome, now: number): boolean {
  while (run.forgettable?.[0] !== undefined && run.forgettable[0].at <= now) forgetUpdate(run, run.forgettable.shift()?.id ?? "");
  run.updates ??= new Map();
  if (run.updates.has(id)) return false;
  run.updates.set(id, outcome);
  if (run.keys?.get(updateKey(id))?.isKeyless === true) {
    run.forgettable ??= [];
    run.forgettable.push({ id, at: now + KEYLESS_OUTCOME_KEPT });
  }
  return true;
}
function forgetUpdate(run: KeptRun, id: string): void {
  run.updates?.delete(id);
  run.keys?.delete(updateKey(id));
}
/** M8: removes an update that no receive accepted in time from the inbox. `settle` keeps its outcome. */
export function rejectUpdate(
  run: KeptRun | undefined,
  { id, error }: RejectedUpdate,
  now: number,
  settle: (run: KeptRun, outcome: UpdateOutcome) => void,
): UpdateOutcome | "waiting" | undefined {
  const isIt = ({ job }: InboxMessage): boolean => job.type === "update" && job.id === id;
  const inbox = run?.next?.inbox.some(isIt) === true ? run.next.inbox : run?.inbox;
  const waiting = inbox?.find(isIt);
  const known = run?.updates?.get(id);
  if (run === undefined || known !== undefined || waiting?.job.type !== "update" || waiting.job.acceptUntil === undefined) return known;
  if (waiting.job.acceptUntil > now) return "waiting";
  inbox?.splice(inbox.indexOf(waiting), 1);
  const outcome: UpdateOutcome = { status: "rejected", error };
  settle(run, outcome);
  return outcome;
}
