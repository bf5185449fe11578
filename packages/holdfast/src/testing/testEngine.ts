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
import { Engine } from "../engine.ts";
import { Holdfast, type Internals } from "../holdfast.ts";
import { WorkflowTable } from "../host/versions.ts";
import { checkedOptions, moment } from "../inputs.ts";
import { consoleLogger } from "../logger.ts";
import { MemoryStore } from "../store/memory/store.ts";
import type { RunRow } from "../store/port.ts";
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
 * An engine in memory with a worker of its own. Closing it replays every history and fails on a difference, and on a run that is blocked
 * and whose RunBlockedError nobody was given.
 */
export class TestEngine extends Holdfast {
  readonly #world: TestWorld;
  readonly #engine: Engine;
  readonly #store: MemoryStore;
  readonly #workflows: readonly AnyWorkflow[];
  readonly #skipTime: boolean;
  #closing = false;
  /** Blocked runs that somebody was told of. */
  readonly #told = new Set<string>();
  readonly #loop: Promise<void>;
  /** Steps and activities that run, and since when it is just these, in real time. */
  #running = { names: "", since: 0 };
  /** What this process waited for before anything ran here: the business of the test runner. */
  readonly #resources = activeResources();

  constructor(engine: Engine, internals: Internals & { store: MemoryStore; environment: TestWorld }, options: TestEngineOptions) {
    super(engine, internals);
    this.#world = internals.environment;
    this.#engine = engine;
    this.#store = internals.store;
    this.#workflows = options.workflows;
    this.#skipTime = options.skipTime ?? true;
    engine.onBlockedResult = (runId) => void this.#told.add(runId);
    this.#loop = this.#live();
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
      else quiet++;
    }
  }
  /** Does code of users run that may come to an end by itself? */
  #mayGoOn(): boolean {
    const names = this.#engine.running.join();
    if (names !== this.#running.names) this.#running = { names, since: this.#world.elapsed() };
    if (names === "") return false;
    const waitsForReal = [...activeResources()].some(([kind, count]) => count > (this.#resources.get(kind) ?? 0));
    return this.#world.elapsed() - this.#running.since < (waitsForReal ? LONG_PATIENCE : SHORT_PATIENCE);
  }
  /** Skips time whenever nothing can run and somebody waits. */
  async #live(): Promise<void> {
    while (!this.#closing && this.#skipTime) {
      await this.#settled();
      const next = this.#next;
      if (this.#closing || !this.#engine.waiting || next === undefined) await idleTick();
      else this.#world.moveTo(next);
    }
  }

  override async close(): Promise<void> {
    if (this.#closing) return super.close();
    this.#closing = true;
    this.#engine.refuse();
    await this.#loop;
    await this.#settled();
    const failures = await this.#lookAtAll();
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

/** Real milliseconds that steps and activities may take before they are taken for waiting: with something real to wait for, and without. */
const LONG_PATIENCE = 1_000;
const SHORT_PATIENCE = 50;

/** Sockets, files, timers and the like that keep this process busy, by kind. */
function activeResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) if (kind !== "Immediate") counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

const macrotask = () => new Promise<void>((resolve) => void setImmediate(resolve));
/** A pause that costs little while a test does something else. */
const idleTick = () => new Promise<void>((resolve) => void setTimeout(resolve, 1).unref());

export async function testEngine(given: TestEngineOptions): Promise<TestEngine> {
  const options = checkedOptions("testEngine", given, OPTIONS);
  const world = new TestWorld(moment("testEngine", "startTime", options.startTime ?? new Date(Date.UTC(2026, 0, 1))));
  const store = new MemoryStore({ clock: () => world.now() });
  const { steps = {}, activities = {} } = checkedOptions("testEngine", options.replace, STAND_INS);
  const internals = {
    store,
    environment: world,
    replaceStep: (name: string) => steps[name] as ((info: unknown) => unknown) | undefined,
    replaceActivity: (name: string) => activities[name],
  };
  const engine = new Engine({ store, environment: world, codec: jsonCodec, logger: consoleLogger, limits: {} });
  await engine.open();
  const test = new TestEngine(engine, internals, options);
  await test.worker({
    workflows: options.workflows,
    activities: options.activities ?? [],
    turnTimeout: "1m",
    determinism: "error",
    lease: LEASE,
    gracePeriod: 0,
  });
  return test;
}
