// The user's code beside a server: loaded, loaded again on each save, restarted when its process ends.
// Owns: the process that has the code now, the next one while it loads, and a spare one that waits for the next save.
// Invariants: new code takes over only once it is loaded; if it can't be loaded, the old code goes on. When `reloaded` is reported, the old
// code claims nothing any more. A save ends the load of what was saved before it, so that code that never returns holds up nothing.

import { statSync } from "node:fs";
import { basename, dirname } from "node:path";
import { HoldfastError } from "@holdfast/core";
import type { WorkerConfig } from "../config/index.ts";
import type { Settings } from "../config/settings.ts";
import { shownPath } from "../hook/index.ts";
import { loadRequest, ProcessCode } from "./codeHost.ts";
import type { Entries } from "./entries.ts";
import { subfolders } from "./glob.ts";
import { CodeProcess, endText } from "./process.ts";
import type { LoadResult, OpenRunsResult } from "./protocol.ts";
import { FolderWatch } from "./watch.ts";

export interface LiveCodeEvents {
  /** `open` is what a replay of open runs found; undefined if there was none. */
  reloaded(workflows: readonly string[], open: OpenRunsResult | undefined): void;
  /** The code can't be loaded, or its process ended. */
  error(message: string): void;
}
export interface ConfigWatch {
  concerns(file: string): boolean;
  /** True: there is nothing else to do about the save. */
  changed(): Promise<boolean>;
}
export interface LiveCodeOptions {
  readonly settings: Settings;
  readonly entries: Entries;
  readonly cwd: string;
  /** The workers to run; undefined: none. */
  readonly workers: readonly WorkerConfig[] | undefined;
  /** Called when the configuration may have changed. Undefined: it is read once, and a change of it is reported. */
  readonly config?: ConfigWatch | undefined;
  readonly events: LiveCodeEvents;
  /** How long code may take, in milliseconds. Default: `PATIENCE`. */
  readonly patience?: typeof PATIENCE | undefined;
}

/** On save: open runs that are replayed, and how many milliseconds that may take. */
const REPLAY = { most: 200, within: 1_000 };
/** Milliseconds until a load, or a replay that should have ended long ago, is taken for one that never ends. */
const PATIENCE = { load: 30_000, replay: 30_000 };
/** Milliseconds that saves are gathered. */
const GATHER = 40;
/** Milliseconds that the old code gets for what it is doing. */
const OLD_CODE = 12_000;
/** Milliseconds until a spare process is started: what was saved comes first. */
const SPARE = 400;
const LONGEST_PAUSE = 10_000;
const SOURCE = /\.(?:[cm]?[jt]sx?|json)$/;
/** It says where imports lead. */
const TSCONFIG = /^tsconfig(?:\..+)?\.json$/;

export class LiveCode extends ProcessCode {
  #options: LiveCodeOptions;
  readonly #watch = new FolderWatch((file) => this.#noticed(file));
  /** Of the code that is, or should be, in use. */
  #files: ReadonlySet<string> = new Set();
  #found: readonly string[] = [];
  #current: CodeProcess | undefined;
  /** The one that loads the code now, or replays open runs with it. */
  #next: CodeProcess | undefined;
  #spare: CodeProcess | undefined;
  readonly #retiring = new Set<Promise<unknown>>();
  #hasProblem = false;
  #changed = new Set<string>();
  #gathering: NodeJS.Timeout | undefined;
  #busy: Promise<void> = Promise.resolve();
  /** How often the code was to be loaded: only the newest load counts. */
  #loads = 0;
  #deaths = 0;
  #isClosed = false;

  constructor(options: LiveCodeOptions) {
    super();
    this.#options = options;
    this.#spare = new CodeProcess(options.cwd); // it starts while others open the store
  }

  /** The first load. Problems are returned; a save may fix them. */
  async start(): Promise<LoadResult> {
    this.#found = this.#options.entries.files();
    this.#watchFolders();
    const result = await this.#newest(() => this.#replace(undefined));
    return result ?? { workflows: [], files: [], problem: undefined };
  }
  protected override async process(): Promise<CodeProcess> {
    if (this.#current?.isAlive === true) return this.#current;
    throw new HoldfastError("The code is not loaded.", { code: "HF_NO_CODE" });
  }
  get pid(): number | undefined {
    return this.#current?.pid;
  }
  get isLoading(): boolean {
    return this.#next !== undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#gathering);
    this.#watch.close();
    this.#spare?.kill();
    this.#next?.kill();
    await this.#busy;
    await Promise.all([this.#current?.retire(), ...this.#retiring]);
  }

  // ── saves ──

  #noticed(file: string): void {
    // A database in the same folder changes all the time.
    if (/\.[^./\\]+$/.test(file) && !SOURCE.test(file)) return;
    this.#changed.add(file);
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      const changed = this.#changed;
      this.#changed = new Set();
      if (!this.#isClosed) void this.#saved(changed);
    }, GATHER);
  }
  async #saved(changed: ReadonlySet<string>): Promise<void> {
    const { config, settings } = this.#options;
    let code = changed;
    if (config !== undefined && [...changed].some((file) => config.concerns(file))) {
      if (await config.changed()) return;
      code = new Set([...changed].filter((file) => file !== settings.configFile));
    }
    if (this.#concerns(code)) void this.#reload();
    else this.#watchFolders();
    if (config === undefined) this.#noticedConfig(changed);
  }
  /** Loads the code with other settings. If it can't be loaded, the old code goes on until a save. */
  reconfigure(settings: Settings, entries: Entries, workers: readonly WorkerConfig[]): Promise<LoadResult | undefined> {
    this.#options = { ...this.#options, settings, entries, workers };
    return this.#reload();
  }
  /** The server and the workers have what the file said when the command began; only the codec of the code is a new one. */
  #noticedConfig(changed: ReadonlySet<string>): void {
    const { settings, cwd, events } = this.#options;
    const { configFile } = settings;
    if (this.#isClosed || configFile === undefined || !changed.has(configFile)) return;
    events.error(`${shownPath(configFile, cwd)} has changed: end this command and start it again to use it.`);
  }
  #concerns(changed: ReadonlySet<string>): boolean {
    const { entries } = this.#options;
    const found = entries.files();
    if (found.length !== this.#found.length || found.some((file, i) => file !== this.#found[i])) return true;
    for (const file of changed) {
      if (this.#files.has(file) || entries.matches(file) || TSCONFIG.test(basename(file))) return true;
      // What is missing may have come.
      if (this.#hasProblem && SOURCE.test(file)) return true;
    }
    return false;
  }
  /** Undefined: it is closed, or something else was saved since. */
  #reload(): Promise<LoadResult | undefined> {
    return this.#newest(async () => {
      this.#found = this.#options.entries.files();
      const old = this.#current;
      let open: OpenRunsResult | undefined;
      const result = await this.#replace(async (next) => {
        const { workers, patience = PATIENCE } = this.#options;
        if (workers === undefined) return;
        open = await within(patience.replay, next, next.call("replayOpen", REPLAY), "did not return while open runs were replayed");
      });
      if (result?.problem !== undefined) this.#options.events.error(result.problem);
      else if (result !== undefined && old !== this.#current) this.#options.events.reloaded(result.workflows, open);
      return result;
    });
  }
  /** Instead of a load that is under way: what was saved since is not in that one. */
  #newest(load: () => Promise<LoadResult | undefined>): Promise<LoadResult | undefined> {
    const number = ++this.#loads;
    this.#next?.kill();
    return this.#inTurn(async () => (number === this.#loads ? load() : undefined));
  }
  #inTurn(load: () => Promise<LoadResult | undefined>): Promise<LoadResult | undefined> {
    const loaded = this.#busy.then(async () => {
      if (this.#isClosed) return undefined;
      const result = await load();
      this.#prepareSpare();
      return result;
    });
    this.#busy = loaded.then(() => {});
    return loaded;
  }

  // ── processes ──

  /** Loads the code in a new process, which takes over if it can. `check` is called before that. Undefined: another load is to be used. */
  async #replace(check: ((next: CodeProcess) => Promise<void>) | undefined): Promise<LoadResult | undefined> {
    const { settings, cwd, entries, workers } = this.#options;
    const number = this.#loads;
    const isOver = () => this.#isClosed || number !== this.#loads;
    const next = this.#spare?.isAlive === true ? this.#spare : new CodeProcess(cwd);
    this.#spare = undefined;
    this.#next = next;
    let result = await this.#loaded(next, entries, settings, cwd);
    this.#files = new Set([...result.files, ...(result.problem === undefined ? [] : this.#files)]);
    this.#watchFolders();
    if (result.problem === undefined) {
      try {
        await check?.(next);
        this.#next = undefined;
        if (isOver()) {
          next.kill();
          return undefined;
        }
        const old = this.#current;
        // The old code stops claiming before the new code begins: from then on only the new code gets runs.
        if (old !== undefined) await this.#retire(old);
        if (workers !== undefined) await next.call("work", { workers });
        this.#current = next;
        this.#supervise(next);
      } catch (error) {
        const how =
          next.isAlive || error instanceof Endless
            ? (error as Error).message
            : `The code ended the process (${endText(await next.ended)}).`;
        result = { ...result, problem: how };
        // It could not begin, and the old code has ended: the store may be back soon.
        if (this.#current === undefined && !isOver()) setTimeout(() => this.#restart(), LONGEST_PAUSE / 10).unref();
      }
    }
    this.#next = undefined;
    const hasProblem = result.problem !== undefined;
    if (hasProblem) next.kill();
    if (hasProblem && isOver()) return undefined;
    this.#hasProblem = hasProblem;
    return result;
  }
  async #loaded(next: CodeProcess, entries: Entries, settings: Settings, cwd: string): Promise<LoadResult> {
    try {
      const { load } = this.#options.patience ?? PATIENCE;
      const loading = next.call("load", loadRequest(settings, entries.required(), cwd));
      return await within(load, next, loading, `was not loaded within ${load / 1_000} s`);
    } catch (error) {
      const how =
        next.isAlive || error instanceof Endless
          ? (error as Error).message
          : `The code ended the process while it was loaded (${endText(await next.ended)}).`;
      return { workflows: [], files: [...this.#found], problem: how };
    }
  }
  /** Returns once it claims no more; its end is awaited when this closes. */
  async #retire(old: CodeProcess): Promise<void> {
    this.#current = undefined;
    const timer = setTimeout(() => old.kill(), OLD_CODE);
    const ended = old.ended.then(() => clearTimeout(timer)).finally(() => this.#retiring.delete(ended));
    this.#retiring.add(ended);
    await old.call("retire", undefined).catch(() => {});
  }
  /** The spare process has everything loaded but the user's code. */
  #prepareSpare(): void {
    setTimeout(() => {
      if (!this.#isClosed && this.#spare?.isAlive !== true) this.#spare = new CodeProcess(this.#options.cwd);
    }, SPARE).unref();
  }

  /** Restarts a process that ends by itself: at once, and later each time if it keeps ending. */
  #supervise(process: CodeProcess): void {
    const since = performance.now();
    void process.ended.then((end) => {
      if (this.#isClosed || this.#current !== process) return;
      this.#current = undefined;
      this.#deaths = performance.now() - since > LONGEST_PAUSE ? 1 : this.#deaths + 1;
      const pause = this.#deaths === 1 ? 0 : Math.min(LONGEST_PAUSE, 250 * 2 ** this.#deaths);
      this.#options.events.error(`The process with the code has ended (${endText(end)}). It is restarted.`);
      setTimeout(() => this.#restart(), pause).unref();
    });
  }
  #restart(): void {
    void this.#inTurn(async () => {
      if (this.#current !== undefined) return undefined;
      const result = await this.#replace(undefined);
      if (result?.problem !== undefined) this.#options.events.error(result.problem);
      return result;
    });
  }

  // ── folders ──

  #watchFolders(): void {
    if (this.#isClosed) return;
    const folders = new Set([this.#options.settings.root, ...[...this.#files].map((file) => dirname(file))]);
    for (const folder of this.#options.entries.folders()) {
      const existing = nearestFolder(folder);
      folders.add(existing);
      if (existing === folder) for (const inner of subfolders(folder)) folders.add(inner);
    }
    this.#watch.set(folders);
  }
}

/** Code that does not return, and never will. */
class Endless extends Error {}

/** Ends the process if it does not answer in time. */
async function within<T>(ms: number, process: CodeProcess, answer: Promise<T>, what: string): Promise<T> {
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    process.kill();
  }, ms);
  try {
    return await answer;
  } catch (error) {
    throw isLate ? new Endless(`The code ${what}. It may have a loop without an end, or wait for something.`) : error;
  } finally {
    clearTimeout(timer);
  }
}

/** The folder, or the nearest one above it that exists: it would appear there. */
function nearestFolder(path: string): string {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return path;
  const above = dirname(path);
  return above === path ? path : nearestFolder(above);
}
