// The Postgres store: the port, on one schema of a database.
// Owns: the connections, and how calls of the port become calls of the server; what those do is in `schema`.
// Invariants: those of the port. One statement a batch (D3); the server's clock; a call that is repeated is carried out once.

import { DeadlineExceededError, type Payload, type RunStatus, RunTerminatedError, serializeError, type Turn } from "@holdfast/core";
import {
  type AddressedMessage,
  type Answer,
  type AttemptRow,
  type ClaimedTask,
  type ClaimRequest,
  type ClaimResult,
  type CommitResult,
  type CreateResult,
  type Heartbeat,
  type HeldClaim,
  type InboxMessage,
  isRefusal,
  type NewRun,
  type OutageListener,
  type Renewal,
  type ResumeResult,
  type RunQuery,
  type RunRow,
  type SendResult,
  type Store,
  StoreClosedError,
  StoreCorruptError,
  StoreRefusedError,
  type StoreWithin,
  type TaskAnswer,
  type TaskClaimRequest,
  type Termination,
  type TurnCommit,
  type UpdateOutcome,
  type Wakeup,
} from "holdfast/store";
import { escapeIdentifier } from "pg";
import { type Alone, Alones } from "./alone.ts";
import { askIn } from "./callers.ts";
import { type Claim, type ClaimRow, claimedRun, claimOf, heldOf, isCached, nextAtOf, renewals, servedFields } from "./claimRuns.ts";
import { json, optionalPayload, readText, text, time } from "./columns.ts";
import { type BirthOf, changesOf, commitBatch, commitResults, type SentAnswer, sendResult } from "./commitTurns.ts";
import { type CallOptions, Connections, type Parameter, type QueryOptions, type Session, type Statement } from "./connections.ts";
import { createBatch, createResults } from "./createRuns.ts";
import { isDamage } from "./failures.ts";
import { type Lane, Names } from "./names.ts";
import { Notices } from "./notices.ts";
import {
  checkedConnectionString,
  checkedSchema,
  type FromUrlOptions,
  GENERAL_WAY,
  type InternalOptions,
  optionsOf,
  type PostgresStoreOptions,
  whereOf,
} from "./options.ts";
import { Patrol } from "./patrol.ts";
import {
  countRuns,
  listRuns,
  parseCursor,
  type RejectedAnswer,
  readAttempts,
  readHistories,
  readHistory,
  readRuns,
  readUpdates,
  readWorkers,
  rejectedOutcome,
} from "./readRuns.ts";
import type { Birth } from "./recordCodec.ts";
import { addressedFields, birthOf } from "./runs.ts";
import { migrate, type Place } from "./schema/migrate.ts";
import { checkSettings } from "./schema/settings.ts";
import { answerFields, claimedTask, damagedFields, type LateTask, lateFields, type TaskClaimAnswer } from "./tasks.ts";
import { type TransactionClaim, Transactions } from "./transact.ts";

type Message = AddressedMessage;

const DEFAULT_CONNECTIONS = 4;
const DEFAULT_PATIENCE_MS = 30_000;
/** At the first connection a server that says it is starting is waited for, one that is not there is soon said to be missing. */
const OPEN_PATIENCE_MS = 5_000;
const MOST_ITEMS = 1_000;
/** Far below what a parameter may have, and so little that no other call waits for long. */
const MOST_BYTES = 8_000_000;
const LATE_AT_ONCE = 500;
/** Each is a transaction inside of the transaction: more than 64 of those make others slow. */
const MAIL_AT_ONCE = 60;
const RETIRED_AT_ONCE = 100;
/** Runs that were claimed before their first turn, whose start need not say again what is known. */
const MOST_BIRTHS = 10_000;

const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

/** Goes with others of its kind, in a few statements for all of them. */
function isPlain({ job, idempotencyKey }: Message["message"]): boolean {
  return job.type === "update" || (job.type === "signal" && idempotencyKey === undefined);
}
/** No update is asked for twice. */
function areDistinct(messages: readonly Message[]): boolean {
  const ids = messages.flatMap(({ runId, message: { job } }) => (job.type === "update" ? [`${job.id} ${runId}`] : []));
  return new Set(ids).size === ids.length;
}

export class PostgresStore implements Store {
  readonly #options: PostgresStoreOptions;
  readonly #place: Place;
  readonly #clock: (() => number) | undefined;
  readonly #watchers = new Set<{ readonly watcher: (wakeup: Wakeup) => void; stop: () => void }>();
  readonly #outageWatchers = new Set<{ readonly listener: OutageListener; stop: () => void }>();
  /** While the server carries out one batch, the process makes the next: two keep both at work. */
  readonly limits = { items: MOST_ITEMS, bytes: MOST_BYTES, calls: 2 } as const;
  readonly #claimRuns: string;
  readonly #statements = new Map<string, string>();
  readonly #alones: Alones;
  readonly #isGeneral: boolean;
  /** Undefined: as they are. */
  readonly #goesPlain: (() => false) | undefined;
  readonly #births = new Map<string, Birth & { execution: number }>();
  /** The latest time that deadlines were looked at. */
  #latest: number | undefined;
  #opened: Opened | undefined;
  #opening: Promise<void> | undefined;
  #retired: { at: number; key: number } | undefined;
  #patrol: Patrol | undefined;

  constructor(options: PostgresStoreOptions) {
    const schema = checkedSchema(options.schema);
    this.#options = { ...options, connectionString: checkedConnectionString(options.connectionString) };
    this.#place = { schema, s: escapeIdentifier(schema), where: whereOf(options.connectionString, schema) };
    this.#clock = options.clock;
    this.#alones = new Alones(this.#place.s);
    this.#isGeneral = (options as InternalOptions)[GENERAL_WAY] === true;
    this.#goesPlain = this.#isGeneral ? () => false : undefined;
    this.#claimRuns = `SELECT * FROM ${this.#place.s}.claim_runs_1(${placeholders(11)})`;
  }
  static fromUrl(url: string, options?: FromUrlOptions): PostgresStore {
    return new PostgresStore(optionsOf(url, options));
  }

  // ── opening, closing ──

  open(): Promise<void> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }
  async #open(): Promise<void> {
    const {
      connectionString,
      connections: most = DEFAULT_CONNECTIONS,
      patience = DEFAULT_PATIENCE_MS,
      noAnswer,
      logger = QUIET,
      listen = true,
    } = this.#options;
    const { s, where } = this.#place;
    const connections = new Connections({ connectionString, connections: most, s, where, patience, noAnswer, logger });
    const notices = new Notices(connections, this.#place, logger, () => void this.#deliverMail().catch(() => undefined));
    try {
      const prepare = async (session: Session): Promise<void> => {
        await checkSettings(session, this.#place);
        await migrate(session, this.#place);
      };
      await connections.firstSession(prepare, Math.min(patience, OPEN_PATIENCE_MS));
      await notices.start(listen);
    } catch (error) {
      await connections.close();
      throw error;
    }
    this.#opened = {
      connections,
      notices,
      names: new Names(connections, s),
      transactions: new Transactions(connections, s, () => this.#given()),
    };
    this.#patrol = new Patrol({ connections, s, where, now: () => this.#given() });
    await this.#goOn(this.#patrol);
    for (const one of this.#watchers) one.stop = notices.watch(one.watcher);
    for (const one of this.#outageWatchers) one.stop = connections.outage.watch(one.listener);
  }
  async #goOn(patrol: Patrol): Promise<void> {
    let count = 0;
    try {
      count = await patrol.goOn();
      if (patrol.isOver) this.#patrol = undefined;
    } catch (error) {
      // The next store that is opened looks again.
      this.#patrol = undefined;
      this.#options.logger?.warn("Runs that wait could not be looked through for damage.", { error });
    }
    if (count === 0) return;
    const message = `${count} runs, messages or activities in ${this.#place.where} would never have been taken up: something else has written to their rows. They are put right, or blocked.`;
    this.#options.logger?.error(message, { count });
    this.#tell({ work: true, messages: true, tasks: true, results: true });
  }
  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const opened = this.#opened;
    this.#opened = undefined;
    this.#opening = undefined;
    // Idle connections keep no process alive: something has to, until they are closed.
    const alive = setInterval(() => undefined, 60_000);
    try {
      await opened?.notices.stop();
      await opened?.connections.close();
    } finally {
      clearInterval(alive);
    }
  }
  async now(): Promise<number> {
    if (this.#clock !== undefined) return this.#clock();
    const [row] = await this.#query<{ now: number }>(`SELECT ${this.#place.s}.clock_1(NULL) AS now`);
    return row?.now ?? Date.now();
  }
  watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    const one = { watcher: onWakeup, stop: this.#opened?.notices.watch(onWakeup) ?? (() => undefined) };
    this.#watchers.add(one);
    return () => {
      this.#watchers.delete(one);
      one.stop();
    };
  }

  watchOutages(listener: OutageListener): () => void {
    const one = { listener, stop: this.#opened?.connections.outage.watch(listener) ?? (() => undefined) };
    this.#outageWatchers.add(one);
    return () => {
      this.#outageWatchers.delete(one);
      one.stop();
    };
  }

  // ── how calls are carried out ──

  #use(): Opened {
    if (this.#opened === undefined) throw new StoreClosedError({ where: this.#place.where });
    return this.#opened;
  }
  /** The time of a test. Null: the server's. */
  #given(): number | null {
    return this.#clock?.() ?? null;
  }
  async #query<R extends object>(sql: string, values: readonly Parameter[] = [], how: QueryOptions = {}): Promise<R[]> {
    return this.#use().connections.query<R>(sql, values, how);
  }
  /** The call of a function that gives one answer. The same text each time: connections know it by that. */
  #sqlOf(name: string, parameters: number): string {
    const known = this.#statements.get(name);
    if (known !== undefined) return known;
    const sql = `SELECT ${this.#place.s}.${name}(${placeholders(parameters)}) AS answer`;
    this.#statements.set(name, sql);
    return sql;
  }
  /** A function that writes nothing, or the same again if it is asked twice. */
  async #ask(name: string, values: readonly Parameter[], how: QueryOptions = {}): Promise<string> {
    const [row] = await this.#query<{ answer: string | number }>(this.#sqlOf(name, values.length), values, how);
    return String(row?.answer ?? "");
  }
  /** A function that must not be carried out twice. Where its parameters are given by a function, that is asked if they are needed. */
  async #call(name: string, values: readonly Parameter[] | (() => readonly Parameter[]), how: CallOptions = {}): Promise<string> {
    const statementOf = (): Statement => {
      const given = typeof values === "function" ? values() : values;
      return { sql: this.#sqlOf(name, given.length + 3), values: given };
    };
    const [row] = await this.#use().connections.call<{ answer: string }>(statementOf, how);
    return row?.answer ?? "{}";
  }

  /** A statement for one item that has a call to itself, if there is one for it. */
  #alone<T>(items: readonly T[], make: (item: T) => Alone | undefined): Alone | undefined {
    return items.length === 1 && !this.#isGeneral ? this.#encoded(() => make(items[0] as T)) : undefined;
  }
  /** What can't be put into a statement is refused before the server sees it. */
  #encoded<T>(make: () => T): T {
    try {
      return make();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      // biome-ignore lint/style/useErrorCause: it is among the details
      throw new StoreRefusedError({ where: this.#place.where, reason, cause: error });
    }
  }

  /** What is written is written: that nobody can be told any more is no failure of it. */
  #tell(here: Wakeup, elsewhere?: Wakeup): void {
    this.#opened?.notices.tell(here, elsewhere);
  }

  // ── runs ──

  async create(runs: readonly NewRun[]): Promise<Answer<CreateResult>[]> {
    if (runs.length === 0) return [];
    const { names } = await this.#know(runs, firstTurns(runs));
    const now = this.#given();
    const batch = lazily(() => createBatch(runs, names, this.#goesPlain));
    const alone = this.#alone(runs, (run) => this.#alones.run(run, now, names));
    const values = (): Parameter[] => [now, ...this.#encoded(batch).parameters, null, null];
    const results = createResults(runs, batch, await this.#call("create_runs_1", values, { alone, isBatch: true }));
    this.#tellCreated(runs, results);
    return results;
  }
  #tellCreated(runs: readonly NewRun[], results: readonly Answer<CreateResult>[]): void {
    const isNew = results.map((result) => result !== "busy" && result.status === "created");
    const first = runs.flatMap(({ first }, i) => (first !== undefined && isNew[i] === true ? [first.commit] : []));
    const { here, elsewhere } = changesOf(first, first.map(() => ({ status: "committed", inbox: [] })), false, false); // biome-ignore format: one call
    const work = runs.some((run, i) => (run.first === undefined && isNew[i] === true) || (run.messages?.length ?? 0) > 0);
    const family = runs.some(({ parent, messages }) => parent !== undefined || (messages?.length ?? 0) > 0);
    const parked = first.some(({ lease, close }) => lease === "park" && close === undefined);
    const more = { work: here.work === true || work || family || parked, messages: here.messages === true || family };
    this.#tell({ ...here, ...more }, { ...elsewhere, ...more });
  }
  async commit(turns: readonly TurnCommit[]): Promise<Answer<CommitResult>[]> {
    if (turns.length === 0) return [];
    const known = this.#know(turns.flatMap(({ children }) => children ?? []), turns); // biome-ignore format: one call
    const { names, notices } = known instanceof Promise ? await known : known;
    const now = this.#given();
    const birthOf = this.#birthsOf(turns);
    const batch = lazily(() => commitBatch(turns, names, birthOf, this.#goesPlain));
    const alone = this.#alone(turns, (commit) => this.#alones.turn(commit, now, names, birthOf(commit)));
    const values = (): Parameter[] => [now, ...this.#encoded(batch).parameters];
    const answer = await this.#call("commit_turns_1", values, { areTurns: true, alone, isBatch: true });
    const { results, due, family } = commitResults(turns, batch, answer);
    const { here, elsewhere } = changesOf(turns, results, due, family);
    notices.tell(here, elsewhere);
    return results;
  }
  /** Of runs that were claimed before their first turn: their start says what the claim has brought. */
  #birthsOf(turns: readonly TurnCommit[]): BirthOf {
    const births = new Map<TurnCommit, Birth>();
    for (const commit of turns) {
      if (commit.turn?.jobs[0]?.type !== "start") continue;
      const birth = this.#births.get(commit.runId);
      this.#births.delete(commit.runId);
      if (birth?.execution === commit.execution) births.set(commit, birth);
    }
    return (commit) => births.get(commit);
  }
  /** Numbers of all names that a call refers to. */
  #know(runs: readonly NewRun[], turns: readonly TurnCommit[]): Opened | Promise<Opened> {
    const opened = this.#use();
    const lanes: Lane[] = [...runs, ...runs.flatMap(({ first }) => first?.commit.children ?? [])];
    const workers = turns.map(({ workerId }) => workerId);
    return opened.names.areKnown(lanes, workers) ? opened : opened.names.know(lanes, workers).then(() => opened);
  }
  async claim(request: ClaimRequest): Promise<ClaimResult> {
    const { connections } = this.#use();
    const { workerId, queue, serves, limit, lease, cached, blockedAfter = null } = request;
    if (blockedAfter !== null) await this.expire(); // K7: a blocked run that it would pass over is not passed over for good
    const most = Math.max(0, Math.min(limit, MOST_ITEMS * 10));
    const values = [this.#given(), text(workerId), text(queue), servedFields(serves), most, time(lease), blockedAfter];
    const rows = await connections.call<ClaimRow>(() => ({ sql: this.#claimRuns, values }), { tellAgain: true });
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
    for (const { run } of runs) if (run.turns === 0) this.#remember(run);
    if (broken.size > 0) await this.#block(found.flatMap((row) => this.#blocking(row, workerId, broken)));
    const last = found.length > 0 && found.length === most ? Math.max(...found.map((row) => Number(row["key"]))) : undefined;
    return { now: Number(rows[0]?.now), runs, nextAt: nextAtOf(rows[0]), lastBlocked: blockedAfter === null ? undefined : last };
  }
  /** Runs whose rows can't be read: out of the way of others, until somebody has mended them and calls `resume`. */
  async #block(commits: readonly TurnCommit[]): Promise<void> {
    // What can't be blocked now is claimed again when its lease is over; those that were claimed with it are not to wait for that.
    await inHalves(commits, async (some) => void (await this.commit(some))).catch(lateAgain);
  }
  #blocking(row: ClaimRow, workerId: string, broken: ReadonlyMap<number, unknown>): TurnCommit[] {
    const key = Number(row["key"]);
    if (!broken.has(key)) return [];
    const error = serializeError(new StoreCorruptError({ where: this.#place.where, cause: broken.get(key) }));
    // Nobody has read its inbox: what is in there is no reason to try at once.
    const seen = Number.MAX_SAFE_INTEGER;
    return [{ ...heldOf(row, workerId), status: "blocked", lease: "park", seen, blocked: { error, code: "" } }];
  }
  #remember(run: RunRow): void {
    if (this.#births.size >= MOST_BIRTHS) this.#births.clear();
    this.#births.set(run.id, { ...birthOf(run), execution: run.execution });
  }
  /** The server leaves out the history of runs that this worker parked; it may have let go of them since. */
  async #withHistories(claims: readonly Claim[], cached: ClaimRequest["cached"]): Promise<readonly Claim[]> {
    const missing = claims.filter(({ run, records }) => records === undefined && !isCached(run, cached));
    if (missing.length === 0) return claims;
    const histories = await readHistories(this.#use().connections, this.#place.s, missing);
    return claims.map((claim) => (claim.records === undefined ? { ...claim, records: histories.get(claim.key) } : claim));
  }
  async renew(workerId: string, lease: number, claims: readonly HeldClaim[], wait = false): Promise<Answer<Renewal>[]> {
    if (claims.length === 0) return [];
    const fields = claims.map(({ runId, epoch, seen }, i) => ({ i, id: text(runId), e: epoch, seen }));
    const values = [this.#given(), text(workerId), time(lease), JSON.stringify(fields), wait];
    return renewals(claims.length, await this.#ask("renew_leases_1", values, { isBatch: true }));
  }
  async send(messages: readonly Message[], wait = false): Promise<Answer<SendResult>[]> {
    if (messages.length === 0) return [];
    const fieldsOf = (message: Message, o: number) => ({ o, ...addressedFields(message) });
    const fields = this.#encoded(() => JSON.stringify(messages.map(fieldsOf)));
    const arePlain = !this.#isGeneral && messages.every(({ message }) => isPlain(message)) && areDistinct(messages);
    const values = [this.#given(), arePlain ? fields : null, arePlain ? null : fields, wait];
    const answer = await this.#call("send_messages_1", values, { isBatch: true });
    this.#tell({ work: true, messages: true, results: messages.some(({ message }) => message.job.type === "cancel") });
    return (JSON.parse(answer) as (SentAnswer | null)[]).map((sent) => (sent === null ? "busy" : sendResult(sent)));
  }
  async terminate(runs: readonly Termination[]): Promise<Answer<SendResult>[]> {
    if (runs.length === 0) return [];
    const fields = runs.map(({ runId, reason }) => {
      const error = new RunTerminatedError(reason === undefined ? { runId } : { runId, reason });
      return { r: text(runId), e: json(serializeError(error)) };
    });
    const answer = await this.#call("terminate_runs_1", [this.#given(), JSON.stringify(fields)], { isBatch: true });
    this.#tell({ work: true, messages: true, results: true });
    return (JSON.parse(answer) as SentAnswer[]).map(sendResult);
  }
  async resume(runIds: readonly string[]): Promise<Answer<ResumeResult>[]> {
    if (runIds.length === 0) return [];
    const answer = await this.#call("resume_runs_1", [this.#given(), JSON.stringify(runIds.map(text))], { isBatch: true });
    this.#tell({ work: true, messages: true });
    return JSON.parse(answer) as ResumeResult[];
  }

  // ── what time does ──

  async expire(): Promise<number> {
    const refusals: unknown[] = [];
    const refused = (error: unknown): void => {
      if (!isRefusal(error)) throw error;
      refusals.push(error);
    };
    if (this.#patrol !== undefined) await this.#goOn(this.#patrol);
    let total = 0;
    const expireRuns = async (late: readonly LateRun[]): Promise<void> => {
      const count = await this.#expire(late);
      if (count > 0) this.#tell({ work: true, messages: true, results: true });
      total += count;
    };
    for (let isOver = false; !isOver; ) {
      const answer = await this.#ask("overdue_1", [this.#given(), LATE_AT_ONCE, this.#latest === undefined]);
      const { now, runs, tasks, mail, back } = JSON.parse(answer) as Overdue;
      if (back || now < (this.#latest ?? now)) await this.#ask("cut_leases_1", [this.#given()]);
      this.#latest = Math.max(now, this.#latest ?? now);
      if (mail) await this.#deliverMail().catch(refused);
      if (tasks !== null) await this.#sweepAll(now, tasks).catch(refused);
      const before = total;
      const late = (runs ?? []).map(lateRun);
      if (late.length > 0) await inHalves(late, expireRuns).catch(refused);
      isOver = late.length < LATE_AT_ONCE || total === before;
    }
    if (refusals.length > 0) throw refusals[0];
    return total;
  }
  async #expire(runs: readonly LateRun[], wait = false): Promise<number> {
    const { n, b } = JSON.parse(await this.#ask("expire_runs_1", [this.#given(), JSON.stringify(runs), wait])) as Expired;
    if (b === null || wait) return n; // what somebody keeps locked is looked at again with the next call
    return n + (await this.#expire(runs.filter(({ r }) => b.includes(r)), true)); // biome-ignore format: one line
  }
  /** Ends attempts whose time is up. Those whose run somebody has locked are left. */
  async #sweep(now: number, tasks: readonly LateTask[], wait = false): Promise<readonly LateTask[]> {
    const fields = tasks.flatMap((task, i) => lateFields(task, now, i) ?? []);
    const left: LateTask[] = [];
    await inHalves(fields, async (late) => {
      const { taken, busy } = await this.#settle(late, wait);
      if (taken.length > 0) this.#tell({ work: true, messages: true, tasks: true });
      left.push(...tasks.filter((_, i) => busy?.includes(i) === true));
    });
    return left;
  }
  /** What somebody keeps locked is looked at again with the next call. */
  async #sweepAll(now: number, tasks: readonly LateTask[]): Promise<void> {
    const left = await this.#sweep(now, tasks);
    if (left.length > 0) await this.#sweep(now, left, true);
  }
  async #settle(fields: readonly object[], wait: boolean, how: CallOptions = {}): Promise<Settled> {
    const values = [this.#given(), JSON.stringify(fields), wait];
    const settled = JSON.parse(await this.#call("settle_tasks_1", values, how)) as Settled;
    if (settled.late !== null) await this.#expireNow(settled.late.map(lateRun)).catch(lateAgain);
    return settled;
  }
  /** K7: they can't meet their deadline any more. If this fails, the deadline itself ends them. */
  async #expireNow(runs: readonly LateRun[]): Promise<void> {
    const count = await this.#expire(runs.map((run) => ({ ...run, n: true })));
    if (count > 0) this.#tell({ work: true, messages: true, results: true });
  }
  async #sweepOverdue(): Promise<void> {
    const { now, tasks } = JSON.parse(await this.#ask("overdue_1", [this.#given(), LATE_AT_ONCE, false])) as Overdue;
    if (tasks !== null) await this.#sweep(now, tasks);
  }
  async #deliverMail(): Promise<void> {
    for (let wait = false; ; ) {
      const { n, b } = JSON.parse(await this.#ask("deliver_mail_1", [this.#given(), MAIL_AT_ONCE, wait])) as Delivered;
      if (n > 0) this.#tell({ work: true, messages: true, results: true });
      if (n === MAIL_AT_ONCE) continue;
      if (wait || !b) return; // what is for a run that somebody keeps locked is looked at again with the next call
      wait = true;
    }
  }
  /** One look after the other, from the oldest on; what must stay is passed over until the next time round. */
  async retire(): Promise<number> {
    const { retention, archive = false } = this.#options;
    if (retention === undefined) return 0;
    const before = (await this.now()) - retention;
    for (;;) {
      const { at, key } = this.#retired ?? { at: Number.MIN_SAFE_INTEGER, key: 0 };
      const answer = JSON.parse(await this.#ask("retire_runs_1", [before, at, key, RETIRED_AT_ONCE, archive])) as Retired;
      this.#retired = answer.seen < RETIRED_AT_ONCE ? undefined : { at: answer.at, key: answer.key };
      if (answer.gone > 0 || this.#retired === undefined) return answer.gone;
    }
  }

  // ── transactions ──

  transact(claim: TransactionClaim, body: (tx: unknown) => Payload | Promise<Payload>): Promise<InboxMessage | "stale"> {
    return this.#use().transactions.run(claim, body);
  }
  within(tx: unknown): StoreWithin {
    const ask = askIn(tx);
    const { s } = this.#place;
    const post = async (messages: readonly Message[]): Promise<SendResult[]> => {
      if (messages.length === 0) return [];
      const { notices } = this.#use();
      const fields = messages.map(addressedFields);
      const values = [this.#given(), notices.channel, notices.notice("mail"), JSON.stringify(fields)];
      const answer = await ask(`SELECT ${s}.post_mail_1($1, $2, $3, $4) AS answer`, values);
      return (JSON.parse(answer ?? "[]") as SentAnswer[]).map(sendResult);
    };
    const create = async (run: NewRun): Promise<CreateResult> => {
      const messages = run.messages ?? [];
      // A run that a worker may have must not be locked for as long as this transaction lasts: its messages go by mail.
      const isOpen =
        messages.length > 0 && run.onConflict !== "reject"
          ? await ask(`SELECT execution::text FROM ${s}.runs WHERE id = $1 AND finished_at IS NULL`, [text(run.id)])
          : null;
      const { names, notices } = await this.#know([run], firstTurns([run]));
      const batch = createBatch([isOpen === null ? run : { ...run, messages: undefined }], names);
      // Nor is one that is there already: nothing is written to it, unless it has ended and begins again.
      const [rows, records, states, others] = batch.parameters;
      const runs = [rows, records, states, others, null, null];
      const values = [null, null, null, this.#given(), ...runs, notices.channel, notices.notice("work")];
      const answer = await ask(`SELECT ${s}.create_runs_1(${placeholders(values.length)}) AS answer`, values);
      const [result] = createResults([run], () => batch, answer ?? "{}") as [CreateResult];
      if (isOpen === null || result.status !== "existing") return result;
      const sent = await post(messages.map((message) => ({ runId: result.id, message })));
      return { ...result, inboxIds: sent.map((one) => ("inboxId" in one ? one.inboxId : 0)) };
    };
    return {
      create: async (runs) => {
        const results: CreateResult[] = [];
        for (const run of runs) results.push(await create(run));
        return results;
      },
      send: post,
    };
  }

  // ── activities ──

  async claimTasks(request: TaskClaimRequest): Promise<{ now: number; tasks: ClaimedTask[]; nextAt: number | undefined }> {
    const answer = await this.#claimTasks(request);
    if (!answer.overdue) return answer;
    await this.#sweepOverdue().catch(lateAgain); // what was claimed is to be carried out
    const left = request.limit - answer.tasks.length;
    const { now, tasks, nextAt } = left <= 0 ? { ...answer, tasks: [] } : await this.#claimTasks({ ...request, limit: left });
    return { now, tasks: [...answer.tasks, ...tasks], nextAt };
  }
  async #claimTasks(
    request: TaskClaimRequest,
  ): Promise<{ now: number; tasks: ClaimedTask[]; nextAt: number | undefined; overdue: boolean }> {
    const { workerId, queue, activities, limit, lease } = request;
    const values = [
      this.#given(),
      text(workerId),
      text(queue),
      JSON.stringify(activities.map(text)),
      Math.max(0, Math.min(limit, MOST_ITEMS)),
      time(lease),
      request.known === undefined ? null : JSON.stringify(request.known),
    ];
    const sql = this.#sqlOf("claim_tasks_1", 11);
    const [row] = await this.#use().connections.call<{ answer: string }>(() => ({ sql, values }), { tellAgain: true });
    const { now, next, overdue, tasks } = JSON.parse(row?.answer ?? "{}") as TaskClaimAnswer;
    const broken: object[] = [];
    const readable = (tasks ?? []).flatMap((row, i) => {
      try {
        return [claimedTask(row)];
      } catch (error) {
        if (!isDamage(error)) throw error;
        broken.push(damagedFields(row, i, new StoreCorruptError({ where: this.#place.where, cause: error })));
        return [];
      }
    });
    // What can't be written now is claimed again when its lease is over; those that were claimed with it are not to wait for that.
    if (broken.length > 0) await this.#settle(broken, true).then(() => this.#tell({ work: true, messages: true }), lateAgain);
    return { now, tasks: readable, nextAt: next ?? undefined, overdue };
  }
  async heartbeat(beats: readonly Heartbeat[]): Promise<Answer<boolean>[]> {
    if (beats.length === 0) return [];
    const fieldsOf = ({ id, token, lease, details }: Heartbeat, i: number) => {
      return { i, id, token, lease: time(lease), details: optionalPayload(details) };
    };
    const fields = this.#encoded(() => JSON.stringify(beats.map(fieldsOf)));
    const { held, overdue } = JSON.parse(await this.#ask("heartbeat_1", [this.#given(), fields], { isBatch: true })) as Beaten;
    if (overdue) await this.#sweepOverdue().catch(lateAgain);
    return beats.map((_, i) => held?.includes(i) === true);
  }
  async answerTasks(answers: readonly TaskAnswer[], wait = false): Promise<Answer<boolean>[]> {
    if (answers.length === 0) return [];
    const fields = this.#encoded(() => answers.map(answerFields));
    const { taken, busy, overdue } = await this.#settle(fields, wait, { isBatch: true });
    this.#tell({ work: true, messages: true, tasks: answers.some(({ outcome }) => outcome.status === "failed") });
    if (overdue) await this.#sweepOverdue().catch(lateAgain);
    return answers.map((_, i) => (busy?.includes(i) === true ? "busy" : taken.includes(i)));
  }

  // ── reading ──

  /** A row that is none of ours: somebody has changed it. */
  async #understood<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      throw isDamage(error) ? new StoreCorruptError({ where: this.#place.where, cause: error }) : error;
    }
  }
  async get(runIds: readonly string[]): Promise<(RunRow | undefined)[]> {
    return this.#understood(readRuns(this.#use().connections, this.#place.s, runIds));
  }
  async history(runId: string): Promise<Turn[]> {
    return this.#understood(readHistory(this.#use().connections, this.#place.s, runId));
  }
  async attempts(runId: string): Promise<(AttemptRow & { task?: boolean })[]> {
    return this.#understood(readAttempts(this.#use().connections, this.#place.s, runId));
  }
  async workers(runId: string): Promise<ReadonlyMap<number, string>> {
    return this.#understood(readWorkers(this.#use().connections, this.#place.s, runId));
  }
  async rejectUpdates(updates: Parameters<Store["rejectUpdates"]>[0]): ReturnType<Store["rejectUpdates"]> {
    if (updates.length === 0) return [];
    const fields = updates.map(({ runId, id, error }) => ({ r: text(runId), u: text(id), e: json(error) }));
    const answer = await this.#call("reject_updates_1", [this.#given(), JSON.stringify(fields)]);
    this.#tell({ results: true });
    return (JSON.parse(answer) as RejectedAnswer[]).map(rejectedOutcome);
  }
  async updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]> {
    return this.#understood(readUpdates(this.#use().connections, this.#place.s, keys));
  }
  async list(query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
    if (query.cursor !== undefined) parseCursor(query.cursor); // what is wrong with it is no fault of the rows
    return this.#understood(listRuns(this.#use().connections, this.#place.s, query));
  }
  async count(query: Omit<RunQuery, "limit" | "cursor">): Promise<Record<RunStatus, number>> {
    return countRuns(this.#use().connections, this.#place.s, query);
  }
}

interface Opened {
  readonly connections: Connections;
  readonly notices: Notices;
  readonly names: Names;
  readonly transactions: Transactions;
}
interface LateRun {
  readonly r: string;
  readonly e: string;
  /** Now, though its deadline has not passed. */
  readonly n?: true;
}
function lateRun([runId, deadline]: readonly [runId: string, deadline: number]): LateRun {
  return { r: runId, e: json(serializeError(new DeadlineExceededError({ runId: readText(runId), deadline }))) };
}
interface Overdue {
  readonly now: number;
  readonly runs: readonly (readonly [runId: string, deadline: number])[] | null;
  readonly tasks: readonly LateTask[] | null;
  readonly mail: boolean;
  /** The clock was set back before this process began. */
  readonly back: boolean;
}
interface Retired {
  readonly seen: number;
  readonly at: number;
  readonly key: number;
  readonly gone: number;
}
interface Beaten {
  readonly held: readonly number[] | null;
  readonly overdue: boolean;
}
interface Settled {
  readonly taken: readonly number[];
  /** Somebody has their run locked. */
  readonly busy: readonly number[] | null;
  /** Runs whose next attempt of an activity would come after their deadline. */
  readonly late: readonly (readonly [runId: string, deadline: number])[] | null;
  readonly overdue: boolean;
}
/** How many, and which are left. */
interface Expired {
  readonly n: number;
  readonly b: readonly string[] | null;
}
/** How many, and whether some are left. */
interface Delivered {
  readonly n: number;
  readonly b: boolean;
}

/** Attempts whose time is up are swept now and then in any case: what they were found along with does not fail with them. */
const lateAgain = (): void => {};

function placeholders(count: number): string {
  return Array.from({ length: count }, (_, i) => `$${i + 1}`).join(", ");
}
/** Once, when it is needed. */
function lazily<T extends object>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
function firstTurns(runs: readonly NewRun[]): TurnCommit[] {
  return runs.flatMap(({ first }) => (first === undefined ? [] : [first.commit]));
}

/**
 * All of them; where the server refuses that, halves of halves, so that those that are at fault keep nobody from the others. Rejects with
 * what was refused last, once all others are done.
 */
async function inHalves<I>(items: readonly I[], work: (items: readonly I[]) => Promise<void>): Promise<void> {
  if (items.length === 0) return;
  try {
    await work(items);
  } catch (error) {
    if (!isRefusal(error) || items.length === 1) throw error;
    const middle = Math.ceil(items.length / 2);
    const halves = [items.slice(0, middle), items.slice(middle)];
    let refusal: unknown;
    for (const half of halves) {
      await inHalves(half, work).catch((thrown: unknown) => {
        if (!isRefusal(thrown)) throw thrown;
        refusal = thrown;
      });
    }
    if (refusal !== undefined) throw refusal;
  }
}
