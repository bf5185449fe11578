// An inspection of a store of the embedded engine: memory, SQLite, PostgreSQL.
// Owns: what is asked of the store, and the shape of the answers.
// Invariants: it only reads, and calls no workflow code; what runs wait for is said by the registry of workers (B6).

import {
  type Codec,
  checkedText,
  type History,
  InvalidInputError,
  type Payload,
  type RunStatus,
  sealed,
  type Turn,
  toHistory,
  UnsupportedError,
} from "@holdfast/core";
import { operationsOf } from "@holdfast/host";
import { checkedLimit, queryOf } from "../api/filters.ts";
import type { Reason, WorkerInfo } from "../api/operatingTypes.ts";
import { checkedOptions, FILTER } from "../api/options.ts";
import { queueInfo } from "../api/queues.ts";
import type { QueueInfo } from "../api/queueTypes.ts";
import { scheduleInfo } from "../api/schedules.ts";
import type { ScheduleInfo } from "../api/scheduleTypes.ts";
import type { RunFilter } from "../api/types.ts";
import { workerInfo } from "../api/worker.ts";
import { Descriptions } from "../engine/descriptions.ts";
import { reasonsOf } from "../engine/reasons.ts";
import { describeSchedule } from "../engine/schedules.ts";
import { schemasFromText } from "../engine/workflowSchemas.ts";
import type { ExecutionRow, InspectStore, ListedRun, ReadStore } from "../store/inspectPort.ts";
import type { InboxMessage, RunRow } from "../store/port.ts";
import { sealedStore } from "../store/sealedStore.ts";
import type { WorkerRow } from "../store/workerPort.ts";
import { Changes, type Source } from "./changes.ts";
import { countsOf } from "./counts.ts";
import { timelineOf } from "./timeline/timelineOf.ts";
import type {
  EncodedValue,
  InspectedAttempt,
  InspectedCount,
  InspectedExecution,
  InspectedFeatures,
  InspectedMessage,
  InspectedOperation,
  InspectedRun,
  InspectedWorkflow,
  Inspection,
  InspectionChange,
  StoreState,
  Timeline,
  TurnPage,
} from "./types.ts";
import { encodedValue, forgiving, lazily } from "./values.ts";

const MOST_SCHEDULES = 1_000;

export interface StoreInspectionOptions {
  readonly store: ReadStore;
  readonly codec: Codec;
  /** What tells of changes. */
  readonly sources: readonly Source[];
  /** What ends with the inspection. */
  close(): Promise<void>;
}

export class StoreInspection implements Inspection {
  readonly host: string;
  readonly features: InspectedFeatures;
  readonly #store: ReadStore;
  readonly #inspect: InspectStore;
  readonly #codec: Codec;
  /** By the registry alone: an inspection knows no workers of its own. */
  readonly #descriptions = new Descriptions(() => []);
  readonly #changes: Changes;
  readonly #close: () => Promise<void>;

  constructor({ store, codec, sources, close }: StoreInspectionOptions) {
    const inspect = store.inspect?.();
    if (inspect === undefined)
      throw new UnsupportedError({ feature: "inspect", host: "this store", instead: "Use one of Holdfast's stores." });
    this.#store = sealedStore(store, codec);
    this.#inspect = sealedStore(inspect, codec);
    this.#codec = codec;
    this.host = inspect.host;
    this.features = { queues: store.listQueues !== undefined, schedules: true, workers: store.liveWorkers !== undefined };
    this.#changes = new Changes(sources);
    this.#close = close;
  }
  async store(): Promise<StoreState> {
    const { exists, schema } = await this.#inspect.state();
    return { host: this.host, exists, schema, now: exists ? new Date(await this.#store.now()) : undefined };
  }

  // ── runs ──

  async list(given?: RunFilter, options: { readonly values?: boolean } = {}): ReturnType<Inspection["list"]> {
    const filter = checkedOptions("list", given, FILTER);
    const cursor = checkedText("list", "cursor", filter.cursor, Number.POSITIVE_INFINITY);
    const query = { ...queryOf(filter), limit: checkedLimit(filter.limit), cursor };
    if (options.values === true) {
      const page = await this.#store.list(query);
      return { runs: (await this.#descriptions.ofRows(page.runs, this.#store)).map((row) => this.#withValues(row)), cursor: page.cursor };
    }
    const page = await this.#inspect.listRuns(query);
    return { runs: (await this.#descriptions.ofRows(page.runs, this.#store)).map(withoutValues), cursor: page.cursor };
  }
  async counts(filter?: RunFilter): Promise<Record<RunStatus, InspectedCount>> {
    return countsOf(await this.#store.count(queryOf(checkedOptions("count", filter, FILTER))));
  }
  async get(id: string): Promise<InspectedRun | undefined> {
    const row = await this.#row(id);
    if (row === undefined) return undefined;
    const { waitingFor, error } = await this.#descriptions.describe(row, this.#light);
    return this.#withValues({ ...row, waitingFor, error });
  }
  async #row(id: string): Promise<RunRow | undefined> {
    return (await this.#store.get([checkedRun(id)]))[0];
  }
  #withValues(row: RunRow): InspectedRun {
    const value = (payload: Payload | undefined): EncodedValue | undefined => (payload === undefined ? undefined : this.value(payload));
    return { ...withoutValues(row), input: value(row.input), output: value(row.output), state: value(row.state) };
  }

  /** A description in words needs no values: a history may have many megabytes of them. */
  get #light(): Pick<ReadStore, "now" | "history" | "attempts" | "liveWorkers" | "limitsFor"> {
    const store = this.#store;
    return {
      now: () => store.now(),
      history: (id) => this.#inspect.turnsOf(id, { values: false }),
      attempts: (id) => store.attempts(id),
      ...(store.liveWorkers !== undefined && { liveWorkers: () => store.liveWorkers?.() ?? Promise.resolve([]) }),
      ...(store.limitsFor !== undefined && { limitsFor: (work) => store.limitsFor?.(work) ?? Promise.resolve(undefined) }),
    };
  }

  // ── one run ──

  async turns(id: string, { execution, after, limit }: TurnPage = {}): Promise<Turn[]> {
    return this.#inspect.turnsOf(checkedRun(id), { execution, after, limit });
  }
  async attempts(id: string, execution?: number): Promise<InspectedAttempt[]> {
    return this.#inspect.attemptsOf(checkedRun(id), execution);
  }
  async turnWorkers(id: string, execution?: number): Promise<ReadonlyMap<number, string>> {
    return this.#inspect.workersOf(checkedRun(id), execution);
  }
  async #records(id: string, execution: number | undefined, values: boolean): Promise<Records | undefined> {
    const row = await this.#row(id);
    if (row === undefined) return undefined;
    const asked = execution ?? row.execution;
    const isNewest = asked === row.execution;
    if (!isNewest && !(await this.#inspect.executionsOf(id)).some((one) => one.execution === asked)) return undefined;
    const turns = await this.#inspect.turnsOf(id, { execution: asked, values });
    // After the turns, so that they contain what ended each operation that these turns settle, and who wrote each turn.
    const [attempts, workers] = await Promise.all([this.#inspect.attemptsOf(id, asked), this.#inspect.workersOf(id, asked)]);
    return { row, execution: asked, turns, attempts, workers, closedAt: isNewest ? row.finishedAt : turns.at(-1)?.time };
  }
  async operations(id: string, execution?: number): Promise<InspectedOperation[]> {
    const found = await this.#records(id, execution, true);
    if (found === undefined) return [];
    const { turns, attempts, workers, closedAt } = found;
    return operationsOf(turns, attempts, workers, lazily(this.#codec), closedAt) as InspectedOperation[];
  }
  async timeline(id: string, options: { readonly execution?: number; readonly after?: number } = {}): Promise<Timeline | undefined> {
    const found = await this.#records(id, options.execution, false);
    if (found === undefined) return undefined;
    const { turns, attempts, workers, closedAt, execution } = found;
    return timelineOf(turns, attempts, workers, { execution, closedAt, after: options.after });
  }
  async history(id: string, execution?: number): Promise<History | undefined> {
    const found = await this.#records(id, execution, true);
    if (found === undefined) return undefined;
    const { row, turns } = found;
    const older =
      found.execution === row.execution
        ? undefined
        : (await this.#inspect.executionsOf(id)).find((one) => one.execution === found.execution);
    const run = older === undefined ? row : { ...row, version: older.version, input: older.input, status: endOf(older) ?? row.status };
    return toHistory(sealed(turns, this.#codec), run);
  }
  async inbox(id: string): Promise<InspectedMessage[]> {
    return (await this.#inspect.messagesOf(checkedRun(id))).map((message) => this.#message(message, message.receivedAt));
  }
  #message({ id, job }: InboxMessage, receivedAt: number | undefined): InspectedMessage {
    const at = { receivedAt: dateOf(receivedAt) };
    if (job.type === "signal") return { id: job.id, kind: "signal", name: job.name, payload: this.value(job.payload), ...at };
    if (job.type === "update") return { id: job.id, kind: "update", name: job.name, payload: this.value(job.input), ...at };
    const payload = job.type === "resolve" && job.outcome.status === "completed" ? this.value(job.outcome.value) : undefined;
    return {
      id: String(id),
      kind: job.type === "cancel" ? "cancel" : "other",
      name: job.type === "cancel" ? undefined : job.type,
      payload,
      ...at,
    };
  }
  async executions(id: string): Promise<InspectedExecution[]> {
    const row = await this.#row(id);
    if (row === undefined) return [];
    return (await this.#inspect.executionsOf(id)).map((one) => ({
      execution: one.execution,
      workflow: one.workflow,
      version: one.version,
      input: this.value(one.input),
      firstTurnAt: dateOf(one.firstTurnAt),
      lastTurnAt: dateOf(one.lastTurnAt),
      turns: one.turns,
      status: one.execution === row.execution ? row.status : endOf(one),
    }));
  }
  children(id: string, page: { readonly limit?: number; readonly cursor?: string } = {}): ReturnType<Inspection["list"]> {
    return this.list({ ...page, parentId: id });
  }
  async why(id: string): Promise<readonly Reason[] | undefined> {
    const row = await this.#row(id);
    if (row === undefined) return undefined;
    return (await reasonsOf(row, this.#light)).map(({ since, ...reason }) => ({ ...reason, since: dateOf(since) }));
  }

  // ── the rest of the engine ──

  async queueStats(): Promise<QueueInfo[]> {
    const rows = await this.#store.listQueues?.();
    if (rows === undefined) throw new UnsupportedError({ feature: "queues", host: this.host, instead: "Use one of Holdfast's stores." });
    return rows.map(queueInfo);
  }
  async schedules({ after, limit = MOST_SCHEDULES }: { readonly after?: string; readonly limit?: number } = {}): Promise<ScheduleInfo[]> {
    const { now, schedules } = await this.#store.listSchedules({ after, limit });
    return schedules.map((row) => scheduleInfo(describeSchedule(row, now), forgiving(this.#codec)));
  }
  async schedule(id: string): Promise<ScheduleInfo | undefined> {
    const { now, schedules } = await this.#store.readSchedules([id]);
    const [row] = schedules;
    return row === undefined ? undefined : scheduleInfo(describeSchedule(row, now), forgiving(this.#codec));
  }
  async workers(): Promise<WorkerInfo[]> {
    return (await this.#live()).map(workerInfo);
  }
  async #live(): Promise<WorkerRow[]> {
    const live = await this.#store.liveWorkers?.();
    if (live === undefined) throw new UnsupportedError({ feature: "workers", host: this.host, instead: "Use one of Holdfast's stores." });
    return live;
  }
  async workflows(): Promise<InspectedWorkflow[]> {
    const [rows, live] = await Promise.all([this.#inspect.workflows(), this.#live()]);
    return rows.flatMap(({ workflow: name, version, info }) => {
      const known = schemasFromText(info);
      if (known === undefined) return [];
      const serving = live.filter(({ serves }) =>
        serves.some((one) => one.workflow === name && (one.versions === "*" || one.versions.includes(version))),
      );
      return [{ name, version, ...known, workers: serving.map(({ id }) => id) }];
    });
  }

  watch(listener: (change: InspectionChange) => void): () => void {
    return this.#changes.watch(listener);
  }
  value(payload: Payload): EncodedValue {
    return encodedValue(payload, this.#codec);
  }
  async close(): Promise<void> {
    this.#changes.close();
    await this.#close();
  }
}

/** What the records of an execution are read from. */
interface Records {
  readonly row: RunRow;
  readonly execution: number;
  readonly turns: Turn[];
  readonly attempts: InspectedAttempt[];
  readonly workers: ReadonlyMap<number, string>;
  readonly closedAt: number | undefined;
}

function checkedRun(id: unknown): string {
  if (typeof id === "string") return id;
  throw new InvalidInputError({ what: "inspect", issues: [{ message: "The id of a run must be text.", path: ["id"] }] });
}
function dateOf(time: number | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time);
}

function withoutValues(row: ListedRun): InspectedRun {
  return {
    id: row.id,
    workflow: row.workflow,
    version: row.version,
    status: row.status,
    queue: row.queue,
    key: row.key,
    priority: row.priority,
    schedule: row.schedule,
    tick: dateOf(row.tick),
    forkedFrom: row.forkedFrom,
    input: undefined,
    output: undefined,
    state: undefined,
    error: row.error,
    waitingFor: row.waitingFor,
    execution: row.execution,
    attempt: row.attempt,
    parentId: row.parent?.runId,
    attributes: { ...row.attributes },
    createdAt: new Date(row.createdAt),
    startedAt: dateOf(row.startedAt),
    availableAt: dateOf(row.availableAt),
    deadlineAt: dateOf(row.deadlineAt),
    finishedAt: dateOf(row.finishedAt),
    workerId: row.workerId,
    historyLength: row.historyLength,
    turns: row.turns,
    resumable: row.resumable,
  };
}

const ENDS: Readonly<Record<string, RunStatus>> = {
  complete: "completed",
  fail: "failed",
  canceled: "canceled",
  continueAsNew: "continued",
};
function endOf({ lastRecord }: ExecutionRow): RunStatus | undefined {
  return lastRecord === undefined ? undefined : ENDS[lastRecord];
}
