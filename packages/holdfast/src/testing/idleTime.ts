// Measures how long a process has been idle, for an engine that must tell waiting from working.
// Owns: which resources this process had open before the test ran, and when activity was last seen.
// Invariants: no guess is final: any activity restarts the idle time.

import { isMainThread } from "node:worker_threads";

/** Activity besides the engine: none; a timer, a listening server or a computing thread; a socket, a file or a process. */
type Activity = "nothing" | "something" | "input or output";

/** After how many real milliseconds a process counts as idle. As far as possible, below the five seconds that test runners allow per test. */
export interface IdleLimits {
  /** Without any activity. */
  readonly quiet: number;
  /** Without activity of a socket, file or process: a timer may belong to the test runner. */
  readonly withoutInput: number;
  /** In any case: a socket may stay open without ever being used again. */
  readonly total: number;
}

/** The CPU share that counts as work: hashing or compressing in Node's thread pool appears in no list of resources. */
const WORKING = 0.3;
/** Milliseconds over which the share is measured. */
const WINDOW = 25;

/** Resources that may exist as long as the test runs. */
const PASSIVE: ReadonlySet<string> = new Set(["Timeout", "TCPServerWrap", "PipeServerWrap"]);

/** Activity of this process outside the engine. */
export class ProcessActivity {
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
  activity(timers: number): Activity {
    let found: Activity = this.#works() ? "something" : "nothing";
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
export class IdleTime {
  readonly #limits: IdleLimits;
  #since: number | undefined;
  #lastActivity = 0;
  #lastInput = 0;

  constructor(limits: IdleLimits) {
    this.#limits = limits;
  }
  /** Restarts the idle time, because something happened. */
  end(): void {
    this.#since = undefined;
  }
  isLong(activity: Activity): boolean {
    const now = performance.now();
    if (this.#since === undefined) this.#since = this.#lastActivity = this.#lastInput = now;
    if (activity !== "nothing") this.#lastActivity = now;
    if (activity === "input or output") this.#lastInput = now;
    const { quiet, withoutInput, total } = this.#limits;
    return now - this.#lastActivity >= quiet || now - this.#lastInput >= withoutInput || now - this.#since >= total;
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
