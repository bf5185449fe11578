// The last commit of a claim that does not end with a turn: it returns the lease.
// Owns: how often a store that can't take it now is asked again.
// Invariants: D4 (once another worker has the run, the commit is stale and writes nothing), D7 (the steps of a turn that was written
// without the worker knowing have not begun: the next worker begins with attempt 1), W4.

import type { OpenOperations } from "@holdfast/host/attempts";
import { type Draft, openedSteps } from "../host/journal.ts";
import { isRefusal, StoreError } from "../store/errors.ts";
import type { RunRow, TurnCommit } from "../store/port.ts";
import type { DriverHost } from "./driverHost.ts";

/** By then the lease is over, as a rule. */
const MOST_TRIES = 50;
const LONGEST_PAUSE = 1_000;

/** The claim that ends. */
export interface EndingClaim {
  readonly host: Pick<DriverHost, "environment" | "logger" | "commit" | "look">;
  /** As it was claimed. */
  readonly run: RunRow;
  readonly operations: OpenOperations;
}

/** A store that can't take it now (a full disk) is asked again. `unsure`: a commit before it that may have been written. */
export async function returnLease(claim: EndingClaim, draft: Draft, unsure?: TurnCommit, tries = 0): Promise<void> {
  const { environment, logger } = claim.host;
  let left = unsure;
  try {
    if (left !== undefined) await addNotBegun(claim, draft, left).catch(unlessAway);
    left = undefined;
    await new Promise((resolve, reject) => claim.host.commit(draft, resolve, reject));
  } catch (error) {
    if (tries === 0)
      logger.error("A run could not be given back now; at the latest others have it when its lease ends.", {
        runId: claim.run.id,
        error,
      });
    const isOver = tries === MOST_TRIES || isRefusal(error) || (error as { code?: unknown } | undefined)?.code === "HF_STORE_CLOSED";
    if (!isOver) environment.after(Math.min(100 * 2 ** tries, LONGEST_PAUSE), () => void returnLease(claim, draft, left, tries + 1));
  }
}

/** If `unsure` was written, `draft` says that none of its steps has begun. */
export async function addNotBegun(
  { host, run, operations }: EndingClaim,
  draft: Draft,
  unsure: TurnCommit,
): Promise<"written" | "not written"> {
  const row = await host.look(run.id);
  const isOurs = row?.seed === run.seed && row.execution === run.execution && row.epoch === run.epoch;
  if (!isOurs || row.turns <= (unsure.turn?.index ?? row.turns)) return "not written";
  operations.notBegun(openedSteps(unsure).map(({ seq }) => seq));
  draft.attempts = [...(draft.attempts ?? []), ...operations.prepare([], "leave").rows];
  return "written";
}

/** A row that can't be read keeps no run from being given back. */
function unlessAway(error: unknown): void {
  if (error instanceof StoreError && error.retryable) throw error;
}
