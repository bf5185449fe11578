// Temporal's Core: connections, workers and replay workers, behind the types of this package.
// Owns: everything that is specific to `@temporalio/core-bridge`, whose interface is internal and may change: its options, its framing (what
// Core gives is plain, what it takes is length-delimited), its errors, and the order of a shutdown.
// Invariants: one runtime for the whole process, which ends with its last user; every option is set, since Core refuses missing ones.

import { HoldfastError, type Logger, messageOf } from "@holdfast/core";
import bridge, { type native } from "@temporalio/core-bridge";
import { apiKeyError, connectionError } from "./connectionErrors.ts";
import { checkApiKey } from "./options.ts";
import { PayloadCodecs } from "./payloadCodecs.ts";
import { api, core, type coresdk, type temporal } from "./proto.ts";

export type WorkflowActivation = coresdk.workflow_activation.IWorkflowActivation;
export type ActivationJob = coresdk.workflow_activation.IWorkflowActivationJob;
export type ActivationCompletion = coresdk.workflow_completion.IWorkflowActivationCompletion;
export type CoreCommand = coresdk.workflow_commands.IWorkflowCommand;
export type ActivityTask = coresdk.activity_task.IActivityTask;
export type ActivityTaskCompletion = coresdk.IActivityTaskCompletion;
export type TemporalHistory = temporal.api.history.v1.IHistory;
export type HistoryEvent = temporal.api.history.v1.IHistoryEvent;
export type WorkflowService = temporal.api.workflowservice.v1.WorkflowService;
export type OperatorService = temporal.api.operatorservice.v1.OperatorService;

/** Node finds the names of a CommonJS module only through its default export. */
const { native: calls, errors } = bridge;

export const SDK_NAME = "holdfast-typescript";
export const SDK_VERSION = "0.1.0";

// ───────────────────────────── the runtime ──────────────────────

/** Core's warnings are about the server's answers to retried calls; what concerns a run is reported by this package. */
const LOG_FILTER = "ERROR,temporalio_sdk_core=ERROR,temporalio_client=ERROR";

let runtime: native.Runtime | undefined;
const loggers: Logger[] = [];

function useRuntime(logger: Logger): native.Runtime {
  loggers.push(logger);
  runtime ??= calls.newRuntime({
    logExporter: { type: "forward", filter: LOG_FILTER, receiver: (entries) => entries.forEach(logEntry) },
    telemetry: { attachServiceName: true, metricPrefix: "temporal_" },
    metricsExporter: null,
    workerHeartbeatIntervalMillis: null,
  });
  return runtime;
}
function leaveRuntime(logger: Logger): void {
  const at = loggers.indexOf(logger);
  if (at >= 0) loggers.splice(at, 1);
  if (loggers.length > 0 || runtime === undefined) return;
  calls.runtimeShutdown(runtime);
  runtime = undefined;
}
function logEntry(line: string): void {
  try {
    const { target, message, fields } = JSON.parse(line) as native.LogEntry;
    loggers[0]?.error(`Temporal's Core: ${message}`, { target, ...fields });
  } catch {
    // A line that is not JSON, or a logger that throws: Core must not notice.
  }
}

// ──────────────────────────── connections ───────────────────────

export interface ConnectionOptions {
  /** `host:port`. */
  readonly address: string;
  readonly namespace: string;
  readonly tls:
    | {
        readonly serverRootCACertificate?: Uint8Array | undefined;
        readonly clientCertPair?: { readonly crt: Uint8Array; readonly key: Uint8Array } | undefined;
        readonly serverNameOverride?: string | undefined;
      }
    | undefined;
  readonly apiKey: string | (() => Promise<string>) | undefined;
  readonly payloadCodecs: PayloadCodecs;
  readonly logger: Logger;
}

/** Milliseconds for a call; Core retries it within that time. */
const CALL_TIMEOUT = 30_000;
/** The server answers a long poll after 20 s at the latest, or after a minute for histories. */
const LONG_POLL_TIMEOUT = 70_000;
/** How often a function that makes API keys is asked again. */
const API_KEY_INTERVAL = 60_000;

export class Connection {
  readonly namespace: string;
  readonly address: string;
  /** Calls are retried if the server can't be reached. */
  readonly service: WorkflowService;
  /** The same service, for calls that wait until something happens. */
  readonly longPolls: WorkflowService;
  readonly operator: OperatorService;
  readonly #client: native.Client;
  readonly #logger: Logger;
  readonly payloadCodecs: PayloadCodecs;
  #keyTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  private constructor(client: native.Client, { namespace, address, logger, payloadCodecs }: ConnectionOptions) {
    this.#client = client;
    this.#logger = logger;
    this.namespace = namespace;
    this.address = address;
    this.payloadCodecs = payloadCodecs;
    const { WorkflowService: Service } = api.api.workflowservice.v1;
    const { OperatorService: Operator } = api.api.operatorservice.v1;
    const send = calls.clientSendWorkflowServiceRequest;
    this.service = withCodecs(Service.create(rpc(client, send, CALL_TIMEOUT)), payloadCodecs);
    this.longPolls = withCodecs(Service.create(rpc(client, send, LONG_POLL_TIMEOUT)), payloadCodecs);
    this.operator = Operator.create(rpc(client, calls.clientSendOperatorServiceRequest, CALL_TIMEOUT));
  }
  static async open(options: ConnectionOptions): Promise<Connection> {
    const { address, tls, apiKey, logger } = options;
    const key = typeof apiKey === "function" ? await keyOf(apiKey) : apiKey;
    const own = useRuntime(logger);
    const scheme = tls === undefined ? "http" : "https";
    try {
      const client = await calls.newClient(own, {
        targetUrl: `${scheme}://${address}`,
        clientName: SDK_NAME,
        clientVersion: SDK_VERSION,
        tls: tls === undefined ? null : tlsOptions(tls),
        httpConnectProxy: null,
        dnsLoadBalancingConfig: null,
        grpcCompression: { codec: "none" },
        headers: null,
        apiKey: key ?? null,
        disableErrorCodeMetricTags: false,
        payloadsWarnSize: 512 * 1024,
        memoWarnSize: 1024 * 1024,
      });
      const connection = new Connection(client, options);
      if (typeof apiKey === "function") connection.#refreshKey(apiKey);
      return connection;
    } catch (cause) {
      leaveRuntime(logger);
      throw connectionError({ address, isEncrypted: tls !== undefined, hasCertificate: tls?.clientCertPair !== undefined }, cause);
    }
  }
  #refreshKey(apiKey: () => Promise<string>): void {
    const refresh = async (): Promise<void> => {
      try {
        const key = await keyOf(apiKey);
        if (!this.#isClosed) calls.clientUpdateApiKey(this.#client, key);
      } catch (error) {
        this.#logger.warn(`The API key for Temporal could not be renewed. ${messageOf(error)}`, { error });
      }
    };
    this.#keyTimer = setInterval(() => void refresh(), API_KEY_INTERVAL);
    this.#keyTimer.unref();
  }
  newWorker(options: CoreWorkerOptions): CoreWorker {
    return new CoreWorker(calls.newWorker(this.#client, workerOptions(this.namespace, options)), this.payloadCodecs, this.#logger);
  }
  /** Core must not use it any more. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#keyTimer);
    calls.clientClose(this.#client);
    leaveRuntime(this.#logger);
  }
}

type Send = (client: native.Client, call: native.RpcCall) => Promise<Buffer>;
type Answer = (error: Error | null, response?: Uint8Array | null) => void;

function rpc(client: native.Client, send: Send, timeout: number) {
  return ({ name }: { readonly name: string }, request: Uint8Array, answer: Answer): void => {
    const call = { rpc: name, req: bufferOf(request), retry: true, metadata: {}, timeout };
    send(client, call).then(
      (response) => answer(null, response),
      (error: Error) => answer(error),
    );
  };
}
/** Converts the payloads of requests and responses. Without codecs the service is used as it is. */
function withCodecs(service: WorkflowService, codecs: PayloadCodecs): WorkflowService {
  if (codecs.isEmpty) return service;
  return new Proxy(service, {
    get: (target, key) => {
      const method: unknown = Reflect.get(target, key, target);
      if (typeof method !== "function") return method;
      return async (request: object): Promise<unknown> => {
        const response: unknown = await Reflect.apply(method, target, [await codecs.encode(request)]);
        return typeof response === "object" && response !== null ? codecs.decode(response) : response;
      };
    },
  });
}
function tlsOptions(tls: NonNullable<ConnectionOptions["tls"]>): native.TlsOptions {
  const { serverRootCACertificate: root, clientCertPair: pair, serverNameOverride } = tls;
  return {
    domain: serverNameOverride ?? null,
    serverRootCaCert: root === undefined ? null : bufferOf(root),
    clientTlsOptions: pair === undefined ? null : { clientCert: bufferOf(pair.crt), clientPrivateKey: bufferOf(pair.key) },
  };
}
function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

async function keyOf(apiKey: () => Promise<string>): Promise<string> {
  try {
    const key: unknown = await apiKey();
    checkApiKey(key);
    return key;
  } catch (cause) {
    throw apiKeyError(cause);
  }
}

/** Status codes of gRPC that this package distinguishes. */
export const Status = {
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;
/** The status of a failed call; undefined for other errors. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof errors.ServiceError ? error.code : undefined;
}
/** The type of the server's failure, without its package: "NotFoundFailure", "NamespaceNotFoundFailure". Undefined if it has none. */
export function failureTypeOf(error: unknown): string | undefined {
  if (!(error instanceof errors.ServiceError)) return undefined;
  const [details] = error.metadata.get("grpc-status-details-bin");
  return details === undefined ? undefined : /errordetails\.v1\.(\w+)/.exec(details.toString("latin1"))?.[1];
}

// ───────────────────────────── workers ──────────────────────────

export interface CoreWorkerOptions {
  readonly identity: string;
  readonly queue: string;
  readonly workflows: boolean;
  readonly activities: boolean;
  readonly workflowSlots: number;
  readonly activitySlots: number;
  readonly cachedRuns: number;
  /** Milliseconds. */
  readonly gracePeriod: number;
  /** Longest time between two heartbeats that are sent to the server, in milliseconds. */
  readonly heartbeatInterval: number;
  /** Milliseconds that a task waits for the worker that has the run in its cache. */
  readonly stickyTimeout: number;
}

function workerOptions(namespace: string, options: CoreWorkerOptions): native.WorkerOptions {
  const {
    identity,
    queue,
    workflows,
    activities,
    workflowSlots,
    activitySlots,
    cachedRuns,
    gracePeriod,
    heartbeatInterval,
    stickyTimeout,
  } = options;
  const slots = (numSlots: number) => ({ type: "fixed-size" as const, numSlots });
  const pollers = (maximum: number) => ({ type: "simple-maximum" as const, maximum });
  return {
    identity,
    buildId: `${SDK_NAME}-${SDK_VERSION}`,
    useVersioning: false,
    workerDeploymentOptions: null,
    taskQueue: queue,
    namespace,
    tuner: {
      workflowTaskSlotSupplier: slots(Math.max(workflowSlots, 2)),
      activityTaskSlotSupplier: slots(activitySlots),
      localActivityTaskSlotSupplier: slots(1_000),
      nexusTaskSlotSupplier: slots(1),
      resourceBasedTunerConfig: null,
    },
    nonStickyToStickyPollRatio: 0.2,
    workflowTaskPollerBehavior: pollers(Math.max(2, Math.min(5, workflowSlots))),
    activityTaskPollerBehavior: pollers(Math.max(1, Math.min(5, activitySlots))),
    nexusTaskPollerBehavior: pollers(1),
    taskTypes: {
      enableWorkflows: workflows,
      enableLocalActivities: workflows,
      enableRemoteActivities: activities,
      enableNexus: false,
    },
    stickyQueueScheduleToStartTimeout: stickyTimeout,
    maxCachedWorkflows: cachedRuns,
    maxHeartbeatThrottleInterval: heartbeatInterval,
    defaultHeartbeatThrottleInterval: heartbeatInterval,
    maxTaskQueueActivitiesPerSecond: null,
    maxActivitiesPerSecond: null,
    maxEagerActivityReservationsPerWorkflowTask: 3,
    shutdownGraceTime: gracePeriod,
    plugins: [],
    storageDrivers: [],
    workflowFailureErrors: [],
    workflowTypesToFailureErrors: {},
    disablePayloadErrorLimit: false,
  };
}

export class CoreWorker {
  readonly #worker: native.Worker;
  /** Calls in progress: Core refuses to end a worker that is in use. */
  readonly #calls = new Set<Promise<void>>();
  readonly #codecs: PayloadCodecs;
  readonly #logger: Logger;

  constructor(worker: native.Worker, codecs: PayloadCodecs, logger: Logger) {
    this.#worker = worker;
    this.#codecs = codecs;
    this.#logger = logger;
  }
  /** Rejects if the namespace does not exist, or may not be used. */
  async validate(): Promise<void> {
    try {
      await calls.workerValidate(this.#worker);
    } catch (cause) {
      throw invalidWorker(cause);
    }
  }
  /** Undefined once the worker is shut down and nothing is left to do. One call at a time. */
  async nextActivation(): Promise<WorkflowActivation | undefined> {
    for (;;) {
      const bytes = await unlessShutDown(calls.workerPollWorkflowActivation(this.#worker));
      if (bytes === undefined) return undefined;
      const activation = core.workflow_activation.WorkflowActivation.decode(new Uint8Array(bytes));
      if (this.#codecs.isEmpty) return activation;
      try {
        return await this.#codecs.decode(activation);
      } catch (error) {
        // One run that can't be read must not keep the worker from the others.
        await this.#attempt(() => this.#complete({ runId: activation.runId, failed: { failure: this.#codecFailure(error) } }));
      }
    }
  }
  async complete(completion: ActivationCompletion): Promise<void> {
    if (this.#codecs.isEmpty) return this.#complete(completion);
    const { runId } = completion;
    await this.#complete(await this.#encoded(completion, (failure) => ({ runId: runId ?? "", failed: { failure } })));
  }
  #complete(completion: ActivationCompletion): Promise<void> {
    const bytes = core.workflow_completion.WorkflowActivationCompletion.encodeDelimited(completion).finish();
    return this.#call(calls.workerCompleteWorkflowActivation(this.#worker, bufferOf(bytes)));
  }
  /** As `nextActivation`. */
  async nextActivityTask(): Promise<ActivityTask | undefined> {
    for (;;) {
      const bytes = await unlessShutDown(calls.workerPollActivityTask(this.#worker));
      if (bytes === undefined) return undefined;
      const task = core.activity_task.ActivityTask.decode(new Uint8Array(bytes));
      if (this.#codecs.isEmpty) return task;
      try {
        return await this.#codecs.decode(task);
      } catch (error) {
        const result = { failed: { failure: this.#codecFailure(error) } };
        await this.#attempt(() => this.#completeActivity({ taskToken: task.taskToken, result }));
      }
    }
  }
  async completeActivity(completion: ActivityTaskCompletion): Promise<void> {
    if (this.#codecs.isEmpty) return this.#completeActivity(completion);
    const taskToken = completion.taskToken ?? new Uint8Array(0);
    await this.#completeActivity(await this.#encoded(completion, (failure) => ({ taskToken, result: { failed: { failure } } })));
  }
  #completeActivity(completion: ActivityTaskCompletion): Promise<void> {
    const bytes = core.ActivityTaskCompletion.encodeDelimited(completion).finish();
    return this.#call(calls.workerCompleteActivityTask(this.#worker, bufferOf(bytes)));
  }
  /** A heartbeat that can't be sent is left out: the next one may succeed. */
  async heartbeat(heartbeat: coresdk.IActivityHeartbeat): Promise<void> {
    await this.#attempt(async () => {
      const message = this.#codecs.isEmpty ? heartbeat : await this.#codecs.encode(heartbeat);
      calls.workerRecordActivityHeartbeat(this.#worker, bufferOf(core.ActivityHeartbeat.encodeDelimited(message).finish()));
    });
  }

  // ── codecs that fail: the server offers the task again ──

  async #encoded<T extends object>(message: T, instead: (failure: temporal.api.failure.v1.IFailure) => T): Promise<T> {
    try {
      return await this.#codecs.encode(message);
    } catch (error) {
      return instead(this.#codecFailure(error));
    }
  }
  #codecFailure(error: unknown): temporal.api.failure.v1.IFailure {
    const message = `A payload codec failed: ${messageOf(error)}`;
    this.#logger.error(message, { error });
    return { message, applicationFailureInfo: { type: "PayloadCodecError" } };
  }
  async #attempt(call: () => Promise<void>): Promise<void> {
    try {
      await call();
    } catch (error) {
      this.#logger.warn(`A message to Temporal's Core was not sent: ${messageOf(error)}`, { error });
    }
  }

  /** From now on it gets no new tasks; the polls return undefined once those in progress have ended. */
  initiateShutdown(): void {
    calls.workerInitiateShutdown(this.#worker);
  }
  async #call(call: Promise<void>): Promise<void> {
    this.#calls.add(call);
    try {
      await call;
    } finally {
      this.#calls.delete(call);
    }
  }
  /** Once the polls have returned undefined. */
  async finalizeShutdown(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
    await calls.workerFinalizeShutdown(this.#worker);
  }
}
/** Core passes on the status only as a text. */
function invalidWorker(cause: unknown): HoldfastError {
  const [, status, words = messageOf(cause)] = /code: (\w+), message: "([^"]*)"/.exec(messageOf(cause)) ?? [];
  const isRefused = status !== undefined && /NotFound|Denied|Unauthenticated|Argument/.test(status);
  const message = `The worker can't use the Temporal server: ${words}`;
  return new HoldfastError(message, {
    code: isRefused ? "HF_TEMPORAL_REFUSED" : "HF_TEMPORAL_UNAVAILABLE",
    retryable: !isRefused,
    cause,
  });
}
async function unlessShutDown<T>(poll: Promise<T>): Promise<T | undefined> {
  try {
    return await poll;
  } catch (error) {
    if (error instanceof errors.ShutdownError) return undefined;
    throw error;
  }
}

// ────────────────────────────── replay ──────────────────────────

/** A worker that is given histories instead of tasks. It gets no activity tasks and no queries. */
export class ReplayWorker {
  readonly core: CoreWorker;
  readonly #pusher: native.HistoryPusher;
  readonly #logger: Logger;

  constructor(options: { readonly namespace: string; readonly queue: string; readonly cachedRuns: number; readonly logger: Logger }) {
    const { namespace, queue, cachedRuns, logger } = options;
    const own = useRuntime(logger);
    this.#logger = logger;
    const settings = workerOptions(namespace, {
      identity: "replay",
      queue,
      workflows: true,
      activities: false,
      workflowSlots: 2,
      activitySlots: 1,
      cachedRuns,
      gracePeriod: 0,
      heartbeatInterval: 1_000,
      stickyTimeout: 1_000,
    });
    const [worker, pusher] = calls.newReplayWorker(own, settings);
    this.core = new CoreWorker(worker, new PayloadCodecs(), logger); // histories are decoded when they are downloaded
    this.#pusher = pusher;
  }
  /** One history at a time: wait for the eviction of the run before the next. */
  async push(workflowId: string, history: TemporalHistory): Promise<void> {
    const bytes = api.api.history.v1.History.encodeDelimited(history).finish();
    await calls.pushHistory(this.#pusher, workflowId, bufferOf(bytes));
  }
  /** After it the polls return undefined. */
  close(): void {
    calls.closeHistoryStream(this.#pusher);
    this.core.initiateShutdown();
  }
  async finalize(): Promise<void> {
    await this.core.finalizeShutdown();
    leaveRuntime(this.#logger);
  }
}
