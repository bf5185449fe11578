// An inspection of a backend that is not the embedded engine: of Temporal, what its client can tell.
// Owns: the shape of the answers.
// Invariants: it only reads; what the backend does not tell is an UnsupportedError that names the feature, the backend and an alternative.

import { type Codec, checkedText, type History, type Payload, type RunStatus, type Turn, UnsupportedError } from "@holdfast/core";
import { checkedLimit, queryOf } from "../api/filters.ts";
import type { Reason, WorkerInfo } from "../api/operatingTypes.ts";
import { checkedOptions, FILTER } from "../api/options.ts";
import { queueInfo } from "../api/queues.ts";
import type { QueueInfo } from "../api/queueTypes.ts";
import { runInfo } from "../api/runInfo.ts";
import { scheduleInfo } from "../api/schedules.ts";
import type { ScheduleInfo } from "../api/scheduleTypes.ts";
import type { RunFilter } from "../api/types.ts";
import { workerInfo } from "../api/worker.ts";
import { featureOf } from "../backend/features.ts";
import type { Backend, RunDescription } from "../backend/port.ts";
import { Changes } from "./changes.ts";
import { countsOf } from "./counts.ts";
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
} from "./types.ts";
import { encodedValue, forgiving, lazily } from "./values.ts";

const LOOK_EVERY_MS = 1_000;
const MOST_SCHEDULES = 1_000;

export class BackendInspection implements Inspection {
  readonly host: string;
  readonly features: InspectedFeatures;
  readonly #backend: Backend;
  readonly #codec: Codec;
  readonly #close: () => Promise<void>;
  readonly #changes = new Changes([
    (changed) => {
      const timer = setInterval(() => changed(), LOOK_EVERY_MS);
      timer.unref();
      return () => clearInterval(timer);
    },
  ]);

  constructor(backend: Backend, codec: Codec, close: () => Promise<void>) {
    this.#backend = backend;
    this.host = backend.name;
    const { queues, schedules, workers } = backend;
    this.features = { queues: queues !== undefined, schedules: schedules !== undefined, workers: workers !== undefined };
    this.#codec = codec;
    this.#close = close;
  }
  async store(): Promise<StoreState> {
    return { host: this.host, exists: true, schema: undefined, now: undefined };
  }
  async list(given?: RunFilter, options: { readonly values?: boolean } = {}): ReturnType<Inspection["list"]> {
    const filter = checkedOptions("list", given, FILTER);
    const after = checkedText("list", "cursor", filter.cursor, Number.POSITIVE_INFINITY);
    const { runs, cursor } = await this.#backend.list({ ...queryOf(filter), limit: checkedLimit(filter.limit), cursor: after });
    return { runs: runs.map((run) => this.#run(run, options.values === true)), cursor };
  }
  async counts(filter?: RunFilter): Promise<Record<RunStatus, InspectedCount>> {
    return countsOf(await this.#backend.count(queryOf(checkedOptions("count", filter, FILTER))));
  }
  async get(id: string): Promise<InspectedRun | undefined> {
    const run = await this.#backend.describe(id);
    return run === undefined ? undefined : this.#run(run, true);
  }
  #run(run: RunDescription, hasValues: boolean): InspectedRun {
    const { input, output, ...info } = runInfo(run, lazily(this.#codec));
    const state = hasValues && run.state !== undefined ? this.value(run.state) : undefined;
    const values = hasValues ? { input, output } : { input: undefined, output: undefined };
    return { ...info, ...(values as Pick<InspectedRun, "input" | "output">), state, turns: 0, resumable: run.resumable };
  }
  /** The backend decodes them. */
  async operations(id: string): Promise<InspectedOperation[]> {
    const [run] = await this.#backend.get([id]);
    if (run === undefined) return [];
    return (await this.#backend.operations(run)).map((operation) => ({
      ...operation,
      input: this.#decoded(operation.input),
      output: this.#decoded(operation.output),
    }));
  }
  #decoded(value: unknown): EncodedValue | undefined {
    return value === undefined ? undefined : this.value(this.#codec.encode(value));
  }
  async history(id: string): Promise<History | undefined> {
    const [run] = await this.#backend.get([id]);
    return run === undefined ? undefined : this.#backend.history(run);
  }
  children(id: string, page: { readonly limit?: number; readonly cursor?: string } = {}): ReturnType<Inspection["list"]> {
    return this.list({ ...page, parentId: id });
  }
  async why(id: string): Promise<readonly Reason[] | undefined> {
    const reasons = await featureOf(this.#backend, "why")(id);
    return reasons?.map(({ since, ...reason }) => ({ ...reason, since: since === undefined ? undefined : new Date(since) }));
  }
  async queueStats(): Promise<QueueInfo[]> {
    const { queues } = this.#backend;
    if (queues === undefined) throw this.#unsupported("queues", "Open an engine on SQLite or PostgreSQL.");
    return (await queues.listQueues()).map(queueInfo);
  }
  async schedules({ after, limit = MOST_SCHEDULES }: { readonly after?: string; readonly limit?: number } = {}): Promise<ScheduleInfo[]> {
    const found = await featureOf(this.#backend, "schedules").list({ after, limit });
    return found.map((one) => scheduleInfo(one, forgiving(this.#codec)));
  }
  async schedule(id: string): Promise<ScheduleInfo | undefined> {
    const found = await featureOf(this.#backend, "schedules").get(id);
    return found === undefined ? undefined : scheduleInfo(found, forgiving(this.#codec));
  }
  async workers(): Promise<WorkerInfo[]> {
    return (await featureOf(this.#backend, "workers")()).map(workerInfo);
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

  // ── what only stores of the embedded engine keep ──

  async turns(): Promise<Turn[]> {
    throw this.#unsupported("turns", HISTORY);
  }
  async attempts(): Promise<InspectedAttempt[]> {
    throw this.#unsupported("attempts", "The operations have their attempts.");
  }
  async turnWorkers(): Promise<ReadonlyMap<number, string>> {
    throw this.#unsupported("turnWorkers", "The operations have their attempts.");
  }
  async timeline(): Promise<Timeline | undefined> {
    throw this.#unsupported("timeline", HISTORY);
  }
  async inbox(): Promise<InspectedMessage[]> {
    throw this.#unsupported("inbox", HISTORY);
  }
  async executions(): Promise<InspectedExecution[]> {
    throw this.#unsupported("executions", HISTORY);
  }
  async workflows(): Promise<InspectedWorkflow[]> {
    throw this.#unsupported("workflows", "Look into the code of the workers.");
  }
  #unsupported(feature: string, instead: string): UnsupportedError {
    return new UnsupportedError({ feature, host: this.host, instead });
  }
}
const HISTORY = "Read the history of the run, or look at it with the tools of the service.";
