// The SQLite store: the port, on one file.
// Owns: the connection, and how calls become reads and writes; what they do is in the files named after it.
// Invariants: those of the port. Reads never take the write lock; writes share transactions (D3); one clock.

import type { Logger, Payload } from "@holdfast/core";
import { isRefusal, StoreClosedError, StoreCorruptError } from "../errors.ts";
import { isolate, type Refused } from "../isolate.ts";
import type { DeleteResult, StoreSettings } from "../keepingPort.ts";
import type {
  AddressedMessage,
  ClaimRequest,
  ClaimResult,
  CommitResult,
  CreateResult,
  Expired,
  HeldClaim,
  InboxMessage,
  NewRun,
  Renewal,
  ResumeResult,
  SendResult,
  Store,
  TaskAnswer,
  TaskClaimRequest,
  Termination,
  TurnCommit,
  Wakeup,
} from "../port.ts";
import type { StoredQueueSpec } from "../queuePort.ts";
import type { ScheduleChange, Tick, TickResult } from "../schedulePort.ts";
import type { WorkerBeat, WorkflowRow } from "../workerPort.ts";
import { Claims } from "./claims.ts";
import { type Heartbeat, heartbeatTask, readFresh } from "./claimTasks.ts";
import { commitFirst, commitTurn } from "./commitTurn.ts";
import { Connection, type ConnectionOptions } from "./connection.ts";
import { expireRuns, LATE_AT_ONCE, resume, terminate } from "./controlRuns.ts";
import { deliverMessage } from "./deliverMessage.ts";
import { answerTask, SWEPT_AT_ONCE, sweepTasks } from "./endTasks.ts";
import { isDamage, isUnreadable } from "./failures.ts";
import { findLate } from "./findRun.ts";
import { createRun } from "./insertRun.ts";
import { isRegistered, registerWorkflow } from "./inspectRuns.ts";
import { findBrokenLanes, repairLanes } from "./lanes.ts";
import type { LibraryName } from "./library.ts";
import { beat, leave } from "./liveWorkers.ts";
import { Patrol } from "./patrol.ts";
import { pauseQueue, resumeQueue, setSpec } from "./queues.ts";
import { SqliteReads } from "./reads.ts";
import { deleteRun, OldRuns } from "./removeRuns.ts";
import { cutLeases, hasLongLeases, needsRenewal, readClaim, renewLease } from "./renewLeases.ts";
import { changeSchedule, deleteSchedule, findDueSchedules, tickSchedule } from "./schedules.ts";
import { Session } from "./session.ts";
import { findStranded, repairStranded } from "./stranded.ts";
import { findDueTasks } from "./tasks.ts";
import { Thrown, type TransactionClaim, transact } from "./transact.ts";
import { rejectUpdate } from "./updates.ts";
import { Watchers } from "./watchers.ts";
import { Writer } from "./writer.ts";

export interface SqliteStoreOptions extends ConnectionOptions {
  /** Milliseconds since 1970. Default: Date.now. */
  readonly clock?: (() => number) | undefined;
  /** When waiting writes are carried out. Default: at the end of this turn of the event loop. */
  readonly gather?: ((flush: () => void) => void) | undefined;
  /** Logs rows that something else has written to. Default: no log. */
  readonly logger?: Logger | undefined;
}

/**
 * The host lets the event loop have a turn between two calls. To create a run takes 50 µs: with 500 at a time and no turn in between, 5,000
 * starts held the event loop up for 260 ms of processor time.
 */
const MOST_ITEMS = 200;
/** Schedules that one look returns. */
const DUE_AT_ONCE = 500;
/** How often lanes are compared with their runs. */
const LANES_EVERY = 5_000;

/** A store in one SQLite file. `Holdfast.open("file:…")` makes one. */
export class SqliteStore extends SqliteReads implements Store {
  readonly limits = { items: MOST_ITEMS, bytes: Number.POSITIVE_INFINITY, calls: 1 } as const;
  /** The path of the file. */
  readonly path: string;
  readonly #options: SqliteStoreOptions;
  protected override readonly clock: () => number;
  readonly #watchers = new Watchers(() => this.#session?.db);
  readonly #claims: Claims;
  readonly #oldRuns: OldRuns;
  #lanesAt = 0;
  #patrol: Patrol | undefined;
  /** The time when deadlines were looked at last. */
  #latest: number | undefined;
  #session: Session | undefined;
  #writer: Writer | undefined;
  #opening: Promise<void> | undefined;

  constructor(path: string, options: SqliteStoreOptions = {}) {
    super();
    this.path = path;
    this.#options = options;
    this.clock = options.clock ?? Date.now;
    this.#oldRuns = new OldRuns({
      now: this.clock,
      read: (work) => this.read(work),
      write: (weight, work) => this.#write(weight, work),
    });
    this.#claims = new Claims({
      path,
      logger: options.logger,
      now: this.clock,
      read: (work) => this.read(work),
      write: (weight, work) => this.#write(weight, work),
      writeSwept: (weight, work) => this.#writeSwept(weight, work),
    });
  }

  // ── opening, closing ──

  open(settings: StoreSettings = {}): Promise<void> {
    this.#opening ??= this.#open(settings).catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }
  async #open({ retention }: StoreSettings): Promise<void> {
    const session = new Session(await Connection.open(this.path, this.#options), retention === "forever" ? undefined : retention);
    this.#session = session;
    this.#writer = new Writer(session, {
      notify: (changes) => this.#watchers.tell(changes),
      understood: (error) => this.#understood(error),
      gather: this.#options.gather,
    });
    await this.#repairLanes("filed");
    await this.#repairStranded();
    this.#patrol = new Patrol({
      now: this.clock,
      read: (work) => this.read(work),
      write: (work) => this.#write(1, work),
    });
    await this.#goOn(this.#patrol);
    this.#watchers.start();
  }
  async #repairStranded(): Promise<void> {
    const now = this.clock();
    if ((await this.read((db) => findStranded(db, now))) === undefined) return;
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
    const message = `${count} runs or activities in ${this.path} would never have been claimed: something else has written to their rows. They were repaired or blocked.`;
    this.#options.logger?.error(message, { count });
  }
  /** Now and then: something else may write to them at any time, and no claim would find their runs. */
  async #repairLanes(filed?: "filed"): Promise<void> {
    this.#lanesAt = performance.now();
    if ((await this.read((db) => findBrokenLanes(db, filed))) === undefined) return;
    const lanes = await this.#write(1, repairLanes);
    const message = `Rows of holdfast_lanes in ${this.path} did not fit their runs (${lanes.join(", ")}): something else has written to them. They were repaired, or their runs blocked.`;
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

  // ── how calls are carried out ──

  /** For other connections of this process to the file. */
  get reading(): {
    /** The path of the file. */
    readonly path: string;
    /** The library that opens it. */
    readonly library: LibraryName | undefined;
    /** Milliseconds since 1970. */
    readonly clock: () => number;
  } {
    return { path: this.path, library: this.#options.library, clock: this.clock };
  }
  protected override exists(): boolean {
    return true;
  }
  /** Async, so that a store that is not open is a rejection. */
  protected override async read<T>(work: (db: Connection) => T): Promise<T> {
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
  /** A row that can't be read: something else has written to it, or the disk is damaged. */
  #understood(error: unknown, isOurs: (error: unknown) => boolean = isUnreadable): unknown {
    return isOurs(error) ? new StoreCorruptError({ where: this.path, cause: error }) : error;
  }
  #write<T>(weight: number, work: (session: Session, now: number) => T, isTurn = false): Promise<T> {
    const session = this.#session;
    if (session === undefined || this.#writer === undefined) return Promise.reject(new StoreClosedError({ where: this.path }));
    return this.#writer.write(weight, () => work(session, this.clock()), isTurn);
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
    return this.#claims.runs(request);
  }
  commit(turns: readonly TurnCommit[]): Promise<CommitResult[]> {
    return this.#writeEach(turns, (session, turn, now) => commitTurn(session, turn, now), true);
  }
  send(messages: readonly AddressedMessage[]): Promise<SendResult[]> {
    return this.#writeEach(messages, deliverMessage);
  }
  async renew(workerId: string, lease: number, claims: readonly HeldClaim[]): Promise<Renewal[]> {
    const now = this.clock();
    const read = await this.read((db) => claims.map((claim) => readClaim(db, workerId, claim)));
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
  async expire(): Promise<Expired> {
    const now = this.clock();
    await this.#checkClock(now);
    if (performance.now() - this.#lanesAt > LANES_EVERY) await this.#repairLanes();
    if (this.#patrol !== undefined) await this.#goOn(this.#patrol);
    const { isDue, schedules } = await this.read((db) => ({
      isDue: findLate(db, now, 1).length > 0 || findDueTasks(db, now, 1).length > 0,
      schedules: findDueSchedules(db, now, DUE_AT_ONCE),
    }));
    let expired = 0;
    for (let count = isDue ? LATE_AT_ONCE : 0; count === LATE_AT_ONCE; expired += count) count = await this.#expireSome();
    return { expired, now, schedules };
  }
  async #expireSome(): Promise<number> {
    try {
      return await this.#write(LATE_AT_ONCE, (session, now) => {
        sweepTasks(session, now);
        return expireRuns(session, now);
      });
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
    const tasks = await this.#sweep();
    const now = this.clock();
    const late = await this.read((db) => findLate(db, now, LATE_AT_ONCE).map(({ key }) => key));
    let count = 0;
    const runs = await isolate(late, async (keys) => {
      count += await this.#write(keys.length, (session, now) => expireRuns(session, now, new Set(keys)));
    });
    const [refused] = [...tasks, ...runs];
    if (refused !== undefined) throw refused.error;
    return count;
  }
  /** Ends attempts whose time is up. Returns those that the database refuses to have ended. */
  async #sweep(): Promise<Refused<number>[]> {
    const now = this.clock();
    const due = await this.read((db) => findDueTasks(db, now, SWEPT_AT_ONCE));
    return isolate(due, (ids) => this.#write(ids.length, (session, now) => sweepTasks(session, now, (id) => ids.includes(id))));
  }
  /** D11: attempts whose time is up are ended first, in the same transaction. One that can't be ended stops no other work. */
  async #writeSwept<T>(weight: number, work: (session: Session, now: number) => T): Promise<T> {
    const write = (isOne?: (id: number) => boolean): Promise<T> =>
      this.#write(weight, (session, now) => {
        sweepTasks(session, now, isOne);
        return work(session, now);
      });
    try {
      return await write();
    } catch (error) {
      const refused = isRefusal(error) ? await this.#sweep() : [];
      if (refused.length === 0) throw error;
      return write((id) => refused.every(({ item }) => item !== id));
    }
  }
  /** W3. A process that has just begun can't know whether the clock was set back; from then on it sees that itself. */
  async #checkClock(now: number): Promise<void> {
    const isBack = now < (this.#latest ?? Number.POSITIVE_INFINITY);
    if (isBack && (await this.read((db) => hasLongLeases(db, now)))) await this.#write(1, cutLeases);
    this.#latest = now; // once each time: what is written from now on goes by the new time
  }
  retire(): Promise<number> {
    return this.#oldRuns.retire();
  }
  delete(runIds: readonly string[]): Promise<DeleteResult[]> {
    return this.#writeEach(runIds, deleteRun);
  }
  beat(worker: WorkerBeat): Promise<void> {
    return this.#write(1, (session, now) => beat(session, worker, now));
  }
  async register(workflows: readonly WorkflowRow[]): Promise<void> {
    const isNew = await this.read((db) => workflows.some((row) => !isRegistered(db, row)));
    if (isNew) await this.#writeEach(workflows, ({ db }, row) => registerWorkflow(db, row));
  }
  leave(workerId: string): Promise<void> {
    return this.#write(1, (session) => leave(session, workerId));
  }
  async transact(claim: TransactionClaim, body: (tx: unknown) => Payload | Promise<Payload>): Promise<InboxMessage | "stale"> {
    const result = await this.#write(1, (session, now) => transact(session, claim, body, now));
    if (result instanceof Thrown) throw result.error;
    return result;
  }

  // ── schedules ──

  changeSchedule(change: ScheduleChange): Promise<boolean> {
    return this.#write(1, (session) => changeSchedule(session, change));
  }
  deleteSchedule(id: string): Promise<void> {
    return this.#write(1, (session) => deleteSchedule(session, id));
  }
  tick(ticks: readonly Tick[]): Promise<TickResult[]> {
    return this.#writeEach(ticks, tickSchedule);
  }

  // ── queues ──

  setQueue(name: string, spec: StoredQueueSpec): Promise<void> {
    return this.#write(1, (session) => setSpec(session, name, spec));
  }
  deleteQueue(name: string): Promise<void> {
    return this.#write(1, (session) => setSpec(session, name, undefined));
  }
  pauseQueue(name: string, pause: { readonly key?: string | undefined; readonly for?: number | undefined }): Promise<void> {
    return this.#write(1, (session, now) => pauseQueue(session, name, pause.key, pause.for === undefined ? undefined : now + pause.for));
  }
  resumeQueue(name: string, key?: string): Promise<void> {
    return this.#write(1, (session) => resumeQueue(session, name, key));
  }

  // ── activities ──

  async claimTasks(request: TaskClaimRequest): ReturnType<Store["claimTasks"]> {
    return this.#claims.tasks(request);
  }
  async heartbeat(tasks: readonly Heartbeat[]): Promise<boolean[]> {
    const now = this.clock();
    const fresh = await this.read((db) => (findDueTasks(db, now, 1).length > 0 ? undefined : readFresh(db, tasks, now)));
    if (fresh !== undefined) return fresh;
    return this.#writeSwept(tasks.length, (session, now) => tasks.map((beat) => heartbeatTask(session, beat, now)));
  }
  answerTasks(answers: readonly TaskAnswer[]): Promise<boolean[]> {
    return this.#writeSwept(answers.length, (session, now) => answers.map((answer) => answerTask(session, answer, now)));
  }

  // ── the rest ──

  rejectUpdates(updates: Parameters<Store["rejectUpdates"]>[0]): ReturnType<Store["rejectUpdates"]> {
    return this.#writeEach(updates, rejectUpdate);
  }
  watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    return this.#watchers.add(onWakeup);
  }
}
