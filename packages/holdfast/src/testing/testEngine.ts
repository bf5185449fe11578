// `testEngine`: an engine in memory with a worker of its own, whose time skips.
// Owns: the world it lives in, and the replay of everything that ran in it when it closes.
// Invariants: Y1 Y5 (every history replays), K8 (no timer early), D8 (retries wait in skipped time).

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

// As they are when this module is loaded: a test may put fake ones in their place.
const { setTimeout, setImmediate } = globalThis;

export interface TestEngineOptions {
  workflows: readonly AnyWorkflow[];
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?: readonly Activity<any, any>[];
  /** Stand-ins by name. */
  replace?: {
    steps?: Record<string, (info: StepInfo) => unknown>;
    // biome-ignore lint/suspicious/noExplicitAny: the arguments are the activity's own
    activities?: Record<string, (args: any, info: ActivityInfo) => unknown>;
  };
  /** Where the clock starts. */
  startTime?: Date;
  /** When nothing can run, go to the next timer. Default true. */
  skipTime?: boolean;
}

/**
 * An engine in memory with a worker of its own. Closing it replays every history and fails on a difference, on a stand-in that nothing
 * used, and on a run that is blocked and whose RunBlockedError no caller was given.
 */
export class TestEngine extends Holdfast {
  readonly #world: TestWorld;
  readonly #engine: Engine;
  readonly #store: MemoryStore;
  readonly #workflows: readonly AnyWorkflow[];
  readonly #skipTime: boolean;
  readonly #standIns: StandIns;
  /** A worker for each queue that anything was put into. */
  readonly #serve: (queue: string) => Promise<unknown>;
  readonly #served = new Set<string>();
  #closing = false;
  /** Blocked runs whose RunBlockedError a caller was given. */
  readonly #told: ReadonlySet<string>;
  readonly #loop: Promise<void>;
  /** Steps and activities that run. */
  #running = "";
  readonly #surroundings = new Surroundings();
  /** Since it is just these that run. */
  readonly #sinceRunning = new Stillness(OF_STEPS);
  /** Since nothing can happen any more, and how often that was seen in a row. */
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
  /** Every queue has a worker: the first from the start, others from when something is put into them. */
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
  /** Lets this much time pass: everything that is due within it happens, in order. */
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
  /** When something is due next: a timer, a deadline, the limit of an activity. */
  get #next(): number | undefined {
    const times = [this.#world.nextAlarm ?? [], this.#store.nextLimit ?? []].flat();
    return times.length === 0 ? undefined : Math.min(...times);
  }
  /**
   * Until nothing can run any more at this time. A step or an activity that runs may wait for something real, which is given some real
   * time, or for time itself: a limit of its own, an abort. Then only moving on helps.
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
  /** Does code of users run that may come to an end by itself? */
  #mayGoOn(): boolean {
    const names = this.#engine.running.join();
    if (names !== this.#running) this.#sinceRunning.end();
    this.#running = names;
    // A timer of theirs is never overlooked: it may be counted with one of the test runner.
    return names !== "" && !this.#sinceRunning.isLong(this.#surroundings.stir(this.#world.alive));
  }
  /** Skips time whenever nothing can run and somebody waits. */
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
  /** Nothing runs, no timer is set, and a caller waits: only a message could help, and only the test could send it. It is given time for that. */
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
  /** Nobody moves time any more: what waits for this moment has to be called. */
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
  /** What is wrong with the runs that there are. */
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
  /** V4: a test that looks at something else would not notice. */
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

/** Time jumps further than any worker could renew a lease, and nobody dies here. */
const LEASE = "5000w";

/** How long steps and activities may take before they are taken for waiting: for a limit of their own, or an abort. */
const OF_STEPS: Patience = { still: 50, stirring: 1_000, inAll: 3_000 };
/** How long a test may take to send what a run waits for, and how often it must be seen waiting for nothing else. */
const OF_TESTS: Patience = { still: 2_000, stirring: 3_000, inAll: 30_000 };
const FEWEST_TIMES = 10;

function stuck(runId: string, info: RunDescription | undefined): HoldfastError {
  const who = `Run ${runId}${info === undefined ? "" : ` of workflow "${info.workflow}"`}`;
  const what = info === undefined || info.waitingFor.length === 0 ? "something" : info.waitingFor.join(", ");
  return new HoldfastError(
    `${who} waits for: ${what}. Nothing is left in this test that could bring it on: no timer, no step, no other run. ` +
      "Send what it waits for before you await its result, or give the test engine the workflow or activity that is missing.",
    { code: "HF_TEST_STUCK" },
  );
}

/** The stand-ins of a test, and which of them something has used. */
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
  /** A test whose stand-in nothing used has tested something else than it says. */
  get failures(): Error[] {
    if (this.#unused.size === 0) return [];
    const names = [...this.#unused].join(" and ");
    const message = `The stand-in for ${names} was never used: nothing of that name ran. Check the name, or leave it out.`;
    return [new HoldfastError(message, { code: "HF_UNUSED_STAND_IN" })];
  }
}

const macrotask = () => new Promise<void>((resolve) => void setImmediate(resolve));
/** A pause that costs little while a test does something else. */
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
