// Why the attempt of an activity is over, in words: the reason that its signal carries.
// Owns: the wording.
// Invariants: C7 D11 (what is given up is told, and why); asked only once it is over, so that nothing else waits for it.

import { HoldfastError, reviveError } from "@holdfast/core";
import type { ClaimedTask, RunRow, Store } from "../store/port.ts";

/** Of an activity that the store says is over. */
export async function whyOver(store: Store, task: ClaimedTask): Promise<Error> {
  const { runId, execution, seq, attempt } = task;
  try {
    const look = () => Promise.all([store.get([runId]), store.attempts(runId)]);
    const rowOf = (rows: Awaited<ReturnType<Store["attempts"]>>) =>
      rows.find((one) => one.task === true && one.seq === seq && one.number === attempt);
    let [[run], rows] = await look();
    if (rowOf(rows)?.status === "running") {
      // Its time is up, but the store has not looked at limits since. Once it has, it says which one has passed.
      await store.expire();
      [[run], rows] = await look();
    }
    if (run === undefined || run.finishedAt !== undefined)
      return over(`its run is over (${run?.status ?? "deleted"})`, run === undefined ? {} : causeOf(run));
    if (run.execution !== execution) return over("its run has continued as new");
    const row = rowOf(rows);
    if (row?.status === "failed" && row.error !== undefined) return reviveError(row.error); // one of its limits has passed
    return over(row?.error === undefined ? "it was given up by its workflow" : "its lease ran out, and another worker may have it");
  } catch {
    return over(); // the store can't be asked just now
  }
}

export function over(why = "canceled, timed out, or another worker has it", details: { cause?: Error } = {}): HoldfastError {
  return new HoldfastError(`This attempt is over: ${why}.`, { code: "HF_ATTEMPT_OVER", ...details });
}
function causeOf({ error }: RunRow): { cause?: Error } {
  return error === undefined ? {} : { cause: reviveError(error) };
}
