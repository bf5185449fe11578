// Stores that the current code can't advance a run.
// Owns: nothing.
// Invariants: V4 (the run is unharmed: nothing of the failed turn is kept; if the cause may pass, the run is retried with growing delays;
// messages are kept and don't wake it).

import { type AnyWorkflow, HoldfastError, type SerializedError, serializeError } from "@holdfast/core";
import { isBrokenRule } from "@holdfast/host";
import type { Namespace } from "../messages/namespace.ts";
import { isTooLarge } from "../storage/batchLimits.ts";
import type { Head, Status } from "../storage/contents.ts";
import { Storage } from "../storage/storage.ts";
import type { Execution } from "./execution.ts";
import type { Flusher } from "./flusher.ts";
import { putSignals, storeNewRun } from "./newRun.ts";
import type { Settings } from "./settings.ts";

const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 300_000;
const SHORT_MESSAGE = 200;

/** Stores that the run is blocked, and why. Returns when it will be retried, if it is retried without a call. */
export async function storeBlocked(
  { settings, head }: Execution,
  error: Error,
  namespace: Namespace,
  flusher: Flusher,
): Promise<number | undefined> {
  const { driver, environment, codec } = settings;
  let wakeAt: number | undefined;
  let refusal: unknown;
  for (const form of tellableForms(error)) {
    const storage = await Storage.load(driver, codec); // discards the changes of the turn
    const isNew = storage.head === undefined;
    if (isNew) keepNewRun(storage, head, settings, namespace);
    const status = blockedStatus(form, !isBrokenRule(error), storage.status, environment.now(), head.deadlineAt);
    ({ wakeAt } = status);
    storage.setStatus(status);
    try {
      await flusher.flush(storage);
      return wakeAt;
    } catch (failure) {
      if (!isTooLarge(failure)) throw failure;
      if (isNew) refusal = failure;
    }
  }
  if (refusal === undefined) return wakeAt;
  await flusher.alarm.leaveAt(undefined, () => false);
  throw refusal; // the run could not be created
}
/** A run that is blocked in its first turn is stored with everything it was started with. */
function keepNewRun(storage: Storage, head: Head, { newRun, environment }: Settings, namespace: Namespace): void {
  if (newRun === undefined) return;
  storeNewRun(storage, head, newRun);
  putSignals(storage, namespace, newRun, environment);
}
/** An error may be too large for a batch: then a shorter form of it is stored. The complete form comes first. */
function tellableForms(error: Error): SerializedError[] {
  const stored = serializeError(error);
  const { name, message, code } = { code: undefined, ...stored };
  return [stored, { name, message: message.slice(0, SHORT_MESSAGE), ...(typeof code === "string" && { code }) }];
}
function blockedStatus(
  error: SerializedError,
  isTried: boolean,
  before: Status | undefined,
  now: number,
  deadlineAt = Number.POSITIVE_INFINITY,
): Status {
  const times = (before?.times ?? 0) + 1;
  const triedAt = isTried ? now + Math.min(FIRST_WAIT * 2 ** (times - 1), LONGEST_WAIT) : Number.POSITIVE_INFINITY;
  const next = Math.min(triedAt, deadlineAt > now ? deadlineAt : Number.POSITIVE_INFINITY); // K7: the deadline applies while it is blocked, too
  const wakeAt = next === Number.POSITIVE_INFINITY ? undefined : next;
  return { status: "blocked", wakeAt, waitingFor: [`code that can advance it (${error.name})`], error, times };
}
/** V2 */
export function notServed(workflow: AnyWorkflow, head: Head): HoldfastError {
  return new HoldfastError(
    `Run "${head.id}" was started with version ${head.version ?? "none"} of workflow "${workflow.name}"; the current code has version ${workflow.version ?? "none"} and does not serve it.\n` +
      "Run it with code of that version, or name the version in `serves`.",
    { code: "HF_KV_VERSION_NOT_SERVED" },
  );
}
