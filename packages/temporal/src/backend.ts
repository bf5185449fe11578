// The backend on a Temporal cluster: the client and the workers behind one `Holdfast`.
// Owns: the connection, the workers, and the order of closing.
// Invariants: after `close` nothing is written and no worker takes tasks; an option that this host can't honour is an error.

import { hostname } from "node:os";
import { encodeLimited, InvalidInputError, type OperationInfo, type Payload } from "@holdfast/core";
import { operationsOf, realEnvironment } from "@holdfast/host";
import {
  type Backend,
  type BackendOptions,
  type BackendWorker,
  engineClosed,
  type RunSnapshot,
  type WorkerSettings,
} from "holdfast/backend";
import { Connection } from "./bridge.ts";
import { TemporalClient } from "./client/client.ts";
import { completed } from "./client/operationLog.ts";
import { called } from "./client/serviceErrors.ts";
import { refuseRetention } from "./client/starts.ts";
import { taskQueueOf } from "./names.ts";
import { checkedTemporalOptions } from "./options.ts";
import { PayloadCodecs } from "./payloadCodecs.ts";
import { Payloads } from "./payloads.ts";
import { TIMING, type Timing } from "./timing.ts";
import { type TemporalTarget, targetOf } from "./url.ts";
import { TemporalWorker, type TemporalWorkerOptions } from "./worker/worker.ts";

/**
 * The server refuses 2 MiB, the default of Holdfast, for a value together with what is recorded beside it: it terminates a run that asks for
 * more. So the limit of a value is lower.
 */
const MOST_BYTES = 2 * 1024 * 1024 - 16 * 1024;

export class TemporalBackend extends TemporalClient implements Backend {
  readonly #connection: Connection;
  readonly #options: BackendOptions;
  readonly #payloads: Payloads;
  readonly #queue: string;
  readonly #timing: Timing;
  readonly #workers = new Set<TemporalWorker>();
  /** The queues that have a worker on the connection that all share. */
  readonly #served = new Set<string>();
  readonly #connect: () => Promise<Connection>;
  #closing: Promise<void> | undefined;
  /** Workers that have stopped though Core still uses the connection for them: when it does not any more. */
  readonly #leaving: Promise<boolean>[] = [];

  private constructor(
    connection: Connection,
    connect: () => Promise<Connection>,
    { queue }: TemporalTarget,
    options: BackendOptions,
    timing: Timing,
  ) {
    const { codec, logger, temporal } = options;
    const payloads = new Payloads(codec);
    const searchAttributes = new Map(Object.entries(temporal?.searchAttributes ?? {}));
    super({ connection, payloads, codec, logger, queue, identity: `${process.pid}@${hostname()}`, searchAttributes });
    this.#connection = connection;
    this.#connect = connect;
    this.#options = options;
    this.#payloads = payloads;
    this.#queue = queue;
    this.#timing = timing;
  }
  static async open(url: string, options: BackendOptions, timing: Partial<Timing> = {}): Promise<TemporalBackend> {
    const target = targetOf(url, options.namespace);
    const { apiKey, tls, payloadCodecs: given } = checkedTemporalOptions(options.temporal);
    if (tls !== undefined && !target.isEncrypted) {
      const message = "Certificates have no effect without encryption: write temporals:// instead of temporal://.";
      throw new InvalidInputError({ what: "Holdfast.open", issues: [{ message, path: ["temporal", "tls"] }] });
    }
    const payloadCodecs = new PayloadCodecs(given);
    const connect = (): Promise<Connection> =>
      Connection.open({
        address: target.address,
        namespace: target.namespace,
        tls: target.isEncrypted ? (tls ?? {}) : undefined,
        apiKey,
        payloadCodecs,
        logger: options.logger,
      });
    return new TemporalBackend(await connect(), connect, target, options, { ...TIMING, ...timing });
  }

  async startWorker(settings: WorkerSettings): Promise<BackendWorker> {
    if (this.#closing !== undefined) throw engineClosed();
    // Starts by name and children would ignore it.
    for (const { options } of settings.workflows.all) refuseRetention(options.retention);
    const queue = taskQueueOf(settings.queue, this.#queue);
    // Core refuses a second worker for the same queue on one connection.
    const isFirst = !this.#served.has(queue);
    this.#served.add(queue);
    const own = isFirst ? undefined : await this.#connect();
    const leave = (): void => {
      if (isFirst) this.#served.delete(queue);
      own?.close();
    };
    try {
      const worker = await this.#startOn(own ?? this.#connection, queue, settings);
      // `close` was called meanwhile, and has not stopped this worker.
      if (this.#closing !== undefined) {
        await worker.stop();
        throw engineClosed();
      }
      this.#workers.add(worker);
      void worker.stopped.then(() => {
        this.#workers.delete(worker);
        if (worker.isAbandoned) this.#leaving.push(worker.left);
        void worker.left.then((hasLeft) => hasLeft && leave());
      });
      return worker;
    } catch (error) {
      leave();
      throw this.#closing === undefined ? error : engineClosed();
    }
  }
  async #startOn(connection: Connection, queue: string, settings: WorkerSettings): Promise<TemporalWorker> {
    const { codec, logger } = this.#options;
    const [searchAttributes] = await Promise.all([this.#searchAttributes(), this.#reach(connection)]);
    const limits = { ...this.#options.limits, payloadBytes: Math.min(this.#options.limits.payloadBytes, MOST_BYTES) };
    return TemporalWorker.start({
      settings,
      connection,
      queue,
      codec,
      payloads: this.#payloads,
      logger,
      limits,
      environment: realEnvironment,
      searchAttributes,
      executionOf: async (runId) => (await this.get([runId]))[0]?.execution ?? 0,
      timing: this.#timing,
      encode: (value, what): Payload => encodeLimited(codec, value, limits, what),
    });
  }

  /** A worker that starts has reached the server. Core asks once for all workers of a connection, and remembers the answer. */
  async #reach({ service, namespace }: Connection): Promise<void> {
    await called("worker", service.describeNamespace({ namespace }));
  }
  /** Not every account may read the list of the registered ones: then attributes are in the memo only. */
  async #searchAttributes(): Promise<TemporalWorkerOptions["searchAttributes"]> {
    const registered = await this.searchAttributes.registered().catch(() => new Map<string, number>());
    return (attributes) => this.searchAttributes.fieldsFor(attributes, registered);
  }

  /** Where a worker of this engine has the code, also those that leave no events: they are found by replay. */
  override async operations(run: RunSnapshot): Promise<OperationInfo[]> {
    const recorded = await super.operations(run);
    for (const worker of this.#workers) {
      const turns = await worker.turnsOf(run);
      if (turns !== undefined) return completed(recorded, operationsOf(turns, [], new Map(), this.#options.codec, run.finishedAt));
    }
    return recorded;
  }

  override close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
  async #close(): Promise<void> {
    this.refuse();
    const workers = [...this.#workers];
    await Promise.all(workers.map((worker) => worker.stop()));
    super.close();
    const leaving = [...this.#leaving, ...workers.filter(({ isAbandoned }) => isAbandoned).map(({ left }) => left)];
    if (leaving.length === 0) this.#connection.close();
    else void Promise.all(leaving).then((left) => !left.includes(false) && this.#connection.close());
  }
}
