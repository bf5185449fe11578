// A client on a real server, and a worker that answers activations by a script instead of by workflow code.
// Owns: connections and workers of one test file, which it stops at the end.
// Invariants: none.

import { randomUUID } from "node:crypto";
import { type Codec, jsonCodec, type Logger, type Payload, serializeError } from "@holdfast/core";
import { needTemporalServer } from "@holdfast/temporal-server";
import type { Message, RunStart, SignalJob, UpdateJob } from "holdfast/backend";
import { afterAll, beforeAll, describe } from "vitest";
import { type ActivationJob, Connection, type CoreCommand, type CoreWorker } from "../../src/bridge.ts";
import { TemporalClient } from "../../src/client/client.ts";
import { type TemporalFailure, toFailure } from "../../src/failures.ts";
import { PayloadCodecs } from "../../src/payloadCodecs.ts";
import { Payloads } from "../../src/payloads.ts";

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };
export const payloads: Payloads = new Payloads(jsonCodec);
export const encode = (value: unknown): Payload => jsonCodec.encode(value);

/** What a script returns: commands, or that the task fails. */
export type Turn = CoreCommand[] | { readonly fails: string };
/** For each job of an activation. */
export type Script = (job: ActivationJob, run: { readonly state: Record<string, unknown> }) => Turn | undefined;

export interface Bench {
  readonly connection: Connection;
  readonly client: TemporalClient;
  /** The queue of the scripted worker, which is the default queue of the client. */
  readonly queue: string;
  newClient(options: { readonly codec?: Codec; readonly searchAttributes?: ReadonlyMap<string, string> }): TemporalClient;
  id(): string;
}

/** The tests of `body` need a server. */
export function withServer(name: string, scripts: Readonly<Record<string, Script>>, body: (bench: () => Bench) => void): void {
  describe(name, () => {
    let bench: Bench | undefined;
    let connection: Connection | undefined;
    let worker: ScriptedWorker | undefined;
    beforeAll(async () => {
      const { address, namespace } = await needTemporalServer();
      const queue = `q-${randomUUID()}`;
      const open = await Connection.open({
        address,
        namespace,
        logger: silent,
        tls: undefined,
        apiKey: undefined,
        payloadCodecs: new PayloadCodecs(),
      });
      connection = open;
      worker = new ScriptedWorker(open, queue, scripts);
      const newClient: Bench["newClient"] = ({ codec = jsonCodec, searchAttributes = new Map<string, string>() }) =>
        new TemporalClient({
          connection: open,
          payloads: new Payloads(codec),
          codec,
          logger: silent,
          queue,
          identity: "test",
          searchAttributes,
        });
      bench = { connection: open, client: newClient({}), queue, newClient, id: () => `run-${randomUUID()}` };
    });
    afterAll(async () => {
      await worker?.stop();
      bench?.client.close();
      connection?.close();
    });
    body(() => {
      if (bench === undefined) throw new Error("The server was not reached.");
      return bench;
    });
  });
}

class ScriptedWorker {
  readonly #worker: CoreWorker;
  readonly #runs = new Map<string, { readonly script: Script | undefined; readonly state: Record<string, unknown> }>();
  readonly #scripts: Readonly<Record<string, Script>>;
  readonly #stopped: Promise<void>;

  constructor(connection: Connection, queue: string, scripts: Readonly<Record<string, Script>>) {
    this.#scripts = scripts;
    this.#worker = connection.newWorker({
      identity: "scripted",
      queue,
      workflows: true,
      activities: false,
      workflowSlots: 20,
      activitySlots: 1,
      cachedRuns: 1_000,
      gracePeriod: 0,
      heartbeatInterval: 1_000,
      stickyTimeout: 5_000,
    });
    this.#stopped = this.#work();
  }
  async #work(): Promise<void> {
    for (let next = await this.#worker.nextActivation(); next !== undefined; next = await this.#worker.nextActivation()) {
      const { runId = "", jobs } = next;
      const turn = this.#turn(runId ?? "", jobs ?? []);
      const completion = Array.isArray(turn)
        ? { successful: { commands: turn } }
        : { failed: { failure: toFailure({ name: "NondeterminismError", message: turn.fails }, jsonCodec), forceCause: 0 } };
      await this.#worker.complete({ runId, ...completion });
    }
  }
  #turn(runId: string, jobs: readonly ActivationJob[]): Turn {
    const commands: CoreCommand[] = [];
    for (const job of jobs) {
      if (job.removeFromCache) this.#runs.delete(runId);
      if (job.initializeWorkflow) this.#runs.set(runId, { script: this.#scripts[job.initializeWorkflow.workflowType ?? ""], state: {} });
      const run = this.#runs.get(runId);
      const turn = run?.script?.(job, run);
      if (turn === undefined) continue;
      if (!Array.isArray(turn)) return turn;
      commands.push(...turn);
    }
    return commands;
  }
  async stop(): Promise<void> {
    this.#worker.initiateShutdown();
    await this.#stopped;
    await this.#worker.finalizeShutdown();
  }
}

// ── what the tests send ──

export function startOf(id: string, workflow: string, more: Partial<RunStart> = {}): RunStart {
  return {
    id,
    workflow,
    version: undefined,
    input: encode({ n: 1 }),
    isChecked: true,
    queue: "default",
    priority: 0,
    attributes: {},
    onConflict: "reject",
    seed: randomUUID(),
    ...more,
  };
}
export function signalOf(name: string, payload?: unknown, idempotencyKey?: string): Message<SignalJob> {
  return { job: { type: "signal", id: idempotencyKey ?? randomUUID(), name, payload: encode(payload) }, idempotencyKey };
}
export function updateOf(
  name: string,
  input?: unknown,
  more: { readonly id?: string; readonly acceptWithin?: number } = {},
): Message<UpdateJob> {
  return { job: { type: "update", id: more.id ?? randomUUID(), name, input: encode(input) }, acceptWithin: more.acceptWithin };
}

// ── what scripts answer ──

export function completeWith(value: unknown): CoreCommand[] {
  return [{ completeWorkflowExecution: { result: payloads.toTemporal(encode(value)) } }];
}
export function acceptAnd(job: ActivationJob, outcome: { readonly value?: unknown; readonly error?: Error } | undefined): CoreCommand[] {
  const protocolInstanceId = job.doUpdate?.protocolInstanceId ?? "";
  const accepted: CoreCommand = { updateResponse: { protocolInstanceId, accepted: {} } };
  if (outcome === undefined) return [accepted];
  const ended: CoreCommand =
    outcome.error === undefined
      ? { updateResponse: { protocolInstanceId, completed: payloads.toTemporal(encode(outcome.value)) } }
      : { updateResponse: { protocolInstanceId, rejected: failureOf(outcome.error) } };
  return [accepted, ended];
}
export function reject(job: ActivationJob, error: Error): CoreCommand[] {
  return [{ updateResponse: { protocolInstanceId: job.doUpdate?.protocolInstanceId ?? "", rejected: failureOf(error) } }];
}
export function failureOf(error: Error): TemporalFailure {
  return toFailure(serializeError(error), jsonCodec);
}
