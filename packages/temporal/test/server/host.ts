// Job: the host on a Temporal cluster as `hostConformance` sees it, on a real server.
// Owns: the line and the worker of each process; the queue of one test.
// Invariants: clock and timers are the server's; of a process that died nothing reaches the server any more.

import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type Doom, HoldfastRun, type Host, type HostOptions, type HostRun, type HostStart, type Settling } from "@holdfast/conformance";
import { type Activity, type AnyWorkflow, DEFAULT_LIMITS, type Duration, type History, jsonCodec, parseDuration } from "@holdfast/core";
import { Line, type TemporalServer } from "@holdfast/temporal-server";
import { Holdfast, replay, type Worker } from "holdfast";
import { openBackend } from "../../src/index.ts";
import type { Look } from "./look.ts";
import { SILENT } from "./support.ts";

/** Longer than a busy machine takes between two heartbeats; a step whose worker died is tried again after it. */
const LEASE = "5s";
/** Others take over from a dead worker soon; a run may continue as new at once. */
const TIMING = { sticky: 1_000, ownQueue: 2_000, shortestExecution: 0 };
/** For bodies in flight when other code comes: they end where they began. */
const GRACE = "2s";
/** Nothing may go through for so many looks, this many milliseconds apart; then the server is asked. */
const LOOKS = 8;
const APART = 10;
/** What the server still has to do may wait for something that never comes, such as a worker of another queue. */
const PATIENCE = 5_000;
/** After a crash: the server waits for the dead worker to take a task, and for its heartbeats. */
const PATIENCE_AFTER_CRASH = 40_000;
/** By how much a timer of the server may be late. */
const LATE = 250;

interface Process {
  readonly line: Line;
  readonly holdfast: Holdfast;
  worker: Worker | undefined;
  /** The code that `worker` has, by name. */
  served: ReadonlyMap<string, AnyWorkflow>;
  /** By run: the task that other code has failed. The server hands it to this code in its own time. */
  failed: ReadonlyMap<string, number>;
}

export class TemporalHost implements Host, Settling {
  readonly #server: TemporalServer;
  readonly #look: Look;
  readonly #options: HostOptions;
  readonly #queue = `conformance-${randomUUID()}`;
  readonly #workflows = new Map<string, AnyWorkflow>();
  readonly #processes: Process[] = [];
  readonly #runs = new Set<string>();
  /** Ends of workers and engines that no test waits for. */
  readonly #ends: Promise<unknown>[];

  private constructor(server: TemporalServer, look: Look, options: HostOptions, ends: Promise<unknown>[]) {
    this.#server = server;
    this.#look = look;
    this.#options = options;
    this.#ends = ends;
  }
  /** @param ends What is still to end when all tests are over is added to it. */
  static async open(server: TemporalServer, look: Look, options: HostOptions, ends: Promise<unknown>[]): Promise<TemporalHost> {
    const host = new TemporalHost(server, look, options, ends);
    await host.#begin();
    return host;
  }
  async #begin(): Promise<void> {
    const line = await Line.to(this.#server.address);
    const url = this.#server.url(this.#queue).replace(this.#server.address, line.address);
    const backend = await openBackend(url, { codec: jsonCodec, logger: SILENT, limits: DEFAULT_LIMITS, namespace: undefined }, TIMING);
    const holdfast = await Holdfast.with({ backend }, { logger: SILENT });
    this.#processes.push({ line, holdfast, worker: undefined, served: new Map(), failed: new Map() });
  }
  get #process(): Process {
    const process = this.#processes.at(-1);
    if (process === undefined) throw new Error("This host is closed.");
    return process;
  }

  // ── runs ──

  async start(workflow: AnyWorkflow, input?: unknown, options: HostStart = {}): Promise<HostRun> {
    this.teach(workflow);
    this.#runs.add(options.id ?? "run");
    const { id } = await this.asked((holdfast) =>
      holdfast.start(workflow, input, { id: "run", ...options, signals: [...(options.signals ?? [])] }),
    );
    await this.settle();
    return this.run(workflow, id);
  }
  run(workflow: AnyWorkflow, id: string): HostRun {
    this.teach(workflow);
    this.#runs.add(id);
    return new TemporalRun(this, workflow, id, this.#look);
  }
  teach(...workflows: AnyWorkflow[]): void {
    for (const workflow of workflows) this.#workflows.set(workflow.name, workflow);
  }
  /** All workers of a queue serve the same workflows: when there is more code, a worker that has all of it takes over. */
  async #serve(): Promise<void> {
    const process = this.#process;
    const { line, holdfast, served, worker } = process;
    const isServed = served.size === this.#workflows.size && [...this.#workflows].every(([name, code]) => served.get(name) === code);
    if (line.isCut || isServed) return;
    process.served = new Map(this.#workflows);
    process.failed = new Map(await Promise.all([...this.#runs].map(async (id) => [id, await this.#failedTask(id)] as const)));
    if (worker !== undefined) {
      this.#ends.push(worker.stop());
      await until(() => line.polls === 0 || line.isCut, PATIENCE);
    }
    // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
    const activities: readonly Activity<any, any>[] = this.#options.activities;
    const workflows = [...this.#workflows.values()];
    process.worker = await unlessCut(
      line,
      holdfast.worker({ workflows, activities, lease: LEASE, gracePeriod: GRACE, determinism: "off" }),
    );
  }

  // ── time ──

  now(): number {
    return Date.now();
  }
  async settle(patience: number = PATIENCE): Promise<void> {
    await this.#serve();
    const { line } = this.#process;
    let seen = -1;
    let isAsked = false;
    for (let looks = 0, since = Date.now(); !line.isCut; looks++) {
      await pause(APART);
      if (line.calls > 0 || line.progress !== seen) {
        seen = line.progress;
        since = Date.now();
        looks = 0;
        isAsked = false;
      }
      if (looks < LOOKS) continue;
      // What the server has just handed out may be on its way: it has to stay quiet after the answer, too.
      if (isAsked) return;
      const outstanding = await this.#outstanding();
      const limit = outstanding === "retry" ? PATIENCE_AFTER_CRASH : patience;
      isAsked = outstanding === "nothing" || Date.now() - since > limit;
      looks = 0;
    }
  }
  async #outstanding(): Promise<"nothing" | "something" | "retry"> {
    const { worker, failed } = this.#process;
    const alive = new Set(worker === undefined ? [] : [worker.id]);
    const seen = await Promise.all([...this.#runs].map(async (id) => ({ id, ...(await this.#look.outstanding(id, alive)) })));
    const children = seen.flatMap((run) => run.children).filter((id) => !this.#runs.has(id));
    for (const id of children) this.#runs.add(id);
    if (seen.some(({ id, failedTask }) => failedTask > 0 && failedTask <= (failed.get(id) ?? 0))) return "retry";
    return children.length > 0 || seen.some(({ what }) => what.length > 0) ? "something" : "nothing";
  }
  async #failedTask(id: string): Promise<number> {
    return (await this.#look.outstanding(id, new Set())).failedTask;
  }
  async skip(time: Duration): Promise<void> {
    await this.settle();
    await pause(parseDuration(time) + LATE);
    await this.settle();
  }
  /** What it sends is for the code that was taught last. */
  async asked<T>(call: (holdfast: Holdfast) => Promise<T>): Promise<T> {
    await this.#serve();
    const { line, holdfast } = this.#process;
    return unlessCut(line, call(holdfast));
  }
  askedNow<T>(call: (holdfast: Holdfast) => Promise<T>): Promise<T> {
    return this.asked(call);
  }

  // ── death ──

  dieAt(write: number, when: "before" | "after"): Doom {
    return this.#process.line.cutAt(write, when);
  }
  async crash(): Promise<void> {
    this.#process.line.cut();
    await this.#begin();
    await this.settle(PATIENCE_AFTER_CRASH);
  }
  async close(): Promise<void> {
    const processes = this.#processes.splice(0);
    for (const { line } of processes) line.cut();
    const runs = [...this.#runs];
    this.#ends.push(
      Promise.all(runs.map((id) => this.#look.end(id))),
      ...processes.map(async ({ line, holdfast }) => {
        await holdfast.close();
        await line.close();
      }),
    );
  }
}

class TemporalRun extends HoldfastRun {
  readonly #look: Look;
  readonly #workflow: AnyWorkflow;
  readonly #settling: Settling;
  constructor(host: Settling, workflow: AnyWorkflow, id: string, look: Look) {
    super(host, workflow, id);
    this.#settling = host;
    this.#workflow = workflow;
    this.#look = look;
  }
  override history(): Promise<History> {
    return this.#look.history(this.id);
  }
  async replay(): Promise<void> {
    await replay(this.#workflow, await this.#settling.asked((holdfast) => holdfast.run(this.id).history()));
  }
}

/** A call from outside, which fails if the process dies under it. */
function unlessCut<T>(line: Line, call: Promise<T>): Promise<T> {
  return Promise.race([call, line.death]);
}
async function until(isSo: () => boolean, patience: number): Promise<void> {
  for (const end = Date.now() + patience; !isSo() && Date.now() < end; ) await pause(APART);
}
