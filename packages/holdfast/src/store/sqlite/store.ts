// The SQLite store: the port, on one file.
// Owns: the connection, and how calls become reads and writes; what they do is in the files named after it.
// Invariants: those of the port. Reads never take the write lock; writes share transactions (D3); one clock.

import type { Logger, Payload, RunStatus, Turn } from "@holdfast/core";
import { isRefusal, StoreClosedError, StoreCorruptError } from "../errors.ts";
import type {
  AddressedMessage,
  AttemptRow,
  ClaimedTask,
  ClaimRequest,
  ClaimResult,
  CommitResult,
  CreateResult,
  HeldClaim,
  InboxMessage,
  NewRun,
  Renewal,
  ResumeResult,
  RunQuery,
  RunRow,
  SendResult,
  Store,
  TaskAnswer,
  TaskClaimRequest,
  Termination,
  TurnCommit,
  UpdateOutcome,
  Wakeup,
} from "../port.ts";
import { type Claim, claimedRun, claimRun, findBlocked, findDamaged, findDue, findLanes, type Lane } from "./claimRuns.ts";
import { claimTask, findLost, findTasks, type Heartbeat, heartbeatTask, readFresh } from "./claimTasks.ts";
import { commitFirst, commitTurn } from "./commitTurn.ts";
import { Connection, type ConnectionOptions } from "./connection.ts";
import { expireRuns, LATE_AT_ONCE, resume, terminate } from "./controlRuns.ts";
import { blockDamaged } from "./damage.ts";
import { deliverMessage } from "./deliverMessage.ts";
import { answerTask, sweepTasks } from "./endTasks.ts";
import { isDamage, isUnreadable, storeError } from "./failures.ts";
import { findLate } from "./findRun.ts";
import { createRun } from "./insertRun.ts";
import { findBrokenLanes, repairLanes } from "./lanes.ts";
import { Patrol } from "./patrol.ts";
import { countRuns, listRuns, parseCursor, readAllAttempts, readHistory, readRun, readWorkers } from "./readRuns.ts";
import { cutLeases, hasLongLeases, needsRenewal, readClaim, renewLease } from "./renewLeases.ts";
import { Session } from "./session.ts";
import { findStranded, repairStranded } from "./stranded.ts";
import { findDueTasks } from "./tasks.ts";
import { Thrown, type TransactionClaim, transact } from "./transact.ts";
import { readUpdate, rejectUpdate } from "./updates.ts";
import { Watchers } from "./watchers.ts";
import { Writer } from "./writer.ts";

export interface SqliteStoreOptions extends ConnectionOptions {
  /** Milliseconds since 1970. Default: Date.now. */
  readonly clock?: (() => number) | undefined;
  /** When waiting writes are carried out. Default: at the end of this turn of the event loop. */
  readonly gather?: ((flush: () => void) => void) | undefined;
  /** Told of rows that something else has written to. Default: nobody is. */
  readonly logger?: Logger | undefined;
}

interface BlockedRun {
  readonly id: string;
  readonly isOpen: boolean;
  readonly error: StoreCorruptError;
}

/**
 * The host lets the event loop have a turn between two calls. To create a run takes 50 µs: with 500 at a time and no turn in between, 5,000
 * starts held the event loop up for 260 ms of processor time.
 */
const MOST_ITEMS = 200;
/** How often lanes are compared with their runs. */
const LANES_EVERY = 5_000;
/** Runs that can't be claimed and are passed over for others. */
const MOST_REFUSED = 100;

export class SqliteStore implements Store {
  readonly limits = { items: MOST_ITEMS, bytes: Number.POSITIVE_INFINITY, calls: 1 } as const;
  readonly path: string;
  readonly #options: SqliteStoreOptions;
  readonly #clock: () => number;
  readonly #watchers = new Watchers(() => this.#session?.db);
  readonly #toldLanes = new Set<number>();
  #toldRefusal: string | undefined;
  #lanesAt = 0;
  #patrol: Patrol | undefined;
  /** The time when deadlines were looked at last. */
  #latest: number | undefined;
  #session: Session | undefined;
  #writer: Writer | undefined;
  #opening: Promise<void> | undefined;

  constructor(path: string, options: SqliteStoreOptions = {}) {
    this.path = path;
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
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
    const session = new Session(await Connection.open(this.path, this.#options));
    this.#session = session;
    this.#writer = new Writer(session, {
      notify: (changes) => this.#watchers.tell(changes),
      understood: (error) => this.#understood(error),
      gather: this.#options.gather,
    });
    await this.#repairLanes();
    await this.#repairStranded();
    this.#patrol = new Patrol({
      now: this.#clock,
      read: (work) => this.#read(work),
      write: (work) => this.#write(1, work),
    });
    await this.#goOn(this.#patrol);
    this.#watchers.start();
  }
  async #repairStranded(): Promise<void> {
    const now = this.#clock();
    if ((await this.#read((db) => findStranded(db, now))) === undefined) return;
    const { count, lost } = await this.#write(1, repairStranded);
    this.#tellOfRepairs(count);
    if (lost.length === 0) return;
    const message = `Messages in ${this.path} belong to no run: something else has written to holdfast_inbox (rows ${lost.join(", ")}). Fix their "run", and open the file again.`;
    this.#options.logger?.error(message, { rows: lost });
  }
  async #goOn(patrol: Patrol): Promise<void> {
    this.#tellOfRepairs(await patrol.goOn());
    if (patrol.isOver) this.#patrol = undefined;
  }
  #tellOfRepairs(count: number): void {
    if (count === 0) return;
    const message = `${count} runs or activities in ${this.path} would never have been taken up: something else has written to their rows. They are put right, or blocked.`;
    this.#options.logger?.error(message, { count });
  }
  /** Now and then: something else may write to them at any time, and no claim would find their runs. */
  async #repairLanes(): Promise<void> {
    this.#lanesAt = performance.now();
    if ((await this.#read(findBrokenLanes)) === undefined) return;
    const lanes = await this.#write(1, repairLanes);
    const message = `Rows of holdfast_lanes in ${this.path} did not fit their runs (${lanes.join(", ")}): something else has written to them. They are put right, or their runs are blocked.`;
    this.#options.logger?.error(message, { lanes });
  }
  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    this.#watchers.stop();
    await this.#writer?.drain();
    const session = this.#session;
    this.#session = undefined;
    this.#writer = undefined;
    this.#opening = undefined;
    session?.db.close();
  }
  async now(): Promise<number> {
    return this.#clock();
  }

  // ── how calls are carried out ──

  /** Async, so that a store that is not open is a rejection. */
  async #read<T>(work: (db: Connection) => T): Promise<T> {
    const { db } = this.#opened();
    try {
      return await db.patiently(() => {
        db.checkFiles(true);
        return work(db);
      });
    } catch (error) {
      throw this.#understood(error, isDamage);
    }
  }
  /** A row that is none of ours: somebody has changed it, or the disk has. */
  #understood(error: unknown, isOurs: (error: unknown) => boolean = isUnreadable): unknown {
    return isOurs(error) ? new StoreCorruptError({ where: this.path, cause: error }) : error;
  }
  #write<T>(weight: number, work: (session: Session, now: number) => T, isTurn = false): Promise<T> {
    const session = this.#session;
    if (session === undefined || this.#writer === undefined) return Promise.reject(new StoreClosedError({ where: this.path }));
    return this.#writer.write(weight, () => work(session, this.#clock()), isTurn);
  }
  /** Item by item, in order, in one transaction. */
  #writeEach<I, R>(items: readonly I[], work: (session: Session, item: I, now: number) => R, isTurn = false): Promise<R[]> {
    if (items.length === 0) return Promise.resolve([]);
    return this.#write(items.length, (session, now) => items.map((item) => work(session, item, now)), isTurn);
  }
  #opened(): Session {
    if (this.#session === undefined) throw new StoreClosedError({ where: this.path });
    return this.#session;
  }

  // ── runs ──

  create(runs: readonly NewRun[]): Promise<CreateResult[]> {
    return this.#writeEach(runs, (session, run, now) => {
      const { first } = run;
      // Nothing of the first turn counts if the run turns out to exist.
      return createRun(session, run, now, (key) => {
        if (first !== undefined) commitFirst(session, key, run, first.commit, now);
      });
    });
  }
  async claim(request: ClaimRequest): Promise<ClaimResult> {
    const now = this.#clock();
    if (request.blockedAfter !== undefined) return this.#claimBlocked(request, request.blockedAfter);
    const look = await this.#read((db) => {
      const lanes = findLanes(db, request);
      return { lanes, ...findDue(db, lanes, request.limit, now) };
    });
    for (const lane of look.lanes) if (lane.priority === undefined) this.#tellOfLane(lane);
    const isNeeded = look.due.length > 0 || look.lanes.some(({ isDamaged }) => isDamaged);
    if (!isNeeded || request.limit <= 0) return { now, runs: [], nextAt: look.nextAt };
    return this.#claimFound(request);
  }
  /** V4. */
  async #claimBlocked(request: ClaimRequest, after: number): Promise<ClaimResult> {
    const some = request.limit <= 0 ? [] : await this.#read((db) => findBlocked(db, request, after, 1));
    return some.length === 0 ? { now: this.#clock(), runs: [], nextAt: undefined } : this.#claimFound(request);
  }
  async #claimFound(request: ClaimRequest): Promise<ClaimResult> {
    try {
      return await this.#claimDue(request, 0);
    } catch (error) {
      // The database won't have one of them claimed: it keeps nobody from the others.
      if (!isRefusal(error)) throw error;
      return this.#claimDue(request, MOST_REFUSED);
    }
  }
  /** `refused`: so many of them may be refused, each by itself. */
  async #claimDue(request: ClaimRequest, refused: number): Promise<ClaimResult> {
    const { workerId: id, lease, limit, blockedAfter } = request;
    const block = (session: Session, key: number, cause: unknown): BlockedRun => {
      const error = new StoreCorruptError({ where: this.path, cause });
      return { ...blockDamaged(session, key, error), error };
    };
    const { now, claims, nextAt, blocked, refusal, lastBlocked } = await this.#write(limit, (session, now) => {
      const { db } = session;
      const lanes = findLanes(db, request);
      // In this transaction: in the next, somebody may have mended and claimed them.
      const blocked = findDamaged(db, lanes).map((key) => block(session, key, new TypeError("Its available_at is no moment.")));
      const claims: Claim[] = [];
      let late = 0;
      const claimOne = (key: number): void => {
        const claimed = readable(
          () => claimRun(session, key, { id, lease }, request, now),
          (error) => blocked.push(block(session, key, error)),
        );
        for (const claim of claimed) {
          if (claim === undefined) late++;
          else claims.push(claim);
        }
      };
      if (blockedAfter !== undefined) {
        const found = findBlocked(db, request, blockedAfter, limit + 1);
        const { refusal } = session.each(found.slice(0, limit), claimOne);
        const lastBlocked = found.length > limit ? found[limit - 1] : undefined;
        return { now, claims, nextAt: undefined, blocked, refusal, lastBlocked };
      }
      let { due, nextAt } = findDue(db, lanes, limit + refused, now);
      if (refused === 0) {
        due.forEach(claimOne);
        // K7: those past their deadline leave room for others. Each is late once.
        for (let before = 0; late > before; due.forEach(claimOne)) {
          before = late;
          ({ due, nextAt } = findDue(db, lanes, limit - claims.length, now));
        }
        return { now, claims, nextAt, blocked, refusal: undefined, lastBlocked: undefined };
      }
      const { refusal } = session.each(due, (key) => claims.length < limit && claimOne(key));
      // Those that stay are due for ever: when to look again, the worker knows by itself.
      return { now, claims, nextAt: nextAt !== undefined && nextAt > now ? nextAt : undefined, blocked, refusal, lastBlocked: undefined };
    });
    if (refusal !== undefined) this.#tellOfRefusal(storeError(refusal, this.path));
    const damaged: { readonly key: number; readonly error: unknown }[] = [];
    const runs = claims.flatMap((claim) =>
      readable(
        () => claimedRun(claim),
        (error) => damaged.push({ key: claim.key, error }),
      ),
    );
    const unreadable = await this.#writeEach(damaged, (session, { key, error }) => block(session, key, error));
    for (const run of [...blocked, ...unreadable]) this.#tellOfRun(run);
    return { now, runs, nextAt, lastBlocked };
  }
  #tellOfRun({ id, isOpen, error }: BlockedRun): void {
    const what = isOpen
      ? "is blocked: rows of it can't be read"
      : "has ended, and something else had made it available: it stays as it ended";
    this.#options.logger?.error(`Run ${id} ${what}.`, { runId: id, error });
  }
  /** Once: every claim has it refused. */
  #tellOfRefusal(error: unknown): void {
    if (this.#toldRefusal === String(error)) return;
    this.#toldRefusal = String(error);
    this.#options.logger?.error("A run can't be claimed; others are.", { error });
  }
  /** Once: it is found by every claim. */
  #tellOfLane({ lane }: Lane): void {
    if (this.#toldLanes.has(lane)) return;
    this.#toldLanes.add(lane);
    const message = `The lane ${lane} of ${this.path} has a priority that is no number: its runs are claimed as if they had none.`;
    this.#options.logger?.error(`${message} Mend the row of holdfast_lanes.`, { lane });
  }
  commit(turns: readonly TurnCommit[]): Promise<CommitResult[]> {
    return this.#writeEach(turns, (session, turn, now) => commitTurn(session, turn, now), true);
  }
  send(messages: readonly AddressedMessage[]): Promise<SendResult[]> {
    return this.#writeEach(messages, deliverMessage);
  }
  async renew(workerId: string, lease: number, claims: readonly HeldClaim[]): Promise<Renewal[]> {
    const now = this.#clock();
    const read = await this.#read((db) => claims.map((claim) => readClaim(db, workerId, claim)));
    if (!read.some((renewal) => needsRenewal(renewal, lease, now)))
      return read.map(({ key, inbox }) => ({ held: key !== undefined, inbox }));
    return this.#writeEach(claims, ({ db }, claim, now) => {
      const renewal = readClaim(db, workerId, claim);
      renewLease(db, renewal, lease, now);
      return { held: renewal.key !== undefined, inbox: renewal.inbox };
    });
  }
  terminate(runs: readonly Termination[]): Promise<SendResult[]> {
    return this.#writeEach(runs, (session, { runId, reason }, now) => terminate(session, runId, reason, now));
  }
  resume(runIds: readonly string[]): Promise<ResumeResult[]> {
    return this.#writeEach(runIds, resume);
  }
  async expire(): Promise<number> {
    const now = this.#clock();
    await this.#checkClock(now);
    if (performance.now() - this.#lanesAt > LANES_EVERY) await this.#repairLanes();
    if (this.#patrol !== undefined) await this.#goOn(this.#patrol);
    const isDue = await this.#read((db) => findLate(db, now, 1).length > 0 || findDueTasks(db, now, 1).length > 0);
    let total = 0;
    for (let count = isDue ? LATE_AT_ONCE : 0; count === LATE_AT_ONCE; total += count) {
      const { tasks, runs } = await this.#write(LATE_AT_ONCE, (session, now) => ({
        tasks: sweepTasks(session, now),
        runs: expireRuns(session, now),
      }));
      count = runs.done;
      const refusal = tasks.refusal ?? runs.refusal;
      if (refusal !== undefined) throw storeError(refusal, this.path);
    }
    return total;
  }
  /** W3. A process that has just begun can't know whether the clock was set back; from then on it sees that itself. */
  async #checkClock(now: number): Promise<void> {
    const isBack = now < (this.#latest ?? Number.POSITIVE_INFINITY);
    if (isBack && (await this.#read((db) => hasLongLeases(db, now)))) await this.#write(1, cutLeases);
    this.#latest = now; // once each time: what is written from now on goes by the new time
  }
  async transact(claim: TransactionClaim, body: (tx: unknown) => Payload | Promise<Payload>): Promise<InboxMessage | "stale"> {
    const result = await this.#write(1, (session, now) => transact(session, claim, body, now));
    if (result instanceof Thrown) throw result.error;
    return result;
  }

  // ── activities ──

  async claimTasks(request: TaskClaimRequest): Promise<{ now: number; tasks: ClaimedTask[]; nextAt: number | undefined }> {
    const now = this.#clock();
    const look = await this.#read((db) => ({
      ...findTasks(db, request, now),
      overdue: findDueTasks(db, now, 1),
      lost: findLost(db, request),
    }));
    const isNeeded = look.overdue.length > 0 || (request.limit > 0 && (look.due.length > 0 || look.lost.length > 0));
    if (!isNeeded) return { now, tasks: [], nextAt: look.nextAt };
    return this.#write(request.limit, (session, now) => {
      sweepTasks(session, now);
      const lost = findLost(session.db, request).flatMap((id) => claimTask(session, id, request, now, "again") ?? []);
      const { due, nextAt } = findTasks(session.db, { ...request, limit: request.limit - lost.length }, now);
      const tasks = due.flatMap(({ id }) => claimTask(session, id, request, now, "new") ?? []);
      return { now, tasks: [...lost, ...tasks], nextAt };
    });
  }
  async heartbeat(tasks: readonly Heartbeat[]): Promise<boolean[]> {
    const now = this.#clock();
    const fresh = await this.#read((db) => (findDueTasks(db, now, 1).length > 0 ? undefined : readFresh(db, tasks, now)));
    if (fresh !== undefined) return fresh;
    return this.#write(tasks.length, (session, now) => {
      sweepTasks(session, now);
      return tasks.map((beat) => heartbeatTask(session, beat, now));
    });
  }
  answerTasks(answers: readonly TaskAnswer[]): Promise<boolean[]> {
    return this.#write(answers.length, (session, now) => {
      sweepTasks(session, now);
      return answers.map((answer) => answerTask(session, answer, now));
    });
  }

  // ── reading ──

  get(runIds: readonly string[]): Promise<(RunRow | undefined)[]> {
    return this.#read((db) => runIds.map((id) => readRun(db, id)));
  }
  history(runId: string): Promise<Turn[]> {
    return this.#read((db) => readHistory(db, runId));
  }
  attempts(runId: string): Promise<(AttemptRow & { task?: boolean })[]> {
    return this.#read((db) => readAllAttempts(db, runId));
  }
  workers(runId: string): Promise<ReadonlyMap<number, string>> {
    return this.#read((db) => readWorkers(db, runId));
  }
  updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]> {
    return this.#read((db) => keys.map(({ runId, id }) => readUpdate(db, runId, id)));
  }
  rejectUpdates(updates: Parameters<Store["rejectUpdates"]>[0]): ReturnType<Store["rejectUpdates"]> {
    return this.#writeEach(updates, rejectUpdate);
  }
  async list(query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
    if (query.cursor !== undefined) parseCursor(query.cursor); // what is wrong with it is no fault of the file's
    return this.#read((db) => listRuns(db, query));
  }
  count(query: Omit<RunQuery, "limit" | "cursor">): Promise<Record<RunStatus, number>> {
    return this.#read((db) => countRuns(db, query));
  }
  watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    return this.#watchers.add(onWakeup);
  }
}

/** None if somebody else has written to what is read. */
function readable<T>(read: () => T, damaged: (error: unknown) => void): T[] {
  try {
    return [read()];
  } catch (error) {
    if (!isDamage(error)) throw error;
    damaged(error);
    return [];
  }
}
