// Measures how long a process has been idle, for an engine that must tell waiting from working.
// Owns: which resources this process had open before the test ran, and when activity was last seen.
// Invariants: no guess is final: any activity restarts the idle time.

import { isMainThread } from "node:worker_threads";

/** Activity besides the engine: none; a timer, a listening server or a computing thread; a socket, a file or a process. */
type Stir = "nothing" | "something" | "input or output";

/** Real milliseconds. As far as possible, each is below the five seconds that test runners allow per test. */
export interface Patience {
  /** Without any activity. */
  readonly still: number;
  /** Without activity of a socket, file or process: a timer may belong to the test runner. */
  readonly stirring: number;
  /** In any case: a socket may stay open without ever being used again. */
  readonly inAll: number;
}

/** The CPU share that counts as work: hashing or compressing in Node's thread pool appears in no list of resources. */
const WORKING = 0.3;
/** Milliseconds over which the share is measured. */
const WINDOW = 25;

/** Resources that may exist as long as the test runs. */
const PASSIVE: ReadonlySet<string> = new Set(["Timeout", "TCPServerWrap", "PipeServerWrap"]);

/** Activity of this process outside the engine. */
export class Surroundings {
  readonly #before: ReadonlyMap<string, number>;
  #measured = { at: performance.now(), processor: processorTime() };
  #isWorking = false;

  constructor() {
    void [process.stdout, process.stderr]; // they open on first use: not later, with the first line that the engine logs
    this.#before = activeResources();
  }
  /** Number of timers that existed before. They may end and be replaced by others: a count can't tell them apart. */
  get timersBefore(): number {
    return this.#before.get("Timeout") ?? 0;
  }
  /** `timers`: how many timers to ignore. */
  stir(timers: number): Stir {
    let found: Stir = this.#works() ? "something" : "nothing";
    for (const [kind, count] of activeResources()) {
      if (count <= (kind === "Timeout" ? timers : (this.#before.get(kind) ?? 0))) continue;
      if (!PASSIVE.has(kind)) return "input or output";
      found = "something";
    }
    return found;
  }
  /** In a worker thread of a test runner, the CPU time of other threads can't be told apart. */
  #works(): boolean {
    const at = performance.now();
    const past = at - this.#measured.at;
    if (!isMainThread || past < WINDOW) return this.#isWorking;
    const processor = processorTime();
    this.#isWorking = (processor - this.#measured.processor) / past > WORKING;
    this.#measured = { at, processor };
    return this.#isWorking;
  }
}

/** Decides whether this process has been idle for long enough. */
export class Stillness {
  readonly #patience: Patience;
  #since: number | undefined;
  #sinceStill = 0;
  #sinceOwn = 0;

  constructor(patience: Patience) {
    this.#patience = patience;
  }
  /** Restarts the idle time, because something happened. */
  end(): void {
    this.#since = undefined;
  }
  isLong(stir: Stir): boolean {
    const now = performance.now();
    if (this.#since === undefined) this.#since = this.#sinceStill = this.#sinceOwn = now;
    if (stir !== "nothing") this.#sinceStill = now;
    if (stir === "input or output") this.#sinceOwn = now;
    const { still, stirring, inAll } = this.#patience;
    return now - this.#sinceStill >= still || now - this.#sinceOwn >= stirring || now - this.#since >= inAll;
  }
}

/** The resources that keep this process alive, counted by kind. */
function activeResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) if (kind !== "Immediate") counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}
function processorTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
