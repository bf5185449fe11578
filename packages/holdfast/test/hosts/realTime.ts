// Job: the embedded host on an SQLite file as `hostConformance` sees it, in real time.
// Owns: the engine of each process, one worker a workflow.
// Invariants: clock, timers and randomness are those of the machine; a process that died writes nothing more.

import { setTimeout as pause } from "node:timers/promises";
import { type Doom, HoldfastRun, type Host, type HostOptions, type HostQueues, type HostRun, type HostStart } from "@holdfast/conformance";
import { type Activity, type AnyWorkflow, type Duration, jsonCodec, parseDuration } from "@holdfast/core";
import { type Environment, realEnvironment } from "@holdfast/host";
import type { Holdfast, Worker } from "holdfast";
import { SqliteStore, type Store } from "holdfast/store";
import { Engine } from "../../src/engine/engine.ts";
import { Line, OpenEngine, QUEUE, SILENT } from "./embedded.ts";
import { endLeases } from "./endLeases.ts";

/** Longer than any test: no worker loses a run because the machine is busy. */
const LEASE = "10m";
/** What is left of a dead worker's lease, in milliseconds. */
const LAST = 2_000;
/** Nothing may happen for so many looks at it, this many milliseconds apart. */
const LOOKS = 6;
const APART = 10;

interface Process {
  readonly line: Line;
  readonly store: Store;
  readonly holdfast: OpenEngine;
  /** Macrotasks that were asked for and have not come. */
  readonly soon: { count: number };
  readonly serving: Map<string, { readonly code: AnyWorkflow; readonly worker: Worker }>;
}

export class RealTimeHost implements Host {
  readonly #path: string;
  readonly #options: HostOptions;
  readonly #workflows = new Map<string, AnyWorkflow>();
  readonly #processes: Process[] = [];

  private constructor(path: string, options: HostOptions) {
    this.#path = path;
    this.#options = options;
  }
  static async open(path: string, options: HostOptions): Promise<RealTimeHost> {
    const host = new RealTimeHost(path, options);
    await host.#begin();
    return host;
  }
  async #begin(): Promise<void> {
    const line = new Line();
    const soon = { count: 0 };
    const environment: Environment = {
      ...realEnvironment,
      soon(callback) {
        soon.count++;
        realEnvironment.soon(() => {
          soon.count--;
          callback();
        });
      },
    };
    const store = new SqliteStore(this.#path, { synchronous: "NORMAL" });
    const internals = { store: line.on(store), environment, codec: jsonCodec, logger: SILENT, limits: {} };
    const engine = new Engine(internals);
    await engine.open();
    this.#processes.push({ line, store, holdfast: new OpenEngine(engine), soon, serving: new Map() });
  }
  get #process(): Process {
    const process = this.#processes.at(-1);
    if (process === undefined) throw new Error("This host is closed.");
    return process;
  }

  async start(workflow: AnyWorkflow, input?: unknown, options: HostStart = {}): Promise<HostRun> {
    this.teach(workflow);
    await this.#serve();
    const { line, holdfast } = this.#process;
    const { id } = await line.asked(holdfast.start(workflow, input, { id: "run", ...options, signals: [...(options.signals ?? [])] }));
    await this.settle();
    return this.run(workflow, id);
  }
  run(workflow: AnyWorkflow, id: string): HostRun {
    this.teach(workflow);
    return new HoldfastRun(this, workflow, id);
  }
  teach(...workflows: AnyWorkflow[]): void {
    for (const workflow of workflows) this.#workflows.set(workflow.name, workflow);
  }
  async #serve(): Promise<void> {
    const { serving, line, holdfast } = this.#process;
    for (const [name, code] of this.#workflows) {
      const served = serving.get(name);
      if (line.dead || served?.code === code) continue;
      await served?.worker.stop();
      // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
      const activities: readonly Activity<any, any>[] = this.#options.activities;
      const worker = await holdfast.worker({ workflows: [code], activities, lease: LEASE, gracePeriod: 0, determinism: "off" });
      serving.set(name, { code, worker });
    }
  }

  readonly queues: HostQueues = {
    set: (limits) => this.#changed((holdfast) => holdfast.queues.set(QUEUE, limits)),
    pause: (pause) => this.#changed((holdfast) => holdfast.queues.pause(QUEUE, pause)),
    resume: (pause) => this.#changed((holdfast) => holdfast.queues.resume(QUEUE, pause)),
  };
  async #changed(change: (holdfast: Holdfast) => Promise<void>): Promise<void> {
    await this.asked(change);
    await this.settle();
  }

  now(): number {
    return Date.now();
  }
  async settle(): Promise<void> {
    await this.#serve();
    const { line, holdfast, soon } = this.#process;
    for (let looks = 0, seen = -1; looks < LOOKS && !line.dead; looks++) {
      await line.answered();
      await pause(APART);
      if (holdfast.engine.busy || soon.count > 0 || line.calls > 0 || line.progress !== seen) looks = -1;
      seen = line.progress;
    }
  }
  async skip(time: Duration): Promise<void> {
    await this.settle();
    await pause(parseDuration(time));
    await this.settle();
  }
  asked<T>(call: (holdfast: Holdfast) => Promise<T>): Promise<T> {
    const { line, holdfast } = this.#process;
    return line.asked(call(holdfast));
  }
  askedNow<T>(call: (holdfast: Holdfast) => Promise<T>): Promise<T> {
    return this.asked(call);
  }

  dieAt(write: number, when: "before" | "after"): Doom {
    return this.#process.line.dieAt(write, when);
  }
  async crash(): Promise<void> {
    const { line, store } = this.#process;
    line.die();
    await line.answered();
    await store.heartbeat(line.tasks.map(({ id, token }) => ({ id, token, lease: LAST })));
    await endLeases(this.#path, this.now() + LAST);
    await this.#begin();
    await this.#serve();
    await pause(LAST);
    await this.settle();
  }
  async close(): Promise<void> {
    for (const { line, holdfast } of this.#processes.splice(0)) {
      line.die();
      await holdfast.close();
    }
  }
}
