// `testEngine`: an in-memory engine with its own worker, which skips time.
// Owns: its clock and timers, and the replay of every run when it closes.
// Invariants: Y1 Y5 (every history replays), K8 (no timer fires early), D8 (retries wait in skipped time).

import {
  type Activity,
  type ActivityInfo,
  type AnyWorkflow,
  activity,
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
import { checkedOptions, checkedRetention, invalid, kindOf, moment } from "../api/options.ts";
import type { RunDescription } from "../backend/port.ts";
import { Engine } from "../engine/engine.ts";
import { MemoryStore } from "../store/memory/store.ts";
import type { RunRow } from "../store/port.ts";
import { type IdleLimits, IdleTime, ProcessActivity } from "./idleTime.ts";
import { TestWorld } from "./world.ts";

// Captured when this module is loaded: a test may install fake timers.
const { setTimeout, setImmediate } = globalThis;

/**
 * Options of `testEngine`.
 * @example
 * ```ts
 * const trial = workflow("trial", async (ctx) => {
 *   const account = await ctx.step("create-account", () => fetch("https://api.example").then((reply) => reply.text()));
 *   await ctx.sleep("14d");
 *   return account;
 * });
 * const engine = await testEngine({
 *   workflows: [trial],
 *   startTime: new Date("2026-03-01"),
 *   replace: { steps: { "create-account": () => "acct-1" } },
 * });
 * console.log(await (await engine.start(trial)).result()); // "acct-1"
 * await engine.close();
 * ```
 */
export interface TestEngineOptions {
  /** Served on every queue. */
  workflows: readonly AnyWorkflow[];
  /**
   * Served on every queue.
   * @defaultValue none
   */
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?: readonly Activity<any, any>[];
  /**
   * Stand-ins for steps and activities, by name. One that is never used makes `close()` throw.
   * @defaultValue none
   */
  replace?: {
    /**
     * Functions that run instead of the bodies of steps, by the name of the step.
     * @defaultValue none
     */
    steps?: Record<string, (info: StepInfo) => unknown>;
    /**
     * Functions that run instead of activities, by the name of the activity, which need not be among `activities`.
     * @defaultValue none
     */
    // biome-ignore lint/suspicious/noExplicitAny: the arguments are the activity's own
    activities?: Record<string, (args: any, info: ActivityInfo) => unknown>;
  };
  /**
   * Initial time of the clock.
   * @defaultValue 2026-01-01 UTC
   */
  startTime?: Date;
  /**
   * When nothing can run and a caller waits for a result or an update, skip to the next timer.
   * @defaultValue `true`
   */
  skipTime?: boolean;
  /**
   * How long closed runs are kept whose workflow has no `retention`, by the clock of the engine.
   * @defaultValue `"forever"`
   */
  retention?: Duration | "forever";
}

/**
 * An in-memory engine with its own worker and clock, made by `testEngine`. Always close it: that replays every history.
 * @example
 * ```ts
 * const trial = workflow("trial", (ctx) => ctx.sleep("14d"));
 * const engine: TestEngine = await testEngine({ workflows: [trial] });
 * await (await engine.start(trial)).result(); // at once
 * console.log(engine.now().toISOString().slice(0, 10)); // "2026-01-15"
 * await engine.close();
 * ```
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
  readonly #reportedBlocked: ReadonlySet<string>;
  readonly #loop: Promise<void>;
  /** The steps and activities that are running. */
  #running = "";
  readonly #process = new ProcessActivity();
  /** The idle time since exactly these are running. */
  readonly #idleWhileRunning = new IdleTime(OF_STEPS);
  /** The idle time since nothing can happen any more; `#timesStuck` counts how often that was seen in a row. */
  readonly #idleWhileStuck = new IdleTime(OF_TESTS);
  #timesStuck = 0;

  constructor(parts: { engine: Engine; store: MemoryStore; world: TestWorld; standIns: StandIns }, options: TestEngineOptions) {
    const { engine, store, world, standIns } = parts;
    const { codec, limits, logger } = engine;
    const reported = new Set<string>();
    super(engine, { codec, limits, logger, environment: world, onBlocked: (runId) => void reported.add(runId) });
    this.#reportedBlocked = reported;
    this.#standIns = standIns;
    const { workflows } = options;
    const activities = standIns.completed(options.activities ?? []);
    this.#serve = (queue) =>
      this.worker({ workflows, activities, queue, turnTimeout: "1m", determinism: "error", lease: LEASE, gracePeriod: 0 });
    this.#world = world;
    this.#engine = engine;
    this.#store = store;
    this.#workflows = options.workflows;
    this.#skipTime = options.skipTime ?? true;
    this.#loop = this.#skipTimeWhenIdle();
  }
  /**
   * Used by `testEngine`.
   * @internal
   */
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
  /**
   * The time of its clock.
   * @example
   * ```ts
   * const engine = await testEngine({ workflows: [], startTime: new Date("2030-01-01") });
   * await engine.advance("1h");
   * console.log(engine.now().toISOString()); // "2030-01-01T01:00:00.000Z"
   * await engine.close();
   * ```
   */
  now(): Date {
    return new Date(this.#world.now());
  }
  /**
   * Advances the clock by this much: everything that is due happens, in order.
   * @throws `InvalidInputError` if the duration is invalid.
   * @example
   * ```ts
   * const trial = workflow("trial", async (ctx) => {
   *   await ctx.sleep("14d");
   *   return "expired";
   * });
   * const engine = await testEngine({ workflows: [trial], skipTime: false });
   * const run = await engine.start(trial);
   * await engine.advance("13d");
   * console.log((await run.describe()).status); // "sleeping"
   * await engine.advance("1d");
   * console.log((await run.describe()).status); // "completed"
   * await engine.close();
   * ```
   */
  async advance(by: Duration): Promise<void> {
    const end = this.#world.now() + parseDuration(by, "by");
    for (;;) {
      await this.#settled();
      const next = earliest(this.#next, this.#store.nextTick);
      if (next === undefined || next > end) break;
      this.#world.moveTo(next);
    }
    this.#world.moveTo(end);
    await this.#settled();
  }
  /** When the next timer, deadline or activity limit is due. Time is not skipped to ticks of schedules: they never end. */
  get #next(): number | undefined {
    return earliest(this.#world.nextAlarm, this.#store.nextLimit);
  }
  /**
   * Waits until nothing can run at this time. A running step or activity may wait for something real, for which it gets some real time, or
   * for the clock: its time limit, an abort. In that case only advancing the clock helps.
   */
  async #settled(): Promise<void> {
    for (let quiet = 0; quiet < 3; ) {
      await macrotask();
      if (this.#engine.busy || !this.#world.idle) quiet = 0;
      else if (this.#mayContinue()) await idleTick();
      else {
        await this.#serveQueues();
        quiet++;
        continue;
      }
      this.#unstick();
    }
  }
  /** Whether user code is running that may end by itself. */
  #mayContinue(): boolean {
    const names = this.#engine.running.join();
    if (names !== this.#running) this.#idleWhileRunning.end();
    this.#running = names;
    // The user's timers are never ignored, even at the cost of counting one of the test runner.
    return names !== "" && !this.#idleWhileRunning.isLong(this.#process.activity(this.#world.alive));
  }
  /** Skips time whenever nothing can run and a caller waits. */
  async #skipTimeWhenIdle(): Promise<void> {
    while (!this.#closing) {
      await this.#settled();
      const next = this.#next;
      if (this.#closing || !this.#engine.waiting || next === undefined || !this.#skipTime) {
        if (!this.#closing && next === undefined) await this.#rejectIfStuck();
        await idleTick();
      } else this.#world.moveTo(next);
    }
  }
  /** Nothing runs, no timer is set, and a caller waits: only a message from the test could help. The test gets some time to send it. */
  async #rejectIfStuck(): Promise<void> {
    if (this.#engine.running.length > 0 || !this.#engine.waitsWithoutTimeout) return this.#unstick();
    const isLong = this.#idleWhileStuck.isLong(this.#process.activity(this.#world.alive + this.#process.timersBefore));
    if (++this.#timesStuck < FEWEST_TIMES || !isLong) return;
    await this.#engine.rejectEndlessWaits(async (runId) => stuck(runId, await this.#engine.describe(runId)));
    this.#unstick();
  }
  #unstick(): void {
    this.#timesStuck = 0;
    this.#idleWhileStuck.end();
  }

  /**
   * Replays the history of every run, then closes the engine.
   * @throws `HoldfastError` if a history does not replay; `cause` says where it diverges.
   * @throws `RunBlockedError` if a run is blocked and no caller got that error.
   * @throws `HoldfastError` with the code HF_UNUSED_STAND_IN if a replacement was never used.
   * @throws `AggregateError` if there are several of these.
   */
  override async close(): Promise<void> {
    if (this.#closing) return super.close();
    this.#closing = true;
    this.#engine.refuse();
    await this.#loop;
    await this.#settled();
    const failures = [...(await this.#checkRuns()), ...this.#standIns.failures];
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
  async #checkRuns(): Promise<Error[]> {
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
    if (this.#reportedBlocked.has(id)) return [];
    const cause = error === undefined ? undefined : reviveError(error);
    return [new RunBlockedError({ runId: id, reason: cause?.message ?? "its code can't advance it", cause })];
  }
  async #replayed(row: RunRow): Promise<Error[]> {
    const workflow = new WorkflowTable("workflows", this.#workflows).find(row.workflow, row.version);
    const turns = await this.#store.history(row.id);
    if (workflow === undefined || turns.length === 0) return [];
    try {
      await replay(workflow, toHistory(turns, row), { codec: this.#engine.codec, freezeStates: true });
      return [];
    } catch (error) {
      const failure = error as Error; // a NondeterminismError, which stays one
      failure.message = `The history of run ${row.id} does not replay: ${failure.message}`;
      return [failure];
    }
  }
}

const OPTIONS: OptionNames<TestEngineOptions> = {
  workflows: true,
  activities: true,
  replace: true,
  startTime: true,
  skipTime: true,
  retention: true,
};
const STAND_INS: OptionNames<NonNullable<TestEngineOptions["replace"]>> = { steps: true, activities: true };

/** Time jumps further than a worker could renew its lease, and no worker dies here. */
const LEASE = "5000w";

/** How long steps and activities may run before they are assumed to wait for the clock: for a time limit or an abort. */
const OF_STEPS: IdleLimits = { quiet: 50, withoutInput: 1_000, total: 3_000 };
/** How long a test may take to send what a run waits for, and how often the run must be seen waiting before it counts as stuck. */
const OF_TESTS: IdleLimits = { quiet: 2_000, withoutInput: 3_000, total: 30_000 };
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
  readonly #activities: Readonly<Record<string, (args: unknown, info: ActivityInfo) => unknown>>;
  readonly replaceStep: (name: string) => ((info: unknown) => unknown) | undefined;
  readonly replaceActivity: (name: string) => ((args: unknown, info: ActivityInfo) => unknown) | undefined;

  constructor({ steps = {}, activities = {} }: NonNullable<TestEngineOptions["replace"]>) {
    for (const [kind, given] of Object.entries({ steps, activities }))
      for (const [name, standIn] of Object.entries(checkedOptions("testEngine", given)))
        if (typeof standIn !== "function")
          throw invalid("testEngine", `A stand-in must be a function, not ${kindOf(standIn)}.`, `${kind}.${name}`);
    this.#activities = activities;
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
  /** These activities, and one for each stand-in that has none: its workers may belong to another team, or run another language. */
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  completed(activities: readonly Activity<any, any>[]): Activity<any, any>[] {
    const known = new Set(activities.map(({ name }) => name));
    const missing = Object.entries(this.#activities).filter(([name]) => !known.has(name));
    return [...activities, ...missing.map(([name, run]) => activity(name, run))];
  }
  /** A test with an unused stand-in does not test what it claims to. */
  get failures(): Error[] {
    if (this.#unused.size === 0) return [];
    const names = [...this.#unused].join(" and ");
    const message = `The stand-in for ${names} was never used: nothing with that name ran. Check the name, or remove it.`;
    return [new HoldfastError(message, { code: "HF_UNUSED_STAND_IN" })];
  }
}

function earliest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}
const macrotask = () => new Promise<void>((resolve) => void setImmediate(resolve));
/** A pause that costs little while the test does something else. */
const idleTick = () => new Promise<void>((resolve) => void setTimeout(resolve, 1).unref());

/**
 * Opens an in-memory engine with its own worker, which skips time: a workflow that sleeps for a month ends at once. For tests with any
 * runner. Closing it replays every history, and throws if one does not replay. If a caller waits for a run that nothing in the test can
 * advance, its call rejects with the code HF_TEST_STUCK.
 * @throws `InvalidInputError` if an option is invalid.
 * @example
 * ```ts
 * const order = workflow("order", async (ctx, amount: number) => {
 *   const receipt = await ctx.step("charge", () => fetch("https://bank.example").then((answer) => answer.text()));
 *   await ctx.sleep("30d");
 *   return `${receipt} for ${amount}`;
 * });
 * const engine = await testEngine({ workflows: [order], replace: { steps: { charge: () => "receipt" } } });
 * const run = await engine.start(order, 42);
 * console.log(await run.result()); // "receipt for 42"
 * await engine.close();
 * ```
 */
export async function testEngine(given: TestEngineOptions): Promise<TestEngine> {
  const options = checkedOptions("testEngine", given, OPTIONS);
  if (!Array.isArray(options.workflows))
    throw invalid("testEngine", `Expected a list of workflows, got ${kindOf(options.workflows)}.`, "workflows");
  const world = new TestWorld(moment("testEngine", "startTime", options.startTime ?? new Date(Date.UTC(2026, 0, 1))));
  const store = new MemoryStore({ clock: () => world.now() });
  const standIns = new StandIns(checkedOptions("testEngine", options.replace, STAND_INS));
  const { replaceStep, replaceActivity } = standIns;
  const internals = { replaceStep, replaceActivity };
  const retention = checkedRetention("testEngine", options.retention);
  const engine = new Engine({ store, environment: world, codec: jsonCodec, logger: consoleLogger, limits: {}, retention, internals });
  await engine.open();
  return TestEngine.create({ engine, store, world, standIns }, options);
}
