// Replays many histories on several processes at once.
// Owns: these processes, and which history each has.
// Invariants: every history gets one outcome; one that kills its process, or never returns, is "failed", and the others are replayed
// elsewhere. Processes and not threads, because code may end a process in ways that no thread survives.

import { availableParallelism } from "node:os";
import { UsageError } from "../config/errors.ts";
import { shownPath } from "../hook/index.ts";
import { CodeProcess, endText } from "./process.ts";
import type { LoadRequest, LoadResult, ReplayItem, ReplayOutcome } from "./protocol.ts";

/** Histories that a process gets at once. */
const BATCH = 16;
/** Milliseconds without an outcome after which the replay of a history is stopped. */
const PATIENCE = 30_000;
/** For fewer histories another process is not worth its start. */
const WORTH = 100;

export interface ReplayPoolOptions {
  readonly load: LoadRequest;
  readonly strict: boolean;
  /** Default: one per core. */
  readonly processes?: number | undefined;
  /** How many histories there are, about. */
  readonly expected: number;
  readonly onOutcome: (outcome: ReplayOutcome) => void;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds. */
  readonly patience?: number | undefined;
}

/**
 * Loads the code in a new process. Code that can't be loaded is a usage error that names file and line. `signal` ends a load that is under
 * way: code may never return.
 */
export async function startCode(
  load: LoadRequest,
  signal?: AbortSignal | undefined,
): Promise<{ readonly process: CodeProcess; readonly loaded: LoadResult }> {
  signal?.throwIfAborted();
  const process = new CodeProcess(load.cwd);
  const stop = () => process.kill();
  signal?.addEventListener("abort", stop, { once: true });
  const loading = process.call("load", load).finally(() => signal?.removeEventListener("abort", stop));
  const loaded = await loading.catch(async (error: unknown) => {
    signal?.throwIfAborted();
    if (process.isAlive) {
      process.kill();
      throw error;
    }
    const [first = ""] = load.files;
    const how = endText(await process.ended);
    throw new UsageError(`${shownPath(first, load.cwd)}:1: The code ended the process while it was loaded (${how}).`, { code: "HF_CODE" });
  });
  if (loaded.problem === undefined) return { process, loaded };
  process.kill();
  throw new UsageError(loaded.problem, { code: "HF_CODE" });
}

export async function replayAll(items: readonly ReplayItem[] | AsyncIterable<ReplayItem>, options: ReplayPoolOptions): Promise<void> {
  const { process: first } = await startCode(options.load, options.signal);
  const work = new Work(items);
  const lanes = [lane(first, work, options)];
  const most = Math.min(options.processes ?? availableParallelism(), Math.ceil(options.expected / WORTH));
  while (lanes.length < most) lanes.push(startCode(options.load, options.signal).then(({ process }) => lane(process, work, options)));
  // If one fails, the others end: no process is left when this returns.
  for (const one of lanes) one.catch(() => work.end());
  for (const outcome of await Promise.allSettled(lanes)) if (outcome.status === "rejected") throw outcome.reason;
}

/** What is left to do. */
class Work {
  readonly #source: AsyncIterator<ReplayItem> | Iterator<ReplayItem>;
  /** Histories of a batch whose process ended: one at a time, to find the one that ends it. */
  readonly #again: ReplayItem[] = [];
  #taking: Promise<unknown> = Promise.resolve();
  #isOver = false;
  constructor(items: readonly ReplayItem[] | AsyncIterable<ReplayItem>) {
    this.#source = Array.isArray(items) ? items[Symbol.iterator]() : (items as AsyncIterable<ReplayItem>)[Symbol.asyncIterator]();
  }
  /** Empty: there is nothing left. */
  take(): Promise<ReplayItem[]> {
    const taken = this.#taking.then(() => this.#next());
    this.#taking = taken.catch(() => {});
    return taken;
  }
  /** From now on nothing is left. */
  end(): void {
    this.#isOver = true;
  }
  async #next(): Promise<ReplayItem[]> {
    if (this.#isOver) return [];
    const again = this.#again.shift();
    if (again !== undefined) return [again];
    const batch: ReplayItem[] = [];
    while (batch.length < BATCH) {
      const { value, done } = await this.#source.next();
      if (done === true) break;
      batch.push(value);
    }
    return batch;
  }
  putBack(items: readonly ReplayItem[]): void {
    this.#again.push(...items);
  }
}

async function lane(first: CodeProcess, work: Work, options: ReplayPoolOptions): Promise<void> {
  let process = first;
  const stop = () => process.kill();
  options.signal?.addEventListener("abort", stop);
  try {
    for (let batch = await work.take(); batch.length > 0; batch = await work.take()) {
      options.signal?.throwIfAborted();
      if (!process.isAlive) ({ process } = await startCode(options.load, options.signal));
      const { left, reason } = await replayBatch(process, batch, options);
      options.signal?.throwIfAborted();
      const [only, ...others] = left;
      if (only === undefined) continue;
      if (others.length > 0) work.putBack(left);
      else options.onOutcome({ runId: only.runId, workflow: only.workflow, status: "failed", reason });
    }
  } finally {
    options.signal?.removeEventListener("abort", stop);
    process.kill();
  }
}

/** `left`: those that have no outcome, because the process ended. */
async function replayBatch(
  process: CodeProcess,
  batch: readonly ReplayItem[],
  { strict, onOutcome, patience = PATIENCE }: ReplayPoolOptions,
): Promise<{ readonly left: readonly ReplayItem[]; readonly reason: string | undefined }> {
  const left = [...batch];
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    process.kill();
  }, patience);
  process.onOutcome = (outcome) => {
    timer.refresh();
    left.shift();
    onOutcome(outcome);
  };
  try {
    await process.call("replay", { items: batch, strict });
    return { left: [], reason: undefined };
  } catch (error) {
    if (process.isAlive) throw error; // of the store, not of a history
    const how = isLate ? `did not return within ${patience / 1_000} s` : `ended the process (${endText(await process.ended)})`;
    return { left, reason: `The code ${how}.` };
  } finally {
    clearTimeout(timer);
    process.onOutcome = () => {};
  }
}
