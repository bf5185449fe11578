// An SQLite file that is read in another thread, so that a console never holds up the event loop of this one.
// Owns: the thread, and the calls that wait for its answers.
// Invariants: a thread that has ended fails the calls under way, and the next call starts another; the thread keeps the process alive only
// while a call waits; it ends by itself, since one that is ended inside a call of libsql aborts the process. From sources, and where the program of the thread is not beside this file (in a bundle), it is read in this thread.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { HoldfastError } from "@holdfast/core";
import { StoreClosedError, StoreError } from "../store/errors.ts";
import type { InspectStore, ReadStore } from "../store/inspectPort.ts";
import { parseCursor } from "../store/search/cursors.ts";
import type { LibraryName } from "../store/sqlite/library.ts";
import { SqliteReader } from "../store/sqlite/reader.ts";
import type { Answer, Request, ThreadSettings } from "./threadCalls.ts";

const PROGRAM = new URL("./threadMain.js", import.meta.url);
/** Milliseconds that a thread without work gets to end by itself. */
const PATIENCE_MS = 2_000;

export interface ReadingOptions {
  readonly path: string;
  readonly library?: LibraryName | undefined;
  readonly clock?: (() => number) | undefined;
  /** The program of the thread, for tests. Default: the one beside this file, if there is one. */
  readonly program?: URL | undefined;
}

/** In another thread, if that can be. */
export function readSqlite(options: ReadingOptions): ReadStore {
  const { path, library, clock, program = existsSync(fileURLToPath(PROGRAM)) ? PROGRAM : undefined } = options;
  if (program === undefined) return new SqliteReader(path, { library, clock });
  return threadStore(new ReadingThread(program, { path, library }, clock));
}

/** The calls of the port that the thread carries out. */
const STORE_CALLS = [
  "get", "count", "history", "attempts", "inbox", "workers", "liveWorkers", "getQueue", "listQueues", "limitsFor", "readSchedules", "listSchedules",
] as const satisfies readonly (keyof ReadStore)[]; // biome-ignore format: lines
const INSPECT_CALLS = [
  "state", "turnsOf", "attemptsOf", "workersOf", "executionsOf", "messagesOf", "workflows",
] as const satisfies readonly (keyof InspectStore)[]; // biome-ignore format: lines

type StoreCalls = Pick<ReadStore, (typeof STORE_CALLS)[number]>;
type InspectCalls = Pick<InspectStore, (typeof INSPECT_CALLS)[number]>;

function threadStore(thread: ReadingThread): ReadStore {
  const calls = <T>(of: Request["of"], names: readonly string[]): T =>
    Object.fromEntries(names.map((name) => [name, (...given: unknown[]) => thread.ask(of, name, given)])) as T;
  // A wrong cursor is an error of the caller, which has its class in this thread.
  const listing = (of: Request["of"], name: string) => async (query: { readonly cursor?: string | undefined }) => {
    if (query.cursor !== undefined) parseCursor(query.cursor);
    return thread.ask(of, name, [query]);
  };
  const inspect = {
    ...calls<InspectCalls>("inspect", INSPECT_CALLS),
    host: "SQLite",
    listRuns: listing("inspect", "listRuns"),
  } as InspectStore;
  return {
    ...calls<StoreCalls>("store", STORE_CALLS),
    list: listing("store", "list") as ReadStore["list"],
    now: async () => thread.now(),
    inspect: () => inspect,
    watch: (listener) => thread.watch(() => listener({ work: true, messages: true, tasks: true, results: true })),
    close: () => thread.close(),
  };
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

class ReadingThread {
  readonly #program: URL;
  readonly #settings: ThreadSettings;
  readonly now: () => number;
  readonly #waiting = new Map<number, Waiting>();
  readonly #watchers = new Set<() => void>();
  #worker: Worker | undefined;
  #calls = 0;
  #isClosed = false;
  #closing: Promise<void> | undefined;

  constructor(program: URL, settings: ThreadSettings, clock: (() => number) | undefined) {
    this.#program = program;
    this.#settings = settings;
    this.now = clock ?? Date.now;
  }

  ask(of: Request["of"], method: string, given: readonly unknown[]): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new StoreClosedError({ where: this.#settings.path }));
    return new Promise((resolve, reject) => {
      const id = ++this.#calls;
      this.#waiting.set(id, { resolve, reject });
      const worker = this.#started();
      worker.ref();
      worker.postMessage({ id, of, method, given, now: this.now() } satisfies Request);
    });
  }
  watch(listener: () => void): () => void {
    const own = (): void => listener();
    this.#watchers.add(own);
    this.#watch();
    return () => {
      this.#watchers.delete(own);
      this.#watch();
    };
  }
  #watch(): void {
    if (this.#isClosed) return;
    const isWatched = this.#watchers.size > 0;
    if (isWatched || this.#worker !== undefined)
      this.#started().postMessage({ id: 0, of: "watch", method: isWatched ? "on" : "off", given: [], now: this.now() } satisfies Request);
  }

  #started(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    const worker = new Worker(this.#program, { workerData: this.#settings, name: "holdfast-inspect" });
    this.#worker = worker;
    worker.unref();
    worker.on("message", (answer: Answer) => this.#answered(answer));
    worker.on("error", (error) => this.#ended(worker, error));
    worker.on("exit", () => this.#ended(worker, undefined));
    return worker;
  }
  #answered(answer: Answer): void {
    if (answer.id === 0) {
      for (const watcher of [...this.#watchers]) watcher();
      return;
    }
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (this.#waiting.size === 0) this.#worker?.unref();
    if (answer.error === undefined) waiting?.resolve(answer.value);
    else waiting?.reject(errorOf(answer.error));
  }
  #ended(worker: Worker, cause: unknown): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    const error = this.#isClosed
      ? new StoreClosedError({ where: this.#settings.path })
      : new StoreError(`The thread that reads ${this.#settings.path} has ended. Try again.`, {
          code: "HF_STORE_FAILED",
          cause,
          retryable: true,
        });
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    if (!this.#isClosed && this.#watchers.size > 0) this.#watch();
  }
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
  async #close(): Promise<void> {
    const worker = this.#worker;
    const ended = worker === undefined ? undefined : new Promise<void>((resolve) => worker.once("exit", () => resolve()));
    const closed = worker === undefined ? undefined : this.ask("store", "close", []);
    this.#isClosed = true; // it is the last call
    this.#watchers.clear();
    await closed?.catch(() => undefined);
    if (worker === undefined || ended === undefined) return;
    const late = setTimeout(() => void worker.terminate(), PATIENCE_MS);
    await ended;
    clearTimeout(late);
  }
}

/** Errors lose their class between threads; a store's have a code by which it is found again. */
function errorOf({ name, message, code, retryable }: NonNullable<Answer["error"]>): Error {
  if (code?.startsWith("HF_STORE_") === true) return new StoreError(message, { code: code as `HF_STORE_${string}`, retryable });
  if (code !== undefined) return new HoldfastError(message, { code: code as `HF_${string}` });
  return Object.assign(new Error(message), { name });
}
