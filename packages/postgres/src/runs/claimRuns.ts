// Claims and renewals: what is asked for, and what comes back.
// Owns: how the server is given what a worker serves, and how rows become claimed runs.
// Invariants: W1 V2 (only what is served), W5 (history is left out if the worker has it, and read if it turns out that it does not).

import { serializeError, type Turn } from "@holdfast/core";
import {
  type Answer,
  type ClaimedRun,
  type ClaimRequest,
  type ClaimResult,
  type InboxMessage,
  isolate,
  isRefusal,
  type Renewal,
  type RunRow,
  StoreCorruptError,
  type TurnCommit,
} from "holdfast/store";
import { numberArray, optionalText, readNumber, readOptionalNumber, readText, text, time, type Value } from "../columns.ts";
import { placeholders } from "../connection/functions.ts";
import { isDamage } from "../connection/serverErrors.ts";
import type { Context } from "../context.ts";
import { MOST_REFUSED } from "../refusals.ts";
import type { ExecutionStarts } from "./executionStarts.ts";
import { type HistoryRow, turnsOf } from "./history.ts";
import { readHistories } from "./readRuns.ts";
import { type AttemptColumns, attemptRow, executionStartOf, type InboxColumns, inboxMessage, type RunColumns, runRow } from "./runRow.ts";
import type { Slots } from "./slots.ts";

/** w workflow, v version, a all of them, q its queue, if that is another one. */
function servedFields(serves: ClaimRequest["serves"]): string {
  return JSON.stringify(
    serves.flatMap(({ workflow, versions, queue }): object[] => {
      const w = text(workflow);
      const q = optionalText(queue);
      if (versions === "*") return [{ w, a: true, q }];
      return versions.map((version) => ({ w, v: version === undefined ? null : text(version), a: false, q }));
    }),
  );
}

type ClaimRow = RunColumns & {
  readonly now: number;
  readonly next_at: number | null;
  readonly held_back: readonly number[] | null;
  readonly recovered: boolean | null;
  readonly recovered_from: string | null;
  readonly records: readonly HistoryRow[] | null;
  readonly attempts: readonly AttemptColumns[] | null;
  readonly inbox: readonly InboxColumns[] | null;
  readonly last_time: number | null;
  /** It is in a queue with limits. */
  readonly limited: boolean | null;
};

/** A claim as it came; `records` are missing where the worker should have them. */
interface Claim {
  readonly key: number;
  readonly run: RunRow;
  readonly records: readonly HistoryRow[] | undefined;
  readonly attempts: ClaimedRun["attempts"];
  readonly inbox: readonly InboxMessage[];
  readonly recovered: boolean;
  readonly recoveredFrom: string | undefined;
  readonly lastTime: number | undefined;
}
function claimOf(row: ClaimRow): Claim {
  // The execution that it is at does not exist, or is one of another workflow or version.
  if (row["input"] === null) throw new TypeError("The run has no execution of its workflow and version.");
  const run = runRow(row);
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
function heldOf(row: ClaimRow, workerId: string): Pick<TurnCommit, "runId" | "execution" | "epoch" | "workerId"> {
  return { runId: readText(row["id"]), execution: readNumber(row["execution"]), epoch: readNumber(row["epoch"]), workerId };
}
function nextAtOf(row: ClaimRow | undefined): number | undefined {
  return readOptionalNumber(row?.next_at);
}

/** Does the worker have as many turns of the same execution? */
function isCached({ id, execution, turns }: RunRow, cached: ClaimRequest["cached"]): boolean {
  const known = cached(id);
  return known !== undefined && known.execution === execution && known.turns === turns;
}
function claimedRun(claim: Claim, cached: ClaimRequest["cached"]): ClaimedRun {
  const { run, records, attempts, inbox, recovered, recoveredFrom, lastTime } = claim;
  const turns: Turn[] | undefined = isCached(run, cached) ? undefined : wholeHistory(run, records ?? []);
  return { run, turns, attempts, inbox, recovered, recoveredFrom, lastTime };
}
/** Exactly what the row of the run counts: with a record missing, the run would repeat what it has done. */
function wholeHistory(run: RunRow, rows: readonly HistoryRow[]): Turn[] {
  const turns = turnsOf(rows, executionStartOf(run));
  const count = turns.reduce((sum, { jobs, commands }) => sum + jobs.length + commands.length, 0);
  const found = (turns.at(-1)?.index ?? -1) + 1;
  if (found !== run.turns || count !== run.historyLength)
    throw new TypeError(
      `The row of the run counts ${run.turns} turns and ${run.historyLength} records, and there are ${found} turns and ${count} records.`,
    );
  return turns;
}

const MOST_CLAIMED = 10_000;

interface RunClaimsOptions {
  readonly executionStarts: ExecutionStarts;
  readonly slots: Slots;
  readonly commit: (turns: readonly TurnCommit[]) => Promise<unknown>;
  readonly expire: () => Promise<unknown>;
}

export class RunClaims {
  readonly #context: Context;
  readonly #options: RunClaimsOptions;
  readonly #sql: string;

  constructor(context: Context, options: RunClaimsOptions) {
    this.#context = context;
    this.#options = options;
    this.#sql = `SELECT * FROM ${context.place.s}.claim_runs_1(${placeholders(12)})`;
  }
  async claim(request: ClaimRequest): Promise<ClaimResult> {
    const most = Math.max(0, Math.min(request.limit, MOST_CLAIMED));
    if (request.blockedAfter !== undefined) await this.#options.expire(); // K7: a blocked run past its deadline would be passed over for good
    try {
      return await this.#claim(request, most, request.blockedOnly);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return this.#claimIsolated(request, most);
    }
  }
  /** A run that the server refuses to have claimed stops no other. */
  async #claimIsolated(request: ClaimRequest, most: number): Promise<ClaimResult> {
    const { blockedAfter } = request;
    const keys = await this.#claimable(request, blockedAfter === undefined ? most + MOST_REFUSED : most);
    const runs: ClaimedRun[] = [];
    let last: ClaimResult | undefined;
    const refused = await isolate(keys, async (some) => {
      if (runs.length >= most) return;
      last = await this.#claim(request, most - runs.length, some);
      runs.push(...last.runs);
    });
    this.#context.refusals.tell("A run", refused);
    // All were refused: an empty claim tells the time.
    last ??= await this.#claim(request, 0);
    const { now, nextAt } = last;
    const lastBlocked = blockedAfter !== undefined && keys.length === most ? keys.at(-1) : undefined;
    // The runs that were refused stay due: the worker looks again after a while.
    return { now, runs, nextAt: nextAt !== undefined && nextAt > now ? nextAt : undefined, lastBlocked };
  }
  /** What a claim may have, in order. */
  async #claimable({ queue, serves, blockedAfter, blockedOnly }: ClaimRequest, most: number): Promise<number[]> {
    const { connections, place, now } = this.#context;
    const { s } = place;
    const lanes = `(SELECT l.lane * f.sign AS lane, l.priority FROM (VALUES (1), (-1)) AS f(sign) CROSS JOIN ${s}.lanes l WHERE EXISTS (SELECT 1
      FROM json_to_recordset($3::json) AS x(w text, v text, a boolean, q text)
      WHERE coalesce(x.q, $2) = l.queue AND x.w = l.workflow AND (x.a OR x.v IS NOT DISTINCT FROM l.version))) l`;
    const due = `SELECT c.key FROM ${lanes} CROSS JOIN LATERAL (SELECT r.key, r.available_at FROM ${s}.runs r
        WHERE r.lane = l.lane AND r.available_at <= ${s}.clock_1($1::bigint) ORDER BY r.available_at, r.key LIMIT $4) c
      ORDER BY l.priority DESC, c.available_at, c.key LIMIT $4`;
    const blocked = `SELECT r.key FROM ${s}.runs r JOIN ${lanes} ON l.lane = r.lane
      WHERE r.blocked_code IS NOT NULL AND r.status = 'blocked' AND r.key > $1 ORDER BY r.key LIMIT $4`;
    const from = blockedAfter ?? now();
    const values = [from, text(queue), servedFields(serves), most];
    const rows = await connections.query<{ key: number }>(blockedAfter === undefined ? due : blocked, values);
    return rows.map(({ key }) => Number(key)).filter((key) => blockedOnly?.includes(key) !== false);
  }
  /** `only`: of these runs, by key. */
  async #claim(request: ClaimRequest, most: number, only?: readonly number[]): Promise<ClaimResult> {
    const { connections, now } = this.#context;
    const { workerId, queue, serves, lease, cached, blockedAfter = null } = request;
    const among = only === undefined ? null : numberArray(only);
    const values = [now(), text(workerId), text(queue), servedFields(serves), most, time(lease), blockedAfter, among];
    const rows = await connections.call<ClaimRow>(() => ({ sql: this.#sql, values }), { tellAgain: true });
    const found = rows.filter((row) => row["key"] !== null);
    const broken = new Map<number, unknown>();
    const readable = <T>(key: number, read: () => T): T[] => {
      try {
        return [read()];
      } catch (error) {
        if (!isDamage(error)) throw error;
        broken.set(key, error);
        return [];
      }
    };
    const read = found.flatMap((row) => readable(Number(row["key"]), () => claimOf(row)));
    const claims = await this.#withHistories(read, cached);
    const runs = claims.flatMap((claim) => readable(claim.key, () => claimedRun(claim, cached)));
    for (const { run } of runs) if (run.turns === 0) this.#options.executionStarts.remember(run);
    for (const row of found) if (row.limited === true) this.#options.slots.hold(readText(row["id"]));
    if (broken.size > 0) await this.#block(found.flatMap((row) => this.#blocking(row, workerId, broken)));
    const next = nextAtOf(rows[0]);
    const first = { now: Number(rows[0]?.now), runs };
    if (blockedAfter === null) return { ...first, nextAt: next };
    return { ...first, nextAt: undefined, lastBlocked: next, heldBack: rows[0]?.held_back ?? [] };
  }
  /** Runs whose rows can't be read are blocked: no claim finds them until their rows are fixed and `resume` is called. */
  async #block(commits: readonly TurnCommit[]): Promise<void> {
    // A run that can't be blocked now is claimed again when its lease ends; those that were claimed with it must not wait for that.
    await isolate(commits, this.#options.commit).catch(() => undefined);
  }
  #blocking(row: ClaimRow, workerId: string, broken: ReadonlyMap<number, unknown>): TurnCommit[] {
    const key = Number(row["key"]);
    if (!broken.has(key)) return [];
    const error = serializeError(new StoreCorruptError({ where: this.#context.place.where, cause: broken.get(key) }));
    // The inbox was not read: messages in it are no reason to try at once.
    const seen = Number.MAX_SAFE_INTEGER;
    return [{ ...heldOf(row, workerId), status: "blocked", lease: "park", seen, blocked: { error, code: "" } }];
  }
  /** The server leaves out the history of runs that this worker parked; the worker may have discarded it since. */
  async #withHistories(claims: readonly Claim[], cached: ClaimRequest["cached"]): Promise<readonly Claim[]> {
    const missing = claims.filter(({ run, records }) => records === undefined && !isCached(run, cached));
    if (missing.length === 0) return claims;
    const histories = await readHistories(this.#context.connections, this.#context.place.s, missing);
    return claims.map((claim) => (claim.records === undefined ? { ...claim, records: histories.get(claim.key) } : claim));
  }
}

// ── renewals ──

interface RenewAnswer {
  readonly lost: readonly number[] | null;
  /** Held, but not renewed: another transaction has locked their row. */
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
      // A run whose messages can't be read counts as lost: the next claim blocks it. Those that are renewed with it are kept.
      if (!isDamage(error)) throw error;
      results[i] = { held: false, inbox: [] };
    }
  }
  return busy === null ? results : results.map((result, i) => (busy.includes(i) ? "busy" : result));
}
