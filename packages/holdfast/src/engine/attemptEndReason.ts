// Why the attempt of an activity has ended: the abort reason of its signal.
// Owns: the texts.
// Invariants: C7 D11 (an abandoned attempt is aborted with the reason); the store is asked only after the end, so that nothing waits for it.

import { HoldfastError, reviveError } from "@holdfast/core";
import type { ClaimedTask, RunRow, Store } from "../store/port.ts";

/** For an attempt that has ended according to the store. */
export async function endReasonOf(store: Store, task: ClaimedTask): Promise<Error> {
  const { runId, execution, seq, attempt } = task;
  try {
    const look = () => Promise.all([store.get([runId]), store.attempts(runId)]);
    const rowOf = (rows: Awaited<ReturnType<Store["attempts"]>>) =>
      rows.find((one) => one.task === true && one.seq === seq && one.number === attempt);
    let [[run], rows] = await look();
    if (rowOf(rows)?.status === "running") {
      // A limit of it has passed, but the store has not checked limits since then. After the check it reports which one.
      await store.expire();
      [[run], rows] = await look();
    }
    if (run === undefined || run.finishedAt !== undefined)
      return attemptOver(`its run has ended (${run?.status ?? "deleted"})`, run === undefined ? {} : causeOf(run));
    if (run.execution !== execution) return attemptOver("its run has continued as new");
    const row = rowOf(rows);
    if (row?.status === "failed" && row.error !== undefined) return reviveError(row.error); // one of its limits has passed
    return attemptOver(row?.error === undefined ? "its workflow canceled it" : "its lease expired, and another worker may have claimed it");
  } catch {
    return attemptOver(); // the store can't be asked now
  }
}

export function attemptOver(
  why = "it was canceled, it timed out, or another worker has claimed it",
  details: { cause?: Error } = {},
): HoldfastError {
  return new HoldfastError(`This attempt has ended: ${why}.`, { code: "HF_ATTEMPT_OVER", ...details });
}
function causeOf({ error }: RunRow): { cause?: Error } {
  return error === undefined ? {} : { cause: reviveError(error) };
}
