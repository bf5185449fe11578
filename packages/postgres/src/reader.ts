// A database that is only read, by a console.
// Owns: connections of its own.
// Invariants: nothing is created, migrated or written; a database without a schema of Holdfast reads as empty, and one that gets it later is
// read from then on. Hints come by the clock: to listen for notifications a process has to register itself, which writes.

import type { RunStatus, Turn } from "@holdfast/core";
import {
  type InboxMessage,
  type InspectStore,
  type LimitedWork,
  type LimitsFor,
  type QueueRow,
  type ReadStore,
  type RunCounts,
  type RunFilter,
  type RunQuery,
  type RunRow,
  type ScheduleRow,
  type StorageState,
  StoreCorruptError,
  type StoredAttemptRow,
  type Wakeup,
  type WorkerRow,
} from "holdfast/store";
import { escapeIdentifier } from "pg";
import { Connections } from "./connection/connections.ts";
import { Functions } from "./connection/functions.ts";
import { isDamage } from "./connection/serverErrors.ts";
import type { Context } from "./context.ts";
import { LiveWorkers } from "./liveWorkers.ts";
import { NameIds } from "./nameIds.ts";
import { Notifications } from "./notifications.ts";
import { checkedConnectionString, checkedSchema, type FromUrlOptions, optionsOf, type PostgresStoreOptions, whereOf } from "./options.ts";
import { Queues } from "./queues.ts";
import { Refusals } from "./refusals.ts";
import { countRuns, listRuns } from "./runs/findRuns.ts";
import { inspectPostgres } from "./runs/inspectRuns.ts";
import { readAttempts, readHistory, readInbox, readRuns, readWorkers } from "./runs/readRuns.ts";
import { ALL_STATUSES } from "./runs/runRow.ts";
import { Schedules } from "./schedules.ts";
import { type Place, SCHEMA_VERSION, versionOf } from "./schema/migrate.ts";

const CONNECTIONS = 2;
/** People wait for the answer. */
const PATIENCE_MS = 2_000;
/** How often a database without a schema is asked again, and watchers are called. */
const LOOK_EVERY_MS = 1_000;
const QUIET = { debug() {}, info() {}, warn() {}, error() {} };
const ANYTHING: Wakeup = { work: true, messages: true, tasks: true, results: true };
const NOTHING: StorageState = { exists: false, schema: undefined };
const NO_LOAD = { waiting: 0, held: 0, oldest: undefined };

/** A store on PostgreSQL for reading only: it writes nothing, not even the schema, which need not exist. */
export class PostgresReader implements ReadStore {
  readonly #place: Place;
  readonly #context: Context;
  readonly #clock: (() => number) | undefined;
  readonly #timers = new Set<NodeJS.Timeout>();
  #state: StorageState = NOTHING;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #look: Promise<void> | undefined;

  constructor(options: PostgresStoreOptions) {
    const schema = checkedSchema(options.schema);
    const connectionString = checkedConnectionString(options.connectionString);
    this.#place = { schema, s: escapeIdentifier(schema), where: whereOf(options.connectionString, schema) };
    this.#clock = options.clock;
    const { s, where } = this.#place;
    const logger = options.logger ?? QUIET;
    const connections = new Connections({
      connectionString,
      connections: CONNECTIONS,
      s,
      where,
      patience: PATIENCE_MS,
      noAnswer: options.noAnswer,
      logger,
    });
    this.#context = {
      connections,
      functions: new Functions(connections, s),
      names: new NameIds(connections, s),
      notifications: new Notifications(connections, this.#place, logger, () => undefined),
      refusals: new Refusals(logger),
      place: this.#place,
      logger,
      now: () => this.#clock?.() ?? null,
    };
  }
  /**
   * Reads the options from a url.
   * @throws `InvalidInputError` if it can't be read.
   */
  static fromUrl(url: string, options?: FromUrlOptions): PostgresReader {
    return new PostgresReader(optionsOf(url, options));
  }
  /** Connects, so that a server that can't be reached is an error of this call. */
  async open(): Promise<void> {
    await this.#known();
  }

  /** Checks from time to time whether there is a schema, until there is. */
  async #known(): Promise<boolean> {
    if (this.#state.exists) return true;
    if (performance.now() - this.#lookedAt < LOOK_EVERY_MS) return false;
    this.#look ??= this.#context.connections
      .firstSession(async (session) => {
        const found = await versionOf(session, this.#place);
        this.#lookedAt = performance.now();
        if (found === SCHEMA_VERSION) this.#state = { exists: true, schema: { found, known: SCHEMA_VERSION } };
        else if (found > 0) this.#state = { exists: false, schema: { found, known: SCHEMA_VERSION } };
      }, PATIENCE_MS)
      .finally(() => {
        this.#look = undefined;
      });
    await this.#look;
    return this.#state.exists;
  }
  async #read<T>(nothing: T, work: (db: Connections, s: string) => Promise<T>): Promise<T> {
    if (!(await this.#known())) return nothing;
    return this.#understood(work(this.#context.connections, this.#place.s));
  }
  async #understood<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      throw isDamage(error) ? new StoreCorruptError({ where: this.#place.where, cause: error }) : error;
    }
  }

  now(): Promise<number> {
    if (this.#clock !== undefined) return Promise.resolve(this.#clock());
    return this.#read(
      Date.now(),
      async (db, s) => (await db.query<{ now: number }>(`SELECT ${s}.clock_1(NULL) AS now`))[0]?.now ?? Date.now(),
    );
  }
  get(runIds: readonly string[]): Promise<(RunRow | undefined)[]> {
    const none = runIds.map(() => undefined);
    return this.#read<(RunRow | undefined)[]>(none, (db, s) => readRuns(db, s, runIds));
  }
  list(query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
    return this.#read<{ runs: RunRow[]; cursor: string | undefined }>({ runs: [], cursor: undefined }, (db, s) => listRuns(db, s, query));
  }
  count(filter: RunFilter): Promise<RunCounts> {
    const none = Object.fromEntries(ALL_STATUSES.map((status) => [status, 0])) as Record<RunStatus, number>;
    return this.#read<RunCounts>({ ...none, capped: [] }, (db, s) => countRuns(db, s, filter));
  }
  history(runId: string): Promise<Turn[]> {
    return this.#read<Turn[]>([], (db, s) => readHistory(db, s, runId));
  }
  attempts(runId: string): Promise<StoredAttemptRow[]> {
    return this.#read<StoredAttemptRow[]>([], (db, s) => readAttempts(db, s, runId));
  }
  workers(runId: string): Promise<ReadonlyMap<number, string>> {
    return this.#read<ReadonlyMap<number, string>>(new Map(), (db, s) => readWorkers(db, s, runId));
  }
  inbox(runId: string): Promise<readonly InboxMessage[]> {
    return this.#read<readonly InboxMessage[]>([], (db, s) => readInbox(db, s, runId));
  }
  liveWorkers(): Promise<WorkerRow[]> {
    return this.#read<WorkerRow[]>([], () => new LiveWorkers(this.#context).list());
  }
  getQueue(name: string): Promise<QueueRow> {
    const none = { name, spec: {}, paused: false, pausedUntil: undefined, pausedKeys: [], runs: NO_LOAD, activities: NO_LOAD };
    return this.#read<QueueRow>(none, () => new Queues(this.#context).getQueue(name));
  }
  limitsFor(work: LimitedWork): Promise<LimitsFor | undefined> {
    return this.#read<LimitsFor | undefined>(undefined, () => new Queues(this.#context).limitsFor(work));
  }
  listQueues(): Promise<QueueRow[]> {
    return this.#read<QueueRow[]>([], () => new Queues(this.#context).listQueues());
  }
  readSchedules(ids: readonly string[]): Promise<{ readonly now: number; readonly schedules: readonly (ScheduleRow | undefined)[] }> {
    const none = { now: Date.now(), schedules: ids.map(() => undefined) };
    return this.#read<{ readonly now: number; readonly schedules: readonly (ScheduleRow | undefined)[] }>(none, () =>
      new Schedules(this.#context).read(ids),
    );
  }
  listSchedules(page: { readonly after: string | undefined; readonly limit: number }): ReturnType<ReadStore["listSchedules"]> {
    return this.#read<Awaited<ReturnType<ReadStore["listSchedules"]>>>({ now: Date.now(), schedules: [] }, () =>
      new Schedules(this.#context).list(page),
    );
  }
  inspect(): InspectStore {
    const { connections, place } = this.#context;
    const inner = inspectPostgres(connections, place.s, () => this.#state, (answer) => this.#understood(answer)); // biome-ignore format: one call
    // Each call first finds out whether there is a schema by now.
    return new Proxy(inner, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== "function") return member;
        return (...given: unknown[]) => this.#known().then(() => Reflect.apply(member, target, given) as unknown);
      },
    });
  }
  watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    const timer = setInterval(() => onWakeup(ANYTHING), LOOK_EVERY_MS);
    timer.unref();
    this.#timers.add(timer);
    return () => {
      clearInterval(timer);
      this.#timers.delete(timer);
    };
  }
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#context.connections.close();
  }
}
