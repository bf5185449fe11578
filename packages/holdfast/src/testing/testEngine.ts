// `testEngine`: an in-memory engine with its own worker, which skips time.
// Owns: its clock and timers, and the replay of every run when it closes.
// Invariants: Y1 Y5 (every history replays), K8 (no timer fires early), D8 (retries wait in skipped time).

import {
  type Activity,
  type ActivityInfo,
  type AnyWorkflow,
  type Duration,
  HoldfastError,
  jsonCodec,
  type OptionNames,
  parseDuration,
  RunBlockedError,
  replay,
  reviveError,
  type StepInfo,
  toHistory,
} from "@holdfast/core";
import { WorkflowTable } from "@holdfast/host";
import { Holdfast } from "../api/holdfast.ts";
import { consoleLogger } from "../api/logger.ts";
import { checkedOptions, moment } from "../api/options.ts";
import type { RunDescription } from "../backend/port.ts";
import { Engine } from "../engine/engine.ts";
import { MemoryStore } from "../store/memory/store.ts";
import type { RunRow } from "../store/port.ts";
import { type Patience, Stillness, Surroundings } from "./stillness.ts";
import { TestWorld } from "./world.ts";

// Captured when this module is loaded: a test may install fake timers.
const { setTimeout, setImmediate } = globalThis;

export interface TestEngineOptions {
  /** Served on every queue. */
  workflows: readonly AnyWorkflow[];
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?: readonly Activity<any, any>[];
  /** Stand-ins for steps and activities, by name. */
  replace?: {
    steps?: Record<string, (info: StepInfo) => unknown>;
    // biome-ignore lint/suspicious/noExplicitAny: the arguments are the activity's own
    activities?: Record<string, (args: any, info: ActivityInfo) => unknown>;
  };
  /** Initial time of the clock. Default: 2026-01-01 UTC. */
  startTime?: Date;
  /** When nothing can run, skip to the next timer. Default true. */
  skipTime?: boolean;
}

/**
 * An in-memory engine with its own worker. Closing it replays every history, and throws if a replay diverges, if a replacement was never
 * used, or if a run is blocked and no caller got its RunBlockedError.
 */
export class TestEngine extends Holdfast {
  readonly #world: TestWorld;
  readonly #engine: Engine;
  readonly #store: MemoryStore;
  readonly #workflows: readonly AnyWorkflow[];
  readonly #skipTime: boolean;
  readonly #standIns: StandIns;
  /** Starts a worker for a queue. */
  readonly #serve: (queue: string) => Promise<unknown>;
  readonly #served = new Set<string>();
  #closing = false;
  /** Blocked runs for which a caller got RunBlockedError. */
  readonly #told: ReadonlySet<string>;
  readonly #loop: Promise<void>;
  /** The steps and activities that are running. */
  #running = "";
  readonly #surroundings = new Surroundings();
  /** The idle time since exactly these are running. */
  readonly #sinceRunning = new Stillness(OF_STEPS);
  /** The idle time since nothing can happen any more; `#timesStuck` counts how often that was seen in a row. */
  readonly #sinceStuck = new Stillness(OF_TESTS);
  #timesStuck = 0;

  constructor(parts: { engine: Engine; store: MemoryStore; world: TestWorld; standIns: StandIns }, options: TestEngineOptions) {
    const { engine, store, world, standIns } = parts;
    const { codec, limits, logger } = engine;
    const told = new Set<string>();
    super(engine, { codec, limits, logger, environment: world, onBlocked: (runId) => void told.add(runId) });
    this.#told = told;
    this.#standIns = standIns;
    const { workflows, activities = [] } = options;
    this.#serve = (queue) =>
      this.worker({ workflows, activities, queue, turnTimeout: "1m", determinism: "error", lease: LEASE, gracePeriod: 0 });
    this.#world = world;
    this.#engine = engine;
    this.#store = store;
    this.#workflows = options.workflows;
    this.#skipTime = options.skipTime ?? true;
    this.#loop = this.#live();
  }
  static async create(...given: ConstructorParameters<typeof TestEngine>): Promise<TestEngine> {
    const test = new TestEngine(...given);
    await test.#serveQueues();
    return test;
  }
  /** Every queue has a worker: "default" from the start, others as soon as they are used. */
  async #serveQueues(): Promise<void> {
    for (const queue of ["default", ...this.#store.queues]) {
      if (this.#served.has(queue) || this.#closing) continue;
      this.#served.add(queue);
      await this.#serve(queue);
    }
  }
  now(): Date {
    return new Date(this.#world.now());
  }
  /** Advances the clock by this much: everything that is due happens, in order. */
  async advance(by: Duration): Promise<void> {
    const end = this.#world.now() + parseDuration(by);
    for (;;) {
      await this.#settled();
      const next = this.#next;
      if (next === undefined || next > end) break;
      this.#world.moveTo(next);
    }
    this.#world.moveTo(end);
    await this.#settled();
  }
  /** When the next timer, deadline or activity limit is due. */
  get #next(): number | undefined {
    const times = [this.#world.nextAlarm ?? [], this.#store.nextLimit ?? []].flat();
    return times.length === 0 ? undefined : Math.min(...times);
  }
  /**
   * Waits until nothing can run at this time. A running step or activity may wait for something real, for which it gets some real time, or
   * for the clock: its time limit, an abort. In that case only advancing the clock helps.
   */
  async #settled(): Promise<void> {
    for (let quiet = 0; quiet < 3; ) {
      await macrotask();
      if (this.#engine.busy || !this.#world.idle) quiet = 0;
      else if (this.#mayGoOn()) await idleTick();
      else {
        await this.#serveQueues();
        quiet++;
        continue;
      }
      this.#unstick();
    }
  }
  /** Whether user code is running that may end by itself. */
  #mayGoOn(): boolean {
    const names = this.#engine.running.join();
    if (names !== this.#running) this.#sinceRunning.end();
    this.#running = names;
    // The user's timers are never ignored, even at the cost of counting one of the test runner.
    return names !== "" && !this.#sinceRunning.isLong(this.#surroundings.stir(this.#world.alive));
  }
  /** Skips time whenever nothing can run and a caller waits. */
  async #live(): Promise<void> {
    while (!this.#closing) {
      await this.#settled();
      const next = this.#next;
      if (this.#closing || !this.#engine.waiting || next === undefined || !this.#skipTime) {
        if (!this.#closing && next === undefined) await this.#giveUpIfStuck();
        await idleTick();
      } else this.#world.moveTo(next);
    }
  }
  /** Nothing runs, no timer is set, and a caller waits: only a message from the test could help. The test gets some time to send it. */
  async #giveUpIfStuck(): Promise<void> {
    if (this.#engine.running.length > 0 || !this.#engine.waitingForEver) return this.#unstick();
    const isLong = this.#sinceStuck.isLong(this.#surroundings.stir(this.#world.alive + this.#surroundings.timersBefore));
    if (++this.#timesStuck < FEWEST_TIMES || !isLong) return;
    await this.#engine.giveUp(async (runId) => stuck(runId, await this.#engine.describe(runId)));
    this.#unstick();
  }
  #unstick(): void {
    this.#timesStuck = 0;
    this.#sinceStuck.end();
  }

  override async close(): Promise<void> {
    if (this.#closing) return super.close();
    this.#closing = true;
    this.#engine.refuse();
    await this.#loop;
    await this.#settled();
    const failures = [...(await this.#lookAtAll()), ...this.#standIns.failures];
    await this.#closeNow();
    if (failures.length === 1) throw failures[0];
    if (failures.length > 1) throw new AggregateError(failures, failures.map(({ message }) => message).join("\n"));
  }
  /** The clock no longer advances by itself, so timers that are due now must be fired here. */
  async #closeNow(): Promise<void> {
    let isClosed = false;
    const closed = super.close().finally(() => {
      isClosed = true;
    });
    while (!isClosed) {
      this.#world.moveTo(this.#world.now());
      await macrotask();
    }
    await closed;
  }
  /** Checks all runs; returns what is wrong with them. */
  async #lookAtAll(): Promise<Error[]> {
    const failures: Error[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.#store.list({ limit: 1_000, cursor });
      for (const row of page.runs) failures.push(...(row.status === "blocked" ? this.#blocked(row) : await this.#replayed(row)));
      cursor = page.cursor;
    } while (cursor !== undefined);
    return failures;
  }
  /** V4: a test that checks something else would not notice a blocked run. */
  #blocked({ id, error }: RunRow): Error[] {
    if (this.#told.has(id)) return [];
    const cause = error === undefined ? undefined : reviveError(error);
    return [new RunBlockedError({ runId: id, reason: cause?.message ?? "its code can't advance it", cause })];
  }
  async #replayed(row: RunRow): Promise<Error[]> {
    const workflow = new WorkflowTable("workflows", this.#workflows).find(row.workflow, row.version);
    const turns = await this.#store.history(row.id);
    if (workflow === undefined || turns.length === 0) return [];
    try {
      await replay(workflow, toHistory(turns, row), { codec: this.#engine.codec });
      return [];
    } catch (cause) {
      return [new HoldfastError(`The history of run ${row.id} does not replay: ${(cause as Error).message}`, { cause })];
    }
  }
}

const OPTIONS: OptionNames<TestEngineOptions> = {
  workflows: true,
  activities: true,
  replace: true,
  startTime: true,
  skipTime: true,
};
const STAND_INS: OptionNames<NonNullable<TestEngineOptions["replace"]>> = { steps: true, activities: true };

/** Time jumps further than a worker could renew its lease, and no worker dies here. */
const LEASE = "5000w";

/** How long steps and activities may run before they are assumed to wait for the clock: for a time limit or an abort. */
const OF_STEPS: Patience = { still: 50, stirring: 1_000, inAll: 3_000 };
/** How long a test may take to send what a run waits for, and how often the run must be seen waiting before it counts as stuck. */
const OF_TESTS: Patience = { still: 2_000, stirring: 3_000, inAll: 30_000 };
const FEWEST_TIMES = 10;

function stuck(runId: string, info: RunDescription | undefined): HoldfastError {
  const who = `Run ${runId}${info === undefined ? "" : ` of workflow "${info.workflow}"`}`;
  const what = info === undefined || info.waitingFor.length === 0 ? "something" : info.waitingFor.join(", ");
  return new HoldfastError(
    `${who} waits for: ${what}. Nothing in this test can advance it: no timer, no step, no other run. ` +
      "Send what it waits for before you await its result, or pass the missing workflow or activity to testEngine.",
    { code: "HF_TEST_STUCK" },
  );
}

/** The stand-ins of a test, and which of them were used. */
class StandIns {
  readonly #unused = new Set<string>();
  readonly replaceStep: (name: string) => ((info: unknown) => unknown) | undefined;
  readonly replaceActivity: (name: string) => ((args: unknown, info: ActivityInfo) => unknown) | undefined;

  constructor({ steps = {}, activities = {} }: NonNullable<TestEngineOptions["replace"]>) {
    for (const name of Object.keys(steps)) this.#unused.add(`step "${name}"`);
    for (const name of Object.keys(activities)) this.#unused.add(`activity "${name}"`);
    this.replaceStep = (name) => this.#use("step", name, steps as Record<string, (info: unknown) => unknown>);
    this.replaceActivity = (name) => this.#use("activity", name, activities);
  }
  #use<T>(kind: "step" | "activity", name: string, of: Record<string, T>): T | undefined {
    if (!Object.hasOwn(of, name)) return undefined;
    this.#unused.delete(`${kind} "${name}"`);
    return of[name];
  }
  /** A test with an unused stand-in does not test what it claims to. */
  get failures(): Error[] {
    if (this.#unused.size === 0) return [];
    const names = [...this.#unused].join(" and ");
    const message = `The stand-in for ${names} was never used: nothing with that name ran. Check the name, or remove it.`;
    return [new HoldfastError(message, { code: "HF_UNUSED_STAND_IN" })];
  }
}

const macrotask = () => new Promise<void>((resolve) => void setImmediate(resolve));
/** A pause that costs little while the test does something else. */
const idleTick = () => new Promise<void>((resolve) => void setTimeout(resolve, 1).unref());

export async function testEngine(given: TestEngineOptions): Promise<TestEngine> {
  const options = checkedOptions("testEngine", given, OPTIONS);
  const world = new TestWorld(moment("testEngine", "startTime", options.startTime ?? new Date(Date.UTC(2026, 0, 1))));
  const store = new MemoryStore({ clock: () => world.now() });
  const standIns = new StandIns(checkedOptions("testEngine", options.replace, STAND_INS));
  const { replaceStep, replaceActivity } = standIns;
  const internals = { replaceStep, replaceActivity };
  const engine = new Engine({ store, environment: world, codec: jsonCodec, logger: consoleLogger, limits: {}, internals });
  await engine.open();
  return TestEngine.create({ engine, store, world, standIns }, options);
}
