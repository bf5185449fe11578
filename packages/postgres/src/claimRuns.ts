// Claims and renewals: what is asked for, and what comes back.
// Owns: what a worker is said to serve, and the way from rows to claimed runs.
// Invariants: W1 V2 (only what is served), W5 (history is left out for who has it; whoever turns out not to have it gets it all the same).

import type { Turn } from "@holdfast/core";
import type { Answer, ClaimedRun, ClaimRequest, InboxMessage, Renewal, RunRow, TurnCommit } from "holdfast/store";
import { readNumber, readOptionalNumber, readText, text, type Value } from "./columns.ts";
import { isDamage } from "./failures.ts";
import { type HistoryRow, turnsOf } from "./history.ts";
import { type AttemptColumns, attemptRow, birthOf, type InboxColumns, inboxMessage, type RunColumns, runRow } from "./runs.ts";

/** w workflow, v version, a all of them. */
export function servedFields(serves: ClaimRequest["serves"]): string {
  return JSON.stringify(
    serves.flatMap(({ workflow, versions }): object[] => {
      const w = text(workflow);
      if (versions === "*") return [{ w, a: true }];
      return versions.map((version) => ({ w, v: version === undefined ? null : text(version), a: false }));
    }),
  );
}

export type ClaimRow = RunColumns & {
  readonly now: number;
  readonly next_at: number | null;
  readonly recovered: boolean | null;
  readonly recovered_from: string | null;
  readonly records: readonly HistoryRow[] | null;
  readonly attempts: readonly AttemptColumns[] | null;
  readonly inbox: readonly InboxColumns[] | null;
  readonly last_time: number | null;
};

/** A claim as it came; `records` are missing where the worker should have them. */
export interface Claim {
  readonly key: number;
  readonly run: RunRow;
  readonly records: readonly HistoryRow[] | undefined;
  readonly attempts: ClaimedRun["attempts"];
  readonly inbox: readonly InboxMessage[];
  readonly recovered: boolean;
  readonly recoveredFrom: string | undefined;
  readonly lastTime: number | undefined;
}
export function claimOf(row: ClaimRow): Claim {
  // The execution that it is at does not exist, or is one of another workflow or version.
  if (row["input"] === null) throw new TypeError("The run has no execution of its workflow and version.");
  const run = runRow(row);
  // It would begin anew, and do again what it has done.
  if (run.turns === 0 && run.historyLength > 0) throw new TypeError(`The run has no turns, and a history of ${run.historyLength} records.`);
  return {
    key: readNumber(row["key"] as Value),
    run,
    records: run.turns === 0 ? [] : (row.records ?? undefined),
    attempts: (row.attempts ?? []).map(attemptRow),
    inbox: (row.inbox ?? []).map(inboxMessage),
    recovered: row.recovered === true,
    recoveredFrom: row.recovered_from ?? undefined,
    lastTime: readOptionalNumber(row.last_time),
  };
}
/** What a commit needs to know of a claimed run, whatever else of it can be read. */
export function heldOf(row: ClaimRow, workerId: string): Pick<TurnCommit, "runId" | "execution" | "epoch" | "workerId"> {
  return { runId: readText(row["id"]), execution: readNumber(row["execution"]), epoch: readNumber(row["epoch"]), workerId };
}
export function nextAtOf(row: ClaimRow | undefined): number | undefined {
  return readOptionalNumber(row?.next_at);
}

/** Does the worker have as many turns of the same execution? */
export function isCached({ id, execution, turns }: RunRow, cached: ClaimRequest["cached"]): boolean {
  const known = cached(id);
  return known !== undefined && known.execution === execution && known.turns === turns;
}
export function claimedRun(claim: Claim, cached: ClaimRequest["cached"]): ClaimedRun {
  const { run, records, attempts, inbox, recovered, recoveredFrom, lastTime } = claim;
  const turns: Turn[] | undefined = isCached(run, cached) ? undefined : wholeHistory(run, records ?? []);
  return { run, turns, attempts, inbox, recovered, recoveredFrom, lastTime };
}
/** All that the row of the run counts, and no more: with a record less it would do again what it has done. */
function wholeHistory(run: RunRow, rows: readonly HistoryRow[]): Turn[] {
  const turns = turnsOf(rows, birthOf(run));
  const count = turns.reduce((sum, { jobs, commands }) => sum + jobs.length + commands.length, 0);
  const found = (turns.at(-1)?.index ?? -1) + 1;
  if (found !== run.turns || count !== run.historyLength)
    throw new TypeError(
      `The row of the run counts ${run.turns} turns and ${run.historyLength} records, and there are ${found} turns and ${count} records.`,
    );
  return turns;
}

// ── renewals ──

interface RenewAnswer {
  readonly lost: readonly number[] | null;
  /** Held, but not renewed: somebody has their row locked. */
  readonly busy: readonly number[] | null;
  readonly inbox: readonly (readonly [number, ...InboxColumns])[] | null;
}
export function renewals(count: number, answer: string): Answer<Renewal>[] {
  const { lost, busy, inbox } = JSON.parse(answer) as RenewAnswer;
  const results = Array.from({ length: count }, () => ({ held: true, inbox: [] as InboxMessage[] }));
  for (const i of lost ?? []) (results[i] as { held: boolean }).held = false;
  for (const [i, ...columns] of inbox ?? []) {
    try {
      results[i]?.inbox.push(inboxMessage(columns));
    } catch (error) {
      // A run whose messages can't be read is let go: the next claim blocks it. Those that are renewed with it are kept.
      if (!isDamage(error)) throw error;
      results[i] = { held: false, inbox: [] };
    }
  }
  return busy === null ? results : results.map((result, i) => (busy.includes(i) ? "busy" : result));
}
