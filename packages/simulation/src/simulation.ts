// One simulation: a world from a seed with workers, clients, a store, faults, and oracles that check every call and effect.
// Owns: the processes, the time at which the faults end, and the final checks.
// Invariants: the same seed and options give the same trace, byte for byte; a simulation leaves nothing behind.

import { type AnyWorkflow, isDeliveredError, type Logger, replay, toHistory } from "@holdfast/core";
import { Holdfast } from "holdfast";
import { Effects } from "./checks/effects.ts";
import { ReadChecks } from "./checks/reads.ts";
import { StoreChecks } from "./checks/stores.ts";
import { Clients, type Host } from "./clients.ts";
import { type Deployment, deploymentOf } from "./deployment.ts";
import { drawnFaults, FaultDraws, type FaultKind, type Faults } from "./faults.ts";
import { Network } from "./network.ts";
import { checkOptions, checkPlayed, drawScenarios } from "./options.ts";
import { type Clock, SimProcess, TRUE_CLOCK } from "./process.ts";
import type { Random } from "./random.ts";
import type { Scenario } from "./scenario.ts";
import { StepBodies } from "./stepBodies.ts";
import { type FreeStore, openSimulatedStore, type StoreKind } from "./stores.ts";
import type { Violation } from "./violation.ts";
import { World } from "./world.ts";

/** The world to simulate. */
export interface SimulationOptions {
  /** What the world is made from: the same seed, the same world. */
  readonly seed: number;
  /** Returns the scenarios to play, drawn from the seed. */
  readonly scenarios: (random: Random) => readonly Scenario[];
  /**
   * The store to run on.
   * @defaultValue `"memory"`
   */
  readonly store?: StoreKind;
  /** Kinds of faults to leave out. */
  readonly without?: readonly FaultKind[];
  /** Rates that override those of the seed. */
  readonly faults?: Partial<Faults>;
  /**
   * The largest number of worker processes at a time.
   * @defaultValue one to three, by the seed
   */
  readonly workers?: number;
  /** Play only these scenarios, by index. */
  readonly only?: readonly number[];
  /**
   * Simulated milliseconds until the faults end.
   * @defaultValue a few seconds, by the seed
   */
  readonly storm?: number;
  /**
   * The largest number of crashes, freezes, stops and deploys.
   * @defaultValue `15`
   */
  readonly disasters?: number;
}
/** What happened in a simulated world. */
export interface SimulationReport {
  /** The seed of the world. */
  readonly seed: number;
  /** The rule that was broken. Undefined: none was. */
  readonly violation: Violation | undefined;
  /** What happened, line by line. */
  readonly trace: readonly string[];
  /** How many events there were. */
  readonly events: number;
  /** The length of the simulation, in simulated milliseconds. */
  readonly length: number;
  /** The scenarios that were run. */
  readonly scenarios: readonly string[];
  /** How often each kind of fault has occurred. */
  readonly faults: Readonly<Record<FaultKind, number>>;
}

interface WorkerProcess extends Host {
  readonly build: number;
  readonly queue: string;
  isStopping: boolean;
}

/** Simulated milliseconds within which every run must have ended once the faults are over. */
const PATIENCE = 900_000;
const MOST_EVENTS = 400_000;
const MOST_DISASTERS = 15;
const DEFAULT_QUEUE = "default";

/** Runs one world to its end, and checks every rule. It does not throw for a broken rule: the report names it. */
export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  checkOptions(options);
  const simulation = new Simulation(options);
  return simulation.run();
}

class Simulation {
  readonly #options: SimulationOptions;
  readonly #world: World;
  readonly #random: Random;
  readonly #faults: FaultDraws;
  readonly #scenarios: readonly Scenario[];
  /** Each has workers. */
  readonly #queues: ReadonlySet<string>;
  readonly #lease: number;
  readonly #mostWorkers: number;
  readonly #workers = new Set<WorkerProcess>();
  readonly #clients = new Set<Host>();
  /** Workflows whose runs may be blocked for a while. */
  readonly #mayBlock = new Set<string>();
  #spawned = 0;
  #disasters = 0;
  #build = 1;
  #calm: () => void = () => {};
  readonly #calmed: Promise<void>;
  #inner!: FreeStore;
  #close: () => Promise<void> = async () => {};
  #rows: () => readonly string[] = () => [];
  #network!: Network;
  #checks!: StoreChecks;
  #effects!: Effects;
  #reads!: ReadChecks;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#world = new World(options.seed);
    this.#random = this.#world.random("setting");
    const drawn = drawnFaults(this.#random, this.#world.random("later faults"), options.without ?? []);
    this.#faults = new FaultDraws(this.#world, { ...drawn, ...options.faults });
    this.#lease = this.#random.pick([600, 1_000, 2_000, 4_000]);
    this.#mostWorkers = Math.min(options.workers ?? 3, this.#random.between(1, 3));
    this.#scenarios = drawScenarios(options, this.#world.random("scenes"));
    this.#queues = new Set(this.#scenarios.map(({ queue = DEFAULT_QUEUE }) => queue));
    this.#calmed = new Promise((resolve) => {
      this.#calm = resolve;
    });
  }

  async run(): Promise<SimulationReport> {
    const world = this.#world;
    const onRejection = (reason: unknown): void => {
      if (!isDeliveredError(reason))
        world.violate("crash", "X11", `an unhandled rejection: ${reason instanceof Error ? reason.stack : String(reason)}`);
    };
    process.on("unhandledRejection", onRejection);
    try {
      await this.#play();
    } finally {
      for (const { process } of [...this.#workers, ...this.#clients]) process.isDead = true;
      await this.#close();
      process.off("unhandledRejection", onRejection);
    }
    return {
      seed: world.seed,
      violation: world.violation,
      trace: world.trace,
      events: world.events,
      length: world.age,
      scenarios: this.#scenarios.map(({ name }) => name),
      faults: { ...this.#faults.struck },
    };
  }
  async #play(): Promise<void> {
    const world = this.#world;
    const opened = await openSimulatedStore(this.#options.store ?? "memory", world);
    this.#close = opened.close;
    this.#inner = opened.store;
    this.#checks = new StoreChecks(world, this.#inner);
    this.#effects = new Effects(world, this.#checks);
    this.#rows = opened.rows;
    this.#network = new Network(world, this.#faults, this.#checks.store, this.#lease, (turns) => this.#checks.excuse(turns));
    this.#network.isRetiring = () => this.#checks.keeping.hasRetention;
    this.#reads = this.#newReadChecks();
    world.onEvent = (owner) => {
      if (owner instanceof SimProcess) this.#fate(owner);
    };
    for (let i = 0; i < this.#mostWorkers; i++) this.#spawnWorkers();
    for (let i = this.#random.between(1, 2); i > 0; i--) void this.#spawnClient();
    const stages = this.#scenarios.map(
      (scenario) =>
        new Clients(world, world.random(`scene ${scenario.name}`), this.#checks, this.#inner, this.#faults, () => this.#hosts, this.#reads),
    );
    let left = this.#scenarios.length;
    for (const [i, scenario] of this.#scenarios.entries()) {
      const isOver = (): void => {
        left--;
      };
      this.#started(scenario, stages[i] as Clients).then(isOver, (error: unknown) => {
        isOver();
        this.#scenarioThrew(scenario, error);
      });
    }
    const drawn = this.#random.between(2_000, 12_000);
    const storm = Math.min(this.#options.storm ?? drawn, drawn);
    const deadline = storm + PATIENCE;
    world.after(storm, undefined, () => this.#calmDown());
    while (left > 0 && world.violation === undefined) {
      if (world.age > deadline || world.events > MOST_EVENTS) {
        await this.#stuck();
        break;
      }
      if (!(await world.step())) break;
    }
    if (world.violation !== undefined) return;
    if (!this.#faults.isOver) this.#calmDown();
    await this.#settle();
    if (world.violation === undefined) await this.#finalChecks(stages);
  }
  #started(scenario: Scenario, clients: Clients): Promise<void> {
    let played: Promise<void>;
    try {
      played = scenario.play(clients);
    } catch (error) {
      return Promise.reject(error);
    }
    checkPlayed(scenario, played);
    return played;
  }
  /** Waits for runs that no scenario waits for, such as children that outlive their parents or runs that clean up. */
  async #settle(): Promise<void> {
    const world = this.#world;
    const end = world.age + PATIENCE;
    for (;;) {
      const counts = await this.#inner.count({});
      const open = counts.pending + counts.running + counts.sleeping + counts.blocked + counts.rolling_back;
      if (open === 0 || world.violation !== undefined) return;
      if (world.age > end) return this.#stuck();
      for (let i = 0; i < 200; i++) if (!(await world.step())) return;
    }
  }
  #scenarioThrew({ name }: Scenario, error: unknown): void {
    this.#world.violate("scenario", "P1", `${name}: ${error instanceof Error ? error.stack : String(error)}`);
  }
  async #stuck(): Promise<void> {
    const { runs } = await this.#inner.list({ limit: 1_000 });
    const open = runs.filter(({ finishedAt }) => finishedAt === undefined);
    const described = open.map(({ id, workflow, status, waitingFor, availableAt }) => `${id} (${workflow}) ${status} [${waitingFor.join(", ")}]${availableAt === undefined ? "" : ` available in ${availableAt - this.#world.now} ms`}`); // biome-ignore format: one line
    this.#world.violate(
      "liveness",
      "D9",
      `after ${(this.#world.age / 1_000).toFixed(0)} s not everything has ended: ${described.join("; ") || "no run is open, but a scenario is still waiting"}`,
    );
  }

  // ── processes ──

  get #hosts(): readonly Host[] {
    const workers = [...this.#workers].filter(({ process, isStopping }) => !process.isDead && !isStopping);
    return [...this.#clients, ...workers].filter(({ process }) => !process.isDead && !process.isFrozen);
  }
  #clock(): Clock {
    const stream = this.#faults.stream("clock");
    if (!this.#faults.draw("clock")) return TRUE_CLOCK;
    return { offset: (stream.next() - 0.5) * 120_000, drift: (stream.next() - 0.5) * 0.004 };
  }
  readonly #logger: Logger = {
    debug: () => {},
    info: () => {},
    warn: () => {},
    error: (message, fields) => this.#logged(message, fields as { readonly error?: unknown; readonly workflow?: string } | undefined),
  };
  #logged(message: string, fields: { readonly error?: unknown; readonly workflow?: string } | undefined): void {
    this.#world.note("log", message);
    if (/could not be advanced/.test(message))
      this.#world.violate("crash", "W3", `${message} ${String((fields?.error as Error | undefined)?.stack)}`);
    if (/is blocked/.test(message) && !this.#mayBlock.has(fields?.workflow ?? "")) this.#world.violate("blocked", "V4", message);
  }
  /** One for each queue. */
  #spawnWorkers(build?: number): void {
    for (const queue of this.#queues) void this.#spawnWorker(0, queue, build);
  }
  async #spawnWorker(after: number, queue: string, build?: number): Promise<void> {
    await new Promise<void>((resolve) => void this.#world.after(after, undefined, resolve));
    for (;;) {
      const spawned = await this.#tryWorker(queue, build ?? this.#build);
      if (spawned) break;
      await new Promise<void>((resolve) => void this.#world.after(100, undefined, resolve));
    }
  }
  async #tryWorker(queue: string, build: number): Promise<boolean> {
    const process = new SimProcess(this.#world, `w${++this.#spawned}`, this.#clock());
    const bodies = new StepBodies(process, this.#faults, this.#effects, this.#lease, this.#calmed);
    const deployment = this.#deployment(bodies, build);
    if (deployment === undefined) return true; // a scenario failed: the simulation ends
    const { workflows, activities } = deployment;
    const { random } = process;
    const cachedRuns = this.#faults.draw("evict") ? random.between(0, 2) : 1_000;
    process.note(`starts, build ${build}, room for ${cachedRuns} parked runs${queue === DEFAULT_QUEUE ? "" : `, for queue ${queue}`}`);
    const engine = await this.#open(process, deployment);
    const host: WorkerProcess = { process, engine, workflows, build, queue, isStopping: false };
    try {
      const worker = await Promise.race([
        engine.worker({
          workflows,
          activities,
          queue,
          lease: this.#lease,
          cachedRuns,
          concurrency: random.pick([1, 3, 20]),
          activityConcurrency: random.pick([1, 3]),
          gracePeriod: random.pick([0, 200]),
          determinism: "off",
        }),
        process.death,
      ]);
      if (worker === "dead") return false;
      process.isReady = true;
    } catch {
      process.kill("it could not start");
      return false;
    }
    this.#workers.add(host);
    return true;
  }
  /** The code of a process. Undefined if a scenario fails to provide its code for a later build: that is a violation by the scenario. */
  #deployment(bodies: StepBodies, build: number): Deployment | undefined {
    try {
      const deployment = deploymentOf(this.#scenarios, bodies, build);
      for (const name of deployment.mayBlock) this.#mayBlock.add(name);
      return deployment;
    } catch (error) {
      this.#world.violate("scenario", "P1", (error as Error).message);
      return undefined;
    }
  }
  #open(process: SimProcess, { standIns: { steps, activities } }: Deployment): Promise<Holdfast> {
    const internals = {
      store: this.#network.storeOf(process),
      environment: process.environment,
      replaceStep: (name: string) => steps[name] as ((info: unknown) => unknown) | undefined,
      replaceActivity: (name: string) => activities[name],
    };
    return Holdfast.with(internals, { logger: this.#logger });
  }
  async #spawnClient(): Promise<void> {
    const process = new SimProcess(this.#world, `c${++this.#spawned}`, this.#clock());
    const bodies = new StepBodies(process, this.#faults, this.#effects, this.#lease, this.#calmed);
    const deployment = this.#deployment(bodies, this.#build);
    if (deployment === undefined) return; // a scenario failed: the simulation ends
    const engine = await this.#open(process, deployment);
    this.#clients.add({ process, engine, workflows: deployment.workflows });
  }

  /** Its process has no faults. It is the first to ask for code, so invalid scenarios are rejected here. */
  #newReadChecks(): ReadChecks {
    const process = new SimProcess(this.#world, "on", TRUE_CLOCK);
    const bodies = new StepBodies(process, this.#faults, this.#effects, this.#lease, this.#calmed);
    const { workflows } = deploymentOf(this.#scenarios, bodies, 1);
    return new ReadChecks({ process, checks: this.#checks, effects: this.#effects, workflows });
  }

  // ── faults of processes ──

  /** Draws the faults of a process, after each of its events. */
  #fate(process: SimProcess): void {
    if (process.isDead || this.#faults.isOver || this.#disasters >= (this.#options.disasters ?? MOST_DISASTERS)) return;
    const client = [...this.#clients].find((one) => one.process === process);
    if (client !== undefined) {
      if (!this.#faults.draw("clientCrash")) return;
      this.#disasters++;
      process.kill("a client crashes");
      this.#clients.delete(client);
      void this.#spawnClient();
      return;
    }
    if (this.#faults.draw("crash")) this.#disaster(process, () => process.kill("a crash"));
    else if (this.#faults.draw("freeze")) {
      this.#disasters++;
      process.freeze(this.#faults.stream("freeze").next() * 3 * this.#lease);
    } else if (this.#faults.wants("stop")) {
      if (this.#stop(process)) this.#faults.struck.stop++;
    } else if (this.#faults.draw("deploy")) this.#deploy();
    else if (this.#faults.draw("clockSet")) process.setClock((this.#faults.stream("clockSet").next() - 0.5) * 10_000);
  }
  #disaster(process: SimProcess, happen: () => void): void {
    this.#disasters++;
    happen();
    const worker = [...this.#workers].find((one) => one.process === process);
    if (worker === undefined || !this.#workers.delete(worker)) return; // it had not started yet: `#spawnWorker` tries again
    if (!worker.isStopping) void this.#spawnWorker(this.#random.span(500), worker.queue);
  }
  /** Stops the worker of a process. False if there is none, or if it is already stopping. */
  #stop(process: SimProcess, isReplaced = true): boolean {
    const host = [...this.#workers].find((one) => one.process === process);
    if (host === undefined || host.isStopping) return false;
    this.#disasters++;
    host.isStopping = true;
    process.note("is stopped");
    const askedAt = this.#world.age;
    host.engine.close().then(
      () => {
        // After a network fault, calls of the worker may still be in transit.
        if (this.#network.isUntroubled(process)) void this.#checks.checkReleased(process, askedAt);
        this.#gone(host);
      },
      () => this.#gone(host),
    );
    if (isReplaced) void this.#spawnWorker(this.#random.span(200), host.queue);
    return true;
  }
  #gone(host: WorkerProcess): void {
    host.process.kill("it has stopped");
    this.#workers.delete(host);
  }
  #deploy(): void {
    this.#disasters++;
    this.#build++;
    this.#world.note("", `build ${this.#build} is deployed`);
    const [one] = this.#random.shuffled([...this.#workers]);
    if (one !== undefined) this.#stop(one.process);
  }
  /** Ends the faults. From now on every run that can end has to. */
  #calmDown(): void {
    if (this.#faults.isOver) return;
    this.#faults.isOver = true;
    this.#world.note("", "the faults are over");
    this.#calm();
    if (this.#build > 1 && this.#scenarios.some(({ needsBuilds }) => needsBuilds === true)) this.#rotate(1);
    else this.#spawnWorkers();
    if (this.#clients.size === 0) void this.#spawnClient();
  }

  /** After a diverging deploy each build can replay only its own histories, so workers of each build run in turn. */
  #rotate(build: number): void {
    for (const { process } of [...this.#workers]) this.#stop(process, false);
    this.#spawnWorkers(build);
    this.#world.after(15_000, undefined, () => this.#rotate(build === this.#build ? 1 : build + 1));
  }

  // ── the end ──

  async #finalChecks(stages: readonly Clients[]): Promise<void> {
    const world = this.#world;
    await this.#checks.checkHistories();
    await this.#checks.queues.checkEnd();
    await this.#checks.starts.checkEnd();
    this.#effects.checkTransactions(this.#rows());
    await this.#checkReplay();
    await this.#checkEnds();
    await this.#reads.checkOperations();
    await this.#reads.checkLists();
    for (const [i, scenario] of this.#scenarios.entries()) {
      try {
        await scenario.verify?.(stages[i] as Clients, this.#effects);
      } catch (error) {
        this.#scenarioThrew(scenario, error);
      }
    }
    if (world.violation === undefined) world.note("", "everything has ended");
  }
  /** Y1, Y5: every history replays with one of the builds. */
  async #checkReplay(): Promise<void> {
    const bodies = new StepBodies(new SimProcess(this.#world, "re", TRUE_CLOCK), this.#faults, this.#effects, this.#lease, this.#calmed);
    const builds = Array.from({ length: this.#build }, (_, i) => this.#deployment(bodies, this.#build - i)?.workflows ?? []);
    for (const run of this.#checks.seen.all.values()) {
      const [row] = await this.#inner.get([run.id]);
      const turns = await this.#inner.history(run.id);
      if (row === undefined || turns.length === 0) continue;
      const failures: string[] = [];
      let isReplayed = false;
      for (const workflows of builds) {
        const code = workflows.find(({ name, version, options }) => name === row.workflow && serves(options, version, row.version));
        if (code === undefined || isReplayed) continue;
        try {
          await replay(code as AnyWorkflow, toHistory(turns, row));
          isReplayed = true;
        } catch (error) {
          failures.push((error as Error).message);
        }
      }
      if (!isReplayed && failures.length > 0)
        this.#world.violate("replay", "Y1", `the history of ${run.id} does not replay: ${failures[0]}`);
    }
  }
  /** K3: a run that was cancelled ends as canceled. */
  async #checkEnds(): Promise<void> {
    for (const run of this.#checks.seen.all.values()) {
      const [row] = await this.#inner.get([run.id]);
      if (row === undefined) continue;
      const isOverruled = row.status === "canceled" || row.status === "terminated" || row.error?.name === "DeadlineExceededError";
      if (run.isCanceled && row.execution === run.execution && !isOverruled)
        this.#world.violate("cancellation", "K3", `${run.id} was cancelled, but ended ${row.status}`);
    }
  }
}

function serves(options: AnyWorkflow["options"], own: string | undefined, version: string | undefined): boolean {
  return options.serves === "*" || own === version || options.serves?.includes(version as string) === true;
}
