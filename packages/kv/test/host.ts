// Job: the host of this package as tests of behaviour see it: the port of `hostConformance`, and what tests of this package look at.
// Owns: many namespaces in memory, one queue of alarms, a clock of its own.
// Invariants: no real waiting (time passes only when a test says so); a process that was killed writes nothing more.

import type { Doom, Host, HostRun, HostSend, HostStart, HostUpdate } from "@holdfast/conformance";
import {
  type AnyWorkflow,
  CanceledError,
  type Codec,
  type Duration,
  type Logger,
  parseDuration,
  RunBlockedError,
  RunFailedError,
} from "@holdfast/core";
import {
  type ChildStart,
  createChild,
  type EngineDriver,
  type Environment,
  type KvWrite,
  MemoryAlarms,
  MemoryDriver,
  MemoryNamespace,
  type OpenOptions,
  openWorkflow,
  type Router,
  type RunOptions,
  type RunResult,
  realEnvironment,
  runWorkflow,
  type WorkflowHandle,
} from "@holdfast/kv";

/** See docs/hosts.md: "What a host can't offer". */
export const LACKS = ["transaction", "startOptions", "queues"] as const;

// ── time ──

interface Alarm {
  readonly at: number;
  readonly callback: () => void;
}

class World implements Environment {
  time = Date.UTC(2026, 0, 1);
  #alarms: Alarm[] = [];
  /** Counts whatever happens, to tell when nothing does. */
  activity = 0;

  now(): number {
    return this.time;
  }
  elapsed(): number {
    return realEnvironment.elapsed();
  }
  readonly worked = realEnvironment.worked;
  patience(ms: number, callback: () => void) {
    return realEnvironment.patience(ms, callback);
  }
  after(ms: number, callback: () => void) {
    const alarm = { at: this.time + Math.max(0, ms), callback };
    this.#alarms.push(alarm);
    return {
      cancel: () => {
        this.#alarms = this.#alarms.filter((one) => one !== alarm);
      },
    };
  }
  soon(callback: () => void): void {
    this.activity++;
    realEnvironment.soon(callback);
  }
  random(): number {
    return 0.5;
  }
  uuid(): string {
    return realEnvironment.uuid();
  }
  get next(): number | undefined {
    return this.#alarms.length === 0 ? undefined : Math.min(...this.#alarms.map(({ at }) => at));
  }
  fire(): void {
    const due = this.#alarms.filter(({ at }) => at <= this.time);
    this.#alarms = this.#alarms.filter(({ at }) => at > this.time);
    for (const { callback } of due) callback();
  }
}

/** Resolves once nothing has happened for a while of turns of the event loop. */
async function quiet(world: World): Promise<void> {
  for (let still = 0; still < 12; still++) {
    const before = world.activity;
    await new Promise<void>((resolve) => setImmediate(resolve));
    if (world.activity !== before) still = 0;
  }
}

// ── processes ──

/** A driver in a process that can die: then its calls neither do anything nor return. */
class MortalDriver extends MemoryDriver {
  readonly #process: Process;
  constructor(
    process: Process,
    namespace: MemoryNamespace,
    alarms: MemoryAlarms,
    limits: { maxBatchBytes?: number; maxBatchWrites?: number },
  ) {
    super({ namespace, alarms, ...limits });
    this.#process = process;
  }
  async #do<T>(work: () => Promise<T>): Promise<T> {
    if (this.#process.dead) return new Promise<T>(() => {});
    this.#process.world.activity++;
    const result = await work();
    return this.#process.dead ? new Promise<T>(() => {}) : result;
  }
  override get(key: Uint8Array) {
    return this.#do(() => super.get(key));
  }
  override list(prefix: Uint8Array) {
    this.#process.counts.list++;
    return this.#do(() => super.list(prefix));
  }
  override batch(writes: readonly KvWrite[]) {
    if (!this.#process.dead) {
      this.#process.counts.batch++;
      this.#process.onBatch?.("before", writes);
    }
    return this.#do(async () => {
      await super.batch(writes);
      this.#process.onBatch?.("after", writes);
    });
  }
  override setAlarm(runId: string, at: number) {
    return this.#do(() => super.setAlarm(runId, at));
  }
  override clearAlarm(runId: string) {
    return this.#do(() => super.clearAlarm(runId));
  }
}

class Process {
  readonly world: World;
  readonly drivers = new Map<string, MortalDriver>();
  readonly counts = { batch: 0, list: 0 };
  /** Called around every batch: tests die there. */
  onBatch: ((when: "before" | "after", writes: readonly KvWrite[]) => void) | undefined;
  #dead = false;
  #tell: (error: Error) => void = () => {};
  readonly #death = new Promise<never>((_, reject) => {
    this.#tell = reject;
  });
  constructor(world: World) {
    this.world = world;
    this.#death.catch(() => {});
  }
  get dead(): boolean {
    return this.#dead;
  }
  set dead(dead: boolean) {
    this.#dead = dead;
    if (dead) this.#tell(new Error("The process has died."));
  }
  /** A call from outside, which fails if the process dies under it. */
  asked<T>(call: Promise<T>): Promise<T> {
    return Promise.race([call, this.#death]);
  }
}

export interface KvHostOptions {
  readonly activities?: OpenOptions<unknown, unknown>["activities"];
  /** Children and messages to other runs go through it. Default: there is one. */
  readonly routed?: boolean;
  readonly maxBatchBytes?: number;
  readonly maxBatchWrites?: number;
  readonly logger?: Logger;
  readonly codec?: Codec;
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export class KvHost implements Host {
  readonly world = new World();
  readonly alarms = new MemoryAlarms();
  readonly #options: KvHostOptions;
  readonly #namespaces = new Map<string, MemoryNamespace>();
  readonly #workflows = new Map<string, AnyWorkflow>();
  /** By run: the code that runs it. */
  readonly #codeOf = new Map<string, AnyWorkflow>();
  process = new Process(this.world);
  readonly #waking = new Set<string>();
  /** What ended a wake-up by an error: tests that expect one look here. */
  readonly failures: unknown[] = [];

  constructor(options: KvHostOptions = {}) {
    this.#options = options;
  }

  // ── of the interface ──

  async start(workflow: AnyWorkflow, input?: unknown, options: HostStart = {}): Promise<HostRun> {
    const id = options.id ?? "run";
    this.#codeOf.set(id, workflow);
    this.#workflows.set(workflow.name, workflow);
    const run = this.run(workflow, id);
    this.#track(id, runWorkflow({ ...this.options(workflow, id), input, ...options } as RunOptions<unknown, unknown>));
    await this.settle();
    return run;
  }
  run(workflow: AnyWorkflow, id: string): HostRun {
    this.#codeOf.set(id, workflow);
    this.#workflows.set(workflow.name, workflow);
    return new KvRun(this, workflow, id);
  }
  now(): number {
    return this.world.now();
  }
  async settle(): Promise<void> {
    for (;;) {
      await quiet(this.world);
      const due = this.alarms.due(this.world.now()).filter((id) => !this.#waking.has(id));
      if (due.length === 0) return;
      for (const id of due) this.#track(id, this.handle(id).wake());
    }
  }
  async skip(time: Duration): Promise<void> {
    const end = this.world.time + parseDuration(time);
    await this.settle();
    for (;;) {
      const next = Math.min(this.world.next ?? Number.POSITIVE_INFINITY, this.#nextAlarm());
      if (next > end) break;
      this.world.time = Math.max(this.world.time, next);
      this.world.fire();
      await this.settle();
    }
    this.world.time = end;
    await this.settle();
  }
  /** Of runs that are not being run: the others have timers of their own. */
  #nextAlarm(): number {
    const times = [...this.#namespaces.keys()].filter((id) => !this.#waking.has(id)).map((id) => this.alarms.get(id));
    return Math.min(Number.POSITIVE_INFINITY, ...times.flatMap((at) => at ?? []));
  }
  async crash(): Promise<void> {
    this.process.dead = true;
    this.#waking.clear();
    this.process = new Process(this.world);
    await this.settle();
  }

  dieAt(write: number, when: "before" | "after"): Doom {
    const { process } = this;
    const doom = { struck: false };
    let seen = 0;
    process.onBatch = (moment) => {
      if (moment !== when || process.dead || ++seen !== write) return;
      process.dead = true;
      doom.struck = true;
    };
    return doom;
  }

  // ── of this host ──

  driver(id: string): MortalDriver {
    let driver = this.process.drivers.get(id);
    if (driver === undefined) {
      const namespace = this.#namespaces.get(id) ?? new MemoryNamespace();
      this.#namespaces.set(id, namespace);
      const { maxBatchBytes, maxBatchWrites } = this.#options;
      const limits = { ...(maxBatchBytes !== undefined && { maxBatchBytes }), ...(maxBatchWrites !== undefined && { maxBatchWrites }) };
      driver = new MortalDriver(this.process, namespace, this.alarms, limits);
      this.process.drivers.set(id, driver);
    }
    return driver;
  }
  handle(id: string): WorkflowHandle<unknown> {
    const workflow = this.#codeOf.get(id);
    if (workflow === undefined) throw new Error(`There is no code for run ${id}.`);
    return openWorkflow(this.options(workflow, id)) as WorkflowHandle<unknown>;
  }
  options(workflow: AnyWorkflow, id: string): OpenOptions<unknown, unknown> {
    const { activities, routed = true, logger = SILENT, codec } = this.#options;
    return {
      driver: this.driver(id) as EngineDriver,
      workflow,
      id,
      environment: this.world,
      logger,
      ...(activities !== undefined && { activities }),
      ...(codec !== undefined && { codec }),
      ...(routed && { router: this.#router }),
    };
  }
  #track(id: string, running: Promise<RunResult>): void {
    const { process } = this;
    this.#waking.add(id);
    running
      .catch((error: unknown) => this.failures.push(error))
      .finally(() => {
        if (process === this.process) this.#waking.delete(id);
        this.world.activity++;
      });
  }
  /** Codes in a map of their own: a child is started by name. */
  teach(...workflows: AnyWorkflow[]): void {
    for (const workflow of workflows) this.#workflows.set(workflow.name, workflow);
  }

  readonly #router: Router = {
    start: async (child) => this.#startChild(child),
    signal: (runId, signal) => this.#deliver(runId, (handle) => handle.deliver(signal)),
    cancel: (runId, reason) => this.#deliver(runId, (handle) => handle.cancel(reason)),
    terminate: (runId, reason) => this.#deliver(runId, (handle) => handle.terminate(reason)),
    ended: (parent, outcome) => this.handle(parent.runId).childEnded(parent, outcome),
  };
  async #startChild(child: ChildStart): Promise<"started" | "conflict"> {
    const workflow = this.#workflows.get(child.workflow);
    if (workflow === undefined) throw new Error(`There is no workflow ${child.workflow}.`);
    if (!this.#codeOf.has(child.id)) this.#codeOf.set(child.id, workflow);
    const { id: _, ...options } = this.options(workflow, child.id);
    return createChild(child, options);
  }
  async #deliver(runId: string, send: (handle: WorkflowHandle<unknown>) => Promise<void>): Promise<"sent" | "not-found" | "closed"> {
    if (!this.#codeOf.has(runId)) return "not-found";
    try {
      await send(this.handle(runId));
      return "sent";
    } catch (error) {
      const code = (error as { code?: string }).code;
      if (code === "HF_RUN_NOT_FOUND") return "not-found";
      if (code === "HF_RUN_CLOSED") return "closed";
      throw error;
    }
  }
}

class KvRun implements HostRun {
  readonly id: string;
  readonly #host: KvHost;
  readonly #workflow: AnyWorkflow;
  constructor(host: KvHost, workflow: AnyWorkflow, id: string) {
    this.#host = host;
    this.#workflow = workflow;
    this.id = id;
  }
  get #handle() {
    return this.#host.handle(this.id) as WorkflowHandle<unknown>;
  }
  #asked<T>(ask: (handle: WorkflowHandle<unknown>) => Promise<T>): Promise<T> {
    return this.#host.process.asked(ask(this.#handle));
  }
  async result(): Promise<unknown> {
    await this.#host.settle();
    const { status } = await this.#asked((handle) => handle.describe());
    if (!["completed", "failed", "canceled", "terminated", "blocked"].includes(status)) throw new Error(`Run ${this.id} is ${status}.`);
    const result = await this.#asked((handle) => handle.result());
    switch (result.status) {
      case "completed":
        return result.output;
      case "canceled":
        throw new CanceledError(result.reason);
      case "blocked":
        throw new RunBlockedError({ runId: this.id, reason: result.error.message, cause: result.error });
      case "failed":
      case "terminated":
        throw result.status === "failed" ? new RunFailedError({ runId: this.id, cause: result.error }) : result.error;
      default:
        throw new Error(`Run ${this.id} is ${result.status}.`);
    }
  }
  async status() {
    await this.#host.settle();
    return (await this.#asked((handle) => handle.describe())).status;
  }
  async waitingFor() {
    await this.#host.settle();
    return (await this.#asked((handle) => handle.describe())).waitingFor;
  }
  async signal(name: string, payload?: unknown, options: HostSend = {}) {
    const sender = openWorkflow(this.#host.options(this.#workflow, this.id)); // it sends by its own schemas, not by those of the process that runs the run
    await this.#host.process.asked(sender.signal(name, payload as never, options));
    await this.#host.settle();
  }
  async update(name: string, input?: unknown, options: HostUpdate = {}) {
    const reply = this.#asked((handle) => handle.update(name, input as never, options));
    reply.catch(() => {}); // who awaits it hears of it
    await this.#host.settle();
    return reply;
  }
  query(name: string, args?: unknown) {
    return this.#asked((handle) => handle.query(name, args as never));
  }
  state() {
    return this.#asked((handle) => handle.state());
  }
  async cancel(reason?: string) {
    await this.#asked((handle) => handle.cancel(reason));
    await this.#host.settle();
  }
  async terminate(reason?: string) {
    await this.#asked((handle) => handle.terminate(reason));
    await this.#host.settle();
  }
  async recover() {
    await this.#asked((handle) => handle.recover());
    await this.#host.settle();
  }
  history() {
    return this.#asked((handle) => handle.history());
  }
  operations() {
    return this.#asked((handle) => handle.operations());
  }
}
