// Job: open engines on every store, and get between an engine and its store.
// Owns: the stores and files of a test; everything that was opened is closed after it.
// Invariants: the same tests run on every store; nothing is waited for by sleeping.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Environment, realEnvironment } from "@holdfast/host";
import { PostgresStore } from "@holdfast/postgres";
import { ask, emptySchema, startServer, type TestServer } from "@holdfast/postgres-server";
import { Holdfast, type Logger, type OpenOptions } from "holdfast";
import type { Store } from "holdfast/store";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import { openStore } from "../../src/store/open.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";
import { endLeases } from "../hosts/endLeases.ts";

export type StoreName = "memory" | "sqlite" | "postgres";
export const STORES: readonly StoreName[] = ["memory", "sqlite", "postgres"];

export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: object | undefined;
}

type EngineOptions = OpenOptions & { readonly wire?: Wire; readonly skips?: boolean; readonly environment?: Environment };

export interface Engines {
  /**
   * An engine on the data of this test: each call opens another, all see the same runs. With `skips` its store has the clock that `skip`
   * moves: then all engines of the test need it.
   */
  open(options?: EngineOptions): Promise<Holdfast>;
  /** It is so many milliseconds later, by the clock of the stores: what was to happen after something else can't come before it. */
  skip(ms: number): void;
  /** By that clock. */
  now(): number;
  /** Ends the leases of all runs, as if their workers had been dead for long. Waits for calls that are under way through a wire. */
  expireLeases(): Promise<void>;
  /** What all of them have logged. */
  readonly log: LogLine[];
  /** Of the file, on SQLite. */
  readonly path: string;
  /** What `open` opens; undefined for the store in memory. */
  readonly url: string | undefined;
}

/** Fresh data for every test of this `describe`. */
export function enginesOn(name: StoreName): Engines {
  const opened: Holdfast[] = [];
  const wires: Wire[] = [];
  const log: LogLine[] = [];
  let tests = 0;
  /** What an engine of an earlier test says late is not this one's. */
  const loggerOf = (test: number): Logger => {
    const at = (level: LogLine["level"]) => (message: string, fields?: object) => {
      if (test === tests) log.push({ level, message, fields });
    };
    return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  };
  const database = name === "postgres" ? databaseOfTests() : undefined;
  let folder = "";
  let skipped = 0;
  const clock = () => Date.now() + skipped;
  let memory = new MemoryStore({ clock });

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-engine-"));
    skipped = 0;
    memory = new MemoryStore({ clock });
    await database?.clear();
    log.length = 0;
    tests++;
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((engine) => engine.close()));
    wires.length = 0;
    rmSync(folder, { recursive: true, force: true });
  });

  const engines = {
    log,
    get path() {
      return join(folder, "x.db");
    },
    get url() {
      if (name === "memory") return undefined;
      return name === "sqlite" ? `file:${engines.path}?synchronous=NORMAL` : database?.url();
    },
    now: clock,
    skip(ms: number): void {
      skipped += ms;
    },
    async expireLeases(): Promise<void> {
      await Promise.all(wires.map((wire) => wire.answered()));
      if (name === "sqlite") await endLeases(engines.path, 0);
      else if (name === "memory") await endLeasesInMemory(memory);
      else
        await ask(database?.url() ?? "", "UPDATE holdfast.runs SET available_at = 0 WHERE worker_id IS NOT NULL AND finished_at IS NULL");
    },
    async open({ wire, skips = false, environment = realEnvironment, ...options }: EngineOptions = {}): Promise<Holdfast> {
      const logger = loggerOf(tests);
      const given = { logger, ...options };
      if (wire !== undefined) wires.push(wire);
      const { url } = engines;
      const storeAt = async (place: string): Promise<Store> => {
        if (!skips) return openStore(place, { logger });
        if (name === "sqlite") return new SqliteStore(engines.path, { synchronous: "NORMAL", logger, clock });
        return new PostgresStore({ connectionString: place, logger, clock });
      };
      const engine =
        url !== undefined && wire === undefined && !skips
          ? await Holdfast.open(url, given)
          : await Holdfast.with({ store: (wire ?? new Wire()).on(url === undefined ? memory : await storeAt(url)), environment }, given);
      opened.push(engine);
      return engine;
    },
  };
  return engines;
}

/** In memory a renewal sets the end of a lease, wherever it was. */
async function endLeasesInMemory(store: MemoryStore): Promise<void> {
  const { runs } = await store.list({ limit: 1_000 });
  for (const { id: runId, workerId, epoch } of runs)
    if (workerId !== undefined) await store.renew(workerId, 0, [{ runId, epoch, seen: 0 }]);
}

/** One database for this `describe`. The first test makes the schema, the others empty it. */
function databaseOfTests(): { url(): string; clear(): Promise<void> } {
  let server: TestServer | undefined;
  let url = "";
  beforeAll(async () => {
    server = await startServer();
    url = await server.createDatabase();
  }, 60_000);
  afterAll(() => server?.stop(), 60_000);
  return { url: () => url, clear: () => emptySchema(url, "holdfast") };
}

type Method = { [K in keyof Store]-?: NonNullable<Store[K]> extends (...args: never[]) => unknown ? K : never }[keyof Store];
type Call<K extends Method> = NonNullable<Store[K]>;
type Handler<K extends Method> = (pass: Call<K>, ...args: Parameters<Call<K>>) => ReturnType<Call<K>>;

/** Between an engine and its store: what goes through can be seen, held up, changed, or cut off. */
export class Wire {
  readonly #handlers = new Map<Method, Handler<Method>>();
  readonly #underWay = new Set<Promise<unknown>>();
  #isCut = false;

  /** Until the next `intercept` of the same method; `undefined` lets calls pass again. */
  intercept<K extends Method>(method: K, handler: Handler<K> | undefined): void {
    if (handler === undefined) this.#handlers.delete(method);
    else this.#handlers.set(method, handler as unknown as Handler<Method>);
  }
  /** From now on nothing gets through, as if the process had died. */
  cut(): void {
    this.#isCut = true;
  }
  get isCut(): boolean {
    return this.#isCut;
  }
  /** Everything that the store was asked through a wire that is cut has been answered: nothing changes any more. */
  async answered(): Promise<void> {
    if (this.#isCut) await Promise.allSettled(this.#underWay);
  }
  on(store: Store): Store {
    return new Proxy(store, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value !== "function") return value;
        return (...args: unknown[]): unknown => this.#call(key as Method, args, (...given) => value.apply(target, given));
      },
    });
  }
  #call(method: Method, args: unknown[], ask: (...args: unknown[]) => unknown): unknown {
    if (method === "close") return ask(...args);
    if (this.#isCut) return Promise.reject(new Error(`The wire is cut: ${method}.`));
    const pass = (...given: unknown[]): unknown => {
      const answer = ask(...given);
      if (answer instanceof Promise) {
        this.#underWay.add(answer);
        const forget = (): void => void this.#underWay.delete(answer);
        answer.then(forget, forget);
      }
      return answer;
    };
    const handler = this.#handlers.get(method) as ((...all: unknown[]) => unknown) | undefined;
    return handler === undefined ? pass(...args) : handler(pass, ...args);
  }
}

/** For a worker that is going to die: it holds its runs until `expireLeases`, and closing it waits for nothing. */
export const DOOMED = { lease: "10m", gracePeriod: 0 } as const;

/** Looks until it is so, for less time than a test may take: the failure says what was waited for. */
export async function until<T>(look: () => T | Promise<T>, what = "it"): Promise<Exclude<T, false | undefined | null>> {
  const end = Date.now() + 50_000;
  for (;;) {
    const seen = await look();
    if (seen !== false && seen !== undefined && seen !== null) return seen as Exclude<T, false | undefined | null>;
    if (Date.now() > end) throw new Error(`Timed out waiting for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
}

/** A promise to be settled from outside. */
export class Gate<T = void> {
  readonly passed: Promise<T>;
  #open: (value: T) => void = () => {};
  #fail: (error: unknown) => void = () => {};
  constructor() {
    this.passed = new Promise<T>((resolve, reject) => {
      this.#open = resolve;
      this.#fail = reject;
    });
    this.passed.catch(() => {});
  }
  open(value: T): void {
    this.#open(value);
  }
  fail(error: unknown): void {
    this.#fail(error);
  }
}

/** What a promise is rejected with. */
export async function errorOf(promise: Promise<unknown>): Promise<Error & { cause?: unknown; code?: string }> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error("It was not rejected.");
}

/** Rejects once the signal is aborted, as `fetch` does. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const fail = () => reject(signal.reason);
    if (signal.aborted) fail();
    else signal.addEventListener("abort", fail);
  });
}
