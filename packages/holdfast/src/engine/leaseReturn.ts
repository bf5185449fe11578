// Returns the lease of a run: the last commit of a claim that does not end with a turn.
// Owns: how often it is retried while the store can't write it.
// Invariants: D4 (once another worker has the run, the commit is stale and writes nothing), D7 (if a turn was written without the worker
// knowing, its steps have not begun: the next worker begins with attempt 1), W4.

import type { OpenOperations } from "@holdfast/host/attempts";
import { isRefusal, StoreError } from "../store/errors.ts";
import type { RunRow, TurnCommit } from "../store/port.ts";
import type { DriverHost } from "./driverHost.ts";
import { type Draft, openedSteps } from "./journal.ts";

/** Usually the lease has expired by then. */
const MAX_RETRIES = 50;
/** Milliseconds. */
const LONGEST_PAUSE = 1_000;

/** The claim that ends. */
export interface EndingClaim {
  readonly host: Pick<DriverHost, "environment" | "logger" | "commit" | "rowOf" | "drives">;
  /** As it was claimed. */
  readonly run: RunRow;
  readonly operations: OpenOperations;
}

/** Retries while the store can't write it (a full disk). `uncertain`: an earlier commit that may or may not have been written. */
export async function returnLease(claim: EndingClaim, draft: Draft, uncertain?: TurnCommit, retries = 0): Promise<void> {
  const { environment, logger } = claim.host;
  let left = uncertain;
  try {
    if (left !== undefined) await addNotBegun(claim, draft, left).catch(unlessUnreachable);
    left = undefined;
    await new Promise((resolve, reject) => claim.host.commit(draft, resolve, reject));
  } catch (error) {
    if (retries === 0)
      logger.error("A run could not be released; other workers can claim it when its lease expires, at the latest.", {
        runId: claim.run.id,
        error,
      });
    const isOver = retries === MAX_RETRIES || isRefusal(error) || (error as { code?: unknown } | undefined)?.code === "HF_STORE_CLOSED";
    if (!isOver) environment.after(Math.min(100 * 2 ** retries, LONGEST_PAUSE), () => void returnLease(claim, draft, left, retries + 1));
  }
}

/** If `uncertain` was written, adds to `draft` that none of its steps has begun. */
export async function addNotBegun(
  { host, run, operations }: EndingClaim,
  draft: Draft,
  uncertain: TurnCommit,
): Promise<"written" | "not written"> {
  const row = await host.rowOf(run.id);
  const isSame = row?.seed === run.seed && row.execution === run.execution && row.epoch === run.epoch;
  // Q2: the store may have created it without this turn. Then the first epoch is that of the worker that claimed it, maybe this one.
  const isOurs = isSame && (row.workerId === undefined || row.workerId === uncertain.workerId) && !host.drives(run.id);
  if (!isOurs || row.turns <= (uncertain.turn?.index ?? row.turns)) return "not written";
  operations.notBegun(openedSteps(uncertain).map(({ seq }) => seq));
  draft.attempts = [...(draft.attempts ?? []), ...operations.prepare([], "leave").rows];
  return "written";
}

/** The lease is returned even if the row can't be read. */
function unlessUnreachable(error: unknown): void {
  if (error instanceof StoreError && error.retryable) throw error;
}
