// The Postgres store: the port, on one schema of a database.
// Owns: the connections, and how calls of the port become calls of the server; what those do is in `schema`.
// Invariants: those of the port. One statement per batch (D3); the server's clock; a call that is repeated is carried out once.

import { type Payload, RunTerminatedError, serializeError, type Turn } from "@holdfast/core";
import {
  type AddressedMessage,
  type Answer,
  type AttemptRow,
  type ClaimRequest,
  type ClaimResult,
  type CommitResult,
  type CreateResult,
  type DeleteResult,
  type DueSchedules,
  type Expired,
  type Heartbeat,
  type HeldClaim,
  type InboxMessage,
  type InspectStore,
  type LimitedWork,
  type LimitsFor,
  type NewRun,
  type OutageListener,
  parseCursor,
  type QueueRow,
  type Renewal,
  type ResumeResult,
  type RunCounts,
  type RunFilter,
  type RunQuery,
  type RunRow,
  type ScheduleChange,
  type ScheduleRow,
  type SendResult,
  type Store,
  StoreClosedError,
  StoreCorruptError,
  type StoredQueueSpec,
  type StoreSettings,
  type StoreWithin,
  type TaskAnswer,
  type TaskClaimRequest,
  type Termination,
  type Tick,
  type TickResult,
  type TurnCommit,
  type UpdateOutcome,
  type Wakeup,
  type WorkerBeat,
  type WorkerRow,
  type WorkflowRow,
} from "holdfast/store";
import { escapeIdentifier } from "pg";
import { within } from "./callerTransaction.ts";
import { encoded, json, text, time } from "./columns.ts";
import type { Parameter, Statement } from "./connection/connections.ts";
import { isDamage } from "./connection/serverErrors.ts";
import { lanesOf } from "./nameIds.ts";
import { type Opened, openParts } from "./opened.ts";
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
import type { Queues } from "./queues.ts";
import { renewals } from "./runs/claimRuns.ts";
import { changesOf, commitBatch, commitResults, type SentAnswer, sendResult } from "./runs/commitTurns.ts";
import { createBatch, createdChanges, createResults, isFiled } from "./runs/createRuns.ts";
import { countRuns, listRuns } from "./runs/findRuns.ts";
import { CURRENT, inspectPostgres } from "./runs/inspectRuns.ts";
import { arePlain } from "./runs/plainMessages.ts";
import {
  type RejectedAnswer,
  readAttempts,
  readHistory,
  readInbox,
  readRuns,
  readUpdates,
  readWorkers,
  rejectedOutcome,
} from "./runs/readRuns.ts";
import { addressedFields } from "./runs/runRow.ts";
import type { Place } from "./schema/migrate.ts";
import type { TransactionClaim } from "./transactions.ts";

const MOST_ITEMS = 1_000;
/** Far below the limit of a parameter, and small enough that no other call waits for long. */
const MOST_BYTES = 8_000_000;

/** A store on PostgreSQL, for `Holdfast.with({ store })`. `Holdfast.open("postgres://…")` makes one. */
export class PostgresStore implements Store {
  readonly #options: PostgresStoreOptions;
  readonly #place: Place;
  readonly #clock: (() => number) | undefined;
  readonly #watchers = new Set<{ readonly watcher: (wakeup: Wakeup) => void; stop: () => void }>();
  readonly #outageWatchers = new Set<{ readonly listener: OutageListener; stop: () => void }>();
  /** While the server carries out one batch, the process prepares the next: two keep both busy. */
  readonly limits = { items: MOST_ITEMS, bytes: MOST_BYTES, calls: 2 } as const;
  readonly #isGeneral: boolean;
  /** Undefined: as they are. */
  readonly #goesPlain: (() => false) | undefined;
  #opened: Opened | undefined;
  #opening: Promise<void> | undefined;
  #patrol: Patrol | undefined;

  constructor(options: PostgresStoreOptions) {
    const schema = checkedSchema(options.schema);
    this.#options = { ...options, connectionString: checkedConnectionString(options.connectionString) };
    this.#place = { schema, s: escapeIdentifier(schema), where: whereOf(options.connectionString, schema) };
    this.#clock = options.clock;
    this.#isGeneral = (options as InternalOptions)[GENERAL_WAY] === true;
    this.#goesPlain = this.#isGeneral ? () => false : undefined;
  }
  /**
   * Reads the options from a url.
   * @throws `InvalidInputError` if it can't be read.
   */
  static fromUrl(url: string, options?: FromUrlOptions): PostgresStore {
    return new PostgresStore(optionsOf(url, options));
  }

  // ── opening, closing ──

  open(settings: StoreSettings = {}): Promise<void> {
    this.#opening ??= this.#open(settings).catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }
  async #open(settings: StoreSettings): Promise<void> {
    const calls = { commit: (turns: readonly TurnCommit[]) => this.commit(turns), expire: () => this.expire() };
    this.#opened = await openParts({ options: this.#options, settings, place: this.#place, now: () => this.#given(), calls });
    const { connections, notifications } = this.#opened;
    const { s, where } = this.#place;
    this.#patrol = new Patrol({ connections, s, where, now: () => this.#given() });
    await this.#goOn(this.#patrol);
    for (const one of this.#watchers) one.stop = notifications.watch(one.watcher);
    for (const one of this.#outageWatchers) one.stop = connections.outage.watch(one.listener);
  }
  async #goOn(patrol: Patrol): Promise<void> {
    let count = 0;
    try {
      count = await patrol.goOn();
      if (patrol.isOver) this.#patrol = undefined;
    } catch (error) {
      // The next store that is opened searches again.
      this.#patrol = undefined;
      this.#options.logger?.warn("Waiting runs could not be searched for damage.", { error });
    }
    if (count === 0) return;
    const message = `${count} runs, messages or activities in ${this.#place.where} would never have been claimed: something else has written to their rows. They were repaired or blocked.`;
    this.#options.logger?.error(message, { count });
    this.#tell({ work: true, messages: true, tasks: true, results: true });
  }
  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const opened = this.#opened;
    this.#opened = undefined;
    this.#opening = undefined;
    // Idle connections don't keep the process alive: this does, until they are closed.
    const alive = setInterval(() => undefined, 60_000);
    try {
      await opened?.notifications.stop();
      await opened?.connections.close();
    } finally {
      clearInterval(alive);
    }
  }
  async now(): Promise<number> {
    if (this.#clock !== undefined) return this.#clock();
    const [row] = await this.#use().connections.query<{ now: number }>(`SELECT ${this.#place.s}.clock_1(NULL) AS now`);
    return row?.now ?? Date.now();
  }
  watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    const one = { watcher: onWakeup, stop: this.#opened?.notifications.watch(onWakeup) ?? (() => undefined) };
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
  /** The time of a test. Null: the server's clock. */
  #given(): number | null {
    return this.#clock?.() ?? null;
  }
  /** The single statement for an item that is alone in its call, if there is one for it. */
  #oneStatement<T>(items: readonly T[], make: (item: T) => Statement | undefined): Statement | undefined {
    return items.length === 1 && !this.#isGeneral ? this.#encoded(() => make(items[0] as T)) : undefined;
  }
  #encoded<T>(make: () => T): T {
    return encoded(this.#place.where, make);
  }

  /** A write that can't be announced any more has not failed. */
  #tell(here: Wakeup, elsewhere?: Wakeup): void {
    this.#opened?.notifications.tell(here, elsewhere);
  }

  // ── runs ──

  async create(runs: readonly NewRun[]): Promise<Answer<CreateResult>[]> {
    if (runs.length === 0) return [];
    const { names, queues, oneStatements } = await this.#know(runs, firstTurns(runs));
    await queues.prepare(runs);
    const taken = runs.map((run) => queues.withoutFirst(run));
    const now = this.#given();
    const { changes } = queues;
    const batch = lazily(() => createBatch(taken, names, this.#goesPlain));
    const oneStatement = this.#oneStatement(taken, (run) => oneStatements.run(run, now, names, changes));
    const values = (): Parameter[] => [now, ...this.#encoded(batch).parameters, null, null, changes];
    const answer = await this.#use().functions.call("create_runs_1", values, { oneStatement, isBatch: true });
    if (isFiled(answer)) {
      await queues.look();
      return this.create(runs);
    }
    const results = createResults(taken, batch, answer);
    const { here, elsewhere } = createdChanges(taken, results);
    this.#tell(here, elsewhere);
    return results.map((result, i) =>
      taken[i] === runs[i] || result === "busy" || result.status !== "created" ? result : { ...result, begun: false },
    );
  }
  async commit(turns: readonly TurnCommit[]): Promise<Answer<CommitResult>[]> {
    if (turns.length === 0) return [];
    const known = this.#know([], turns);
    const { names, notifications, executionStarts, slots, oneStatements } = known instanceof Promise ? await known : known;
    const now = this.#given();
    const executionStartOf = executionStarts.take(turns);
    const batch = lazily(() => commitBatch(turns, names, executionStartOf, this.#goesPlain));
    const oneStatement = this.#oneStatement(turns, (commit) => oneStatements.turn(commit, now, names, executionStartOf(commit)));
    const values = (): Parameter[] => [now, ...this.#encoded(batch).parameters];
    const answer = await this.#use().functions.call("commit_turns_1", values, { areTurns: true, oneStatement, isBatch: true });
    const { results, due, family } = commitResults(turns, batch, answer);
    const { here, elsewhere } = changesOf(turns, results, due || slots.freedBy(turns, results), family);
    notifications.tell(here, elsewhere);
    return results;
  }
  /** Numbers of all names that a call refers to. */
  #know(runs: readonly NewRun[], turns: readonly TurnCommit[]): Opened | Promise<Opened> {
    const opened = this.#use();
    const [lanes, workers] = [lanesOf(runs, turns), turns.map(({ workerId }) => workerId)];
    return opened.names.areKnown(lanes, workers) ? opened : opened.names.know(lanes, workers).then(() => opened);
  }
  async claim(request: ClaimRequest): Promise<ClaimResult> {
    return this.#use().claims.claim(request);
  }
  async renew(workerId: string, lease: number, claims: readonly HeldClaim[], wait = false): Promise<Answer<Renewal>[]> {
    if (claims.length === 0) return [];
    const fields = claims.map(({ runId, epoch, seen }, i) => ({ i, id: text(runId), e: epoch, seen }));
    const values = [this.#given(), text(workerId), time(lease), JSON.stringify(fields), wait];
    return renewals(claims.length, await this.#use().functions.ask("renew_leases_1", values, { isBatch: true }));
  }
  async send(messages: readonly AddressedMessage[], wait = false): Promise<Answer<SendResult>[]> {
    if (messages.length === 0) return [];
    const fieldsOf = (message: AddressedMessage, o: number) => ({ o, ...addressedFields(message) });
    const fields = this.#encoded(() => JSON.stringify(messages.map(fieldsOf)));
    const isPlain = !this.#isGeneral && arePlain(messages);
    const values = [this.#given(), isPlain ? fields : null, isPlain ? null : fields, wait];
    const answer = await this.#use().functions.call("send_messages_1", values, { isBatch: true });
    this.#tell({ work: true, messages: true, results: messages.some(({ message }) => message.job.type === "cancel") });
    return (JSON.parse(answer) as (SentAnswer | null)[]).map((sent) => (sent === null ? "busy" : sendResult(sent)));
  }
  async terminate(runs: readonly Termination[]): Promise<Answer<SendResult>[]> {
    if (runs.length === 0) return [];
    const fields = runs.map(({ runId, reason }) => {
      const error = new RunTerminatedError(reason === undefined ? { runId } : { runId, reason });
      return { r: text(runId), e: json(serializeError(error)) };
    });
    const answer = await this.#use().functions.call("terminate_runs_1", [this.#given(), JSON.stringify(fields)], { isBatch: true });
    this.#tell({ work: true, messages: true, tasks: true, results: true });
    return (JSON.parse(answer) as SentAnswer[]).map(sendResult);
  }
  async resume(runIds: readonly string[]): Promise<Answer<ResumeResult>[]> {
    if (runIds.length === 0) return [];
    const answer = await this.#use().functions.call("resume_runs_1", [this.#given(), JSON.stringify(runIds.map(text))], { isBatch: true });
    this.#tell({ work: true, messages: true });
    return JSON.parse(answer) as ResumeResult[];
  }

  // ── what time does ──

  async expire(): Promise<Expired> {
    const { overdue } = this.#use();
    if (this.#patrol !== undefined) await this.#goOn(this.#patrol);
    return overdue.expire();
  }
  async retire(): Promise<number> {
    return this.#use().retention.retire();
  }
  async delete(runIds: readonly string[]): Promise<Answer<DeleteResult>[]> {
    return runIds.length === 0 ? [] : this.#use().retention.delete(runIds);
  }

  // ── schedules ──

  async readSchedules(ids: readonly string[]): Promise<{ now: number; schedules: (ScheduleRow | undefined)[] }> {
    return this.#understood(this.#use().schedules.read(ids));
  }
  async listSchedules(page: { readonly after: string | undefined; readonly limit: number }): Promise<DueSchedules> {
    return this.#understood(this.#use().schedules.list(page));
  }
  async changeSchedule(change: ScheduleChange): Promise<boolean> {
    return this.#use().schedules.change(change);
  }
  async deleteSchedule(id: string): Promise<void> {
    return this.#use().schedules.delete(id);
  }
  async tick(ticks: readonly Tick[], wait = false): Promise<Answer<TickResult>[]> {
    if (ticks.length === 0) return [];
    const { names, schedules } = await this.#know(ticks.flatMap(({ run }) => run ?? []), []); // biome-ignore format: one call
    return schedules.tick(ticks, wait, names);
  }

  beat(worker: WorkerBeat): Promise<void> {
    return this.#use().liveWorkers.beat(worker);
  }
  leave(workerId: string): Promise<void> {
    return this.#use().liveWorkers.leave(workerId);
  }
  liveWorkers(): Promise<WorkerRow[]> {
    return this.#use().liveWorkers.list();
  }
  register(workflows: readonly WorkflowRow[]): Promise<void> {
    return this.#use().liveWorkers.register(workflows);
  }

  // ── transactions ──

  transact(claim: TransactionClaim, body: (tx: unknown) => Payload | Promise<Payload>): Promise<InboxMessage | "stale"> {
    return this.#use().transactions.run(claim, body);
  }
  within(tx: unknown): StoreWithin {
    return within(tx, (runs) => this.#know(runs, firstTurns(runs)));
  }

  // ── activities ──

  async claimTasks(request: TaskClaimRequest): ReturnType<Store["claimTasks"]> {
    return this.#use().tasks.claim(request);
  }
  async heartbeat(beats: readonly Heartbeat[]): Promise<Answer<boolean>[]> {
    return beats.length === 0 ? [] : this.#use().tasks.heartbeat(beats);
  }
  async answerTasks(answers: readonly TaskAnswer[], wait = false): Promise<Answer<boolean>[]> {
    return answers.length === 0 ? [] : this.#use().tasks.answer(answers, wait);
  }

  // ── queues ──

  setQueue(name: string, spec: StoredQueueSpec): Promise<void> {
    return this.#use().queues.setQueue(name, spec);
  }
  deleteQueue(name: string): Promise<void> {
    return this.#use().queues.deleteQueue(name);
  }
  pauseQueue(name: string, pause: Parameters<Queues["pauseQueue"]>[1]): Promise<void> {
    return this.#use().queues.pauseQueue(name, pause);
  }
  resumeQueue(name: string, key?: string): Promise<void> {
    return this.#use().queues.resumeQueue(name, key);
  }
  getQueue(name: string): Promise<QueueRow> {
    return this.#use().queues.getQueue(name);
  }
  limitsFor(work: LimitedWork): Promise<LimitsFor | undefined> {
    return this.#use().queues.limitsFor(work);
  }
  listQueues(): Promise<QueueRow[]> {
    return this.#use().queues.listQueues();
  }

  // ── reading ──

  /** A row that can't be read: something else has written to it. */
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
  async inbox(runId: string): Promise<readonly InboxMessage[]> {
    return this.#understood(readInbox(this.#use().connections, this.#place.s, runId));
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
    const answer = await this.#use().functions.call("reject_updates_1", [this.#given(), JSON.stringify(fields)]);
    this.#tell({ results: true });
    return (JSON.parse(answer) as RejectedAnswer[]).map(rejectedOutcome);
  }
  async updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]> {
    return this.#understood(readUpdates(this.#use().connections, this.#place.s, keys));
  }
  async list(query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
    if (query.cursor !== undefined) parseCursor(query.cursor); // a wrong cursor is not a damaged row
    return this.#understood(listRuns(this.#use().connections, this.#place.s, query));
  }
  inspect(): InspectStore {
    return inspectPostgres(this.#use().connections, this.#place.s, () => CURRENT, (answer) => this.#understood(answer)); // biome-ignore format: one call
  }
  async count(filter: RunFilter): Promise<RunCounts> {
    return countRuns(this.#use().connections, this.#place.s, filter);
  }
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
