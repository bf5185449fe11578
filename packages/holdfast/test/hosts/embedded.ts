// Job: the embedded host as tests of behaviour see it: the port of `hostConformance`, on whatever store.
// Owns: the world of a process (its time), the engine in it, one worker a workflow; what dead processes have left open.
// Invariants: time passes only when a test says so; a process that died writes nothing more, and its leases run out (W3).

import { type Doom, HoldfastRun, type Host, type HostOptions, type HostQueues, type HostRun, type HostStart } from "@holdfast/conformance";
import { type Activity, type AnyWorkflow, type Duration, jsonCodec, type Logger, parseDuration } from "@holdfast/core";
import { Holdfast, type Worker } from "holdfast";
import type { Store } from "holdfast/store";
import { Engine } from "../../src/engine/engine.ts";
import { TestWorld } from "../../src/testing/world.ts";

export const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };
/** Calls of a store that don't go to its server: they answer at once. */
const DIRECT: ReadonlySet<PropertyKey> = new Set(["close", "open", "watch", "watchOutages", "within"]);
const START = Date.UTC(2026, 0, 1);
/** Time jumps further than any worker could renew a lease. */
const LEASE = "5000w";
/** What is left of a dead worker's lease, in milliseconds. */
const LAST = 1;
/** Where runs go that name no queue. */
export const QUEUE = "default";
/** What is looked for only now and then is looked for at least this often while time passes. */
const LOOK_EVERY = 1_000;
const LOOKS_AT_MOST = 60;

const macrotask = () => new Promise<void>((resolve) => void setImmediate(resolve));

/** Nothing takes any time in it: it passes only when the test advances it. */
class StillWorld extends TestWorld {
  override elapsed(): number {
    return 0;
  }
  override random(): number {
    return 0.5;
  }
}

type Method = keyof Store;
/** What is stored at once, and may be the last that a process does. */
const WRITES: ReadonlySet<string> = new Set<Method>(["create", "commit", "send", "transact", "terminate", "resume", "answerTasks"]);

/** Between an engine and its store: counts what goes through, and dies. */
export class Line {
  /** Calls under way. */
  calls = 0;
  /** Calls that changed something, or brought something. */
  progress = 0;
  dead = false;
  /** Activities that were claimed through it. */
  readonly tasks: { readonly id: number; readonly token: number }[] = [];
  #doom: { left: number; readonly when: "before" | "after"; readonly struck: () => void } | undefined;
  #tell: (error: Error) => void = () => {};
  readonly #death = new Promise<never>((_, reject) => {
    this.#tell = reject;
  });
  #answered: Promise<void> = Promise.resolve();
  #allAnswered: () => void = () => {};

  constructor() {
    this.#death.catch(() => {});
  }
  /** Nothing that it was asked for is under way. Waiting for it leaves the machine to those who are to answer. */
  answered(): Promise<void> {
    return this.#answered;
  }
  die(): void {
    this.dead = true;
    this.#tell(new Error("The process has died."));
  }
  dieAt(write: number, when: "before" | "after"): Doom {
    const doom = { struck: false };
    const struck = () => {
      doom.struck = true;
      this.die();
    };
    this.#doom = { left: write, when, struck };
    return doom;
  }
  /** A call from outside, which fails if the process dies under it. */
  asked<T>(call: Promise<T>): Promise<T> {
    return Promise.race([call, this.#death]);
  }
  on(store: Store): Store {
    return new Proxy(store, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value !== "function") return value;
        const pass = (args: unknown[]): unknown => value.apply(target, args);
        if (DIRECT.has(key)) return (...args: unknown[]) => pass(args);
        return (...args: unknown[]) => this.#call(String(key), args, pass);
      },
    });
  }
  async #call(method: string, args: unknown[], pass: (args: unknown[]) => unknown): Promise<unknown> {
    if (this.dead) return this.#death;
    const isLast = WRITES.has(method) && this.#doom !== undefined && --this.#doom.left === 0;
    if (isLast && this.#doom?.when === "before") {
      this.#doom.struck();
      return this.#death;
    }
    this.#begin();
    try {
      const result = await pass(args);
      if (isLast) this.#doom?.struck();
      if (this.dead) return await this.#death;
      this.#note(method, result);
      return result;
    } finally {
      this.#end();
    }
  }
  #begin(): void {
    if (this.calls++ > 0) return;
    this.#answered = new Promise((resolve) => {
      this.#allAnswered = resolve;
    });
  }
  #end(): void {
    if (--this.calls === 0) this.#allAnswered();
  }
  #note(method: string, result: unknown): void {
    if (WRITES.has(method) || broughtSomething(method, result)) this.progress++;
    if (method !== "claimTasks") return;
    const { tasks } = result as Awaited<ReturnType<Store["claimTasks"]>>;
    for (const { id, token } of tasks) this.tasks.push({ id, token });
  }
}
function broughtSomething(method: string, result: unknown): boolean {
  switch (method) {
    case "claim":
      return (result as Awaited<ReturnType<Store["claim"]>>).runs.length > 0;
    case "claimTasks":
      return (result as Awaited<ReturnType<Store["claimTasks"]>>).tasks.length > 0;
    case "expire":
      return (result as number) > 0;
    case "renew":
      return (result as Awaited<ReturnType<Store["renew"]>>).some(
        (answer) => answer !== "busy" && (!answer.held || answer.inbox.length > 0),
      );
    default:
      return false;
  }
}

export class OpenEngine extends Holdfast {
  readonly engine: Engine;
  constructor(engine: Engine) {
    super(engine, engine);
    this.engine = engine;
  }
}

/** A process with an engine in it. */
interface Process {
  readonly world: StillWorld;
  readonly line: Line;
  /** Past the line. */
  readonly store: Store;
  readonly holdfast: OpenEngine;
  /** By workflow: the code that is served, and the worker that serves it. */
  readonly serving: Map<string, { readonly code: AnyWorkflow; readonly worker: Worker }>;
}

export interface EmbeddedHostOptions extends HostOptions {
  /** Opens the storage of this host; called once for every process. */
  readonly openStore: (clock: () => number) => Promise<Store> | Store;
  /**
   * What a dead process had open is closed, as the machine does it: what it asked for last is done or will never be. And a worker that holds a
   * run holds it until then and no longer. No store offers that: a lease is never made shorter.
   */
  readonly bury: (store: Store, leasesEnd: number) => Promise<void>;
  /** Everything is closed: no process has the storage open. */
  readonly closed?: () => void;
}

export class EmbeddedHost implements Host {
  readonly #options: EmbeddedHostOptions;
  readonly #workflows = new Map<string, AnyWorkflow>();
  readonly #processes: Process[] = [];
  #world = new StillWorld(START);
  /** How things stood when everybody last looked. */
  #looked: { readonly line: Line; readonly progress: number; readonly time: number } | undefined;
  /** There is something that no timer tells of: deadlines, limits of activities. */
  #hasLimits: boolean;

  private constructor(options: EmbeddedHostOptions) {
    this.#options = options;
    this.#hasLimits = options.activities.length > 0;
  }
  static async open(options: EmbeddedHostOptions): Promise<EmbeddedHost> {
    const host = new EmbeddedHost(options);
    await host.#begin();
    return host;
  }
  async #begin(): Promise<void> {
    const world = this.#world;
    const line = new Line();
    const store = await this.#options.openStore(() => this.#world.now());
    const engine = new Engine({ store: line.on(store), environment: world, codec: jsonCodec, logger: SILENT, limits: {} });
    await engine.open();
    this.#processes.push({ world, line, store, holdfast: new OpenEngine(engine), serving: new Map() });
  }
  get process(): Process {
    const process = this.#processes.at(-1);
    if (process === undefined) throw new Error("This host is closed.");
    return process;
  }

  // ── runs ──

  async start(workflow: AnyWorkflow, input?: unknown, options: HostStart = {}): Promise<HostRun> {
    this.teach(workflow);
    if (options.deadline !== undefined) this.#hasLimits = true;
    await this.settle();
    const { line, holdfast } = this.process;
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
  /** Whatever there is code for is served by a worker of its own, so that other code can take its place. */
  async #serve(): Promise<void> {
    const { serving, line, holdfast } = this.process;
    for (const [name, code] of this.#workflows) {
      const served = serving.get(name);
      if (line.dead || served?.code === code) continue;
      if (served !== undefined) await this.#meanwhile(served.worker.stop(), line);
      // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
      const activities: readonly Activity<any, any>[] = this.#options.activities;
      const options = { workflows: [code], activities, lease: LEASE, gracePeriod: 0, determinism: "off" } as const;
      serving.set(name, { code, worker: await holdfast.worker(options) });
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

  // ── time ──

  now(): number {
    return this.#world.now();
  }
  async settle(): Promise<void> {
    await this.#serve();
    const { line } = this.process;
    await this.#still();
    while (!line.dead && !this.#isSettled()) {
      this.#look(this.now());
      await this.#still();
    }
    await this.#answered();
  }
  /** Who looks now and then looks now: no hint is waited for. */
  #look(time: number): void {
    const { line } = this.process;
    this.#looked = { line, progress: line.progress, time };
    this.#world.moveTo(time);
  }
  /** Everybody has looked since anything changed. */
  #isSettled(): boolean {
    const { line } = this.process;
    const { line: of, progress, time } = this.#looked ?? {};
    return of === line && progress === line.progress && time === this.now();
  }
  async #still(): Promise<void> {
    const { line, world, holdfast } = this.process;
    for (let quiet = 0; quiet < 4 && !line.dead; quiet++) {
      await line.answered();
      await macrotask();
      if (holdfast.engine.busy || !world.idle || line.calls > 0) quiet = -1;
    }
  }
  /** The store is done with what it was asked for. */
  async #answered(): Promise<void> {
    const { line } = this.process;
    while (line.calls > 0) await line.answered();
  }
  async skip(time: Duration): Promise<void> {
    const span = parseDuration(time);
    const end = this.now() + span;
    await this.settle();
    while (this.now() < end) {
      this.#look(this.#next(end, this.#hasLimits ? Math.max(LOOK_EVERY, span / LOOKS_AT_MOST) : span));
      await this.settle();
    }
  }
  /** The next timer, or the next look at what has none: in step, whenever timers go off. */
  #next(end: number, pace: number): number {
    const { nextAlarm = end } = this.#world;
    const nextLook = (Math.floor(this.now() / pace) + 1) * pace;
    return Math.min(end, nextLook, nextAlarm > this.now() ? nextAlarm : end);
  }
  /** Something that calls itself again at this time, until it is done. */
  async #meanwhile<T>(promise: Promise<T>, line: Line, world = this.#world, by = 0): Promise<T> {
    let isDone = false;
    const done = promise.finally(() => {
      isDone = true;
    });
    done.catch(() => {});
    while (!isDone) {
      world.moveTo(world.now() + by);
      await macrotask();
      await Promise.race([line.answered(), done.catch(() => {})]);
    }
    return done;
  }
  /** A call from outside. */
  asked<T>(call: (holdfast: Holdfast) => Promise<T>): Promise<T> {
    const { line, holdfast } = this.process;
    return line.asked(call(holdfast));
  }
  askedNow<T>(call: (holdfast: Holdfast) => Promise<T>): Promise<T> {
    return this.#meanwhile(this.asked(call), this.process.line);
  }

  // ── death ──

  dieAt(write: number, when: "before" | "after"): Doom {
    return this.process.line.dieAt(write, when);
  }
  async crash(): Promise<void> {
    this.process.line.die();
    await this.#answered();
    await this.#letLeasesRunOut();
    this.#world = new StillWorld(this.now() + LAST);
    await this.#begin();
    await this.settle();
  }
  /** W3: no worker renews them any more. They are long, because time jumps: so their end is moved to now. */
  async #letLeasesRunOut(): Promise<void> {
    const { store, line } = this.process;
    await store.heartbeat(line.tasks.map(({ id, token }) => ({ id, token, lease: LAST })));
    await this.#options.bury(store, this.now() + LAST);
  }
  async close(): Promise<void> {
    const processes = this.#processes.splice(0);
    if (processes.length === 0) return;
    for (const { line, world, holdfast } of processes) {
      line.die();
      await this.#meanwhile(holdfast.close(), line, world, 1_000);
    }
    this.#options.closed?.();
  }
}
