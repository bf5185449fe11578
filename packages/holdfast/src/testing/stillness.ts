// How long a process has been still, for an engine that must tell waiting from working.
// Owns: what this process had open before anything of the test ran, and when it was last seen to do something.
// Invariants: no guess is final: whatever is seen to be under way begins the quiet time anew.

import { isMainThread } from "node:worker_threads";

/** Under way besides the engine: nothing; a timer, a server that listens, or a thread that computes; a socket, a file, a process. */
type Stir = "nothing" | "something" | "input or output";

/** Real milliseconds. Each is within the five seconds that test runners give a test, if it can be. */
export interface Patience {
  /** With nothing under way. */
  readonly still: number;
  /** With no socket, file or process at work: a timer may be the test runner's own. */
  readonly stirring: number;
  /** In all: a socket may stay open without anything coming of it. */
  readonly inAll: number;
}

/** Share of a processor that means work: hashing or compressing in a thread of Node's pool shows in no list of resources. */
const WORKING = 0.3;
/** Milliseconds over which it is measured. */
const WINDOW = 25;

/** Resources that may stay for as long as the test does. */
const PASSIVE: ReadonlySet<string> = new Set(["Timeout", "TCPServerWrap", "PipeServerWrap"]);

/** What else this process does. */
export class Surroundings {
  readonly #before: ReadonlyMap<string, number>;
  #measured = { at: performance.now(), processor: processorTime() };
  #isWorking = false;

  constructor() {
    void [process.stdout, process.stderr]; // opened when first asked for: not by the first line that the engine logs
    this.#before = activeResources();
  }
  /** Timers that there were before. They end as they like, and others come in their place: a count can't tell which. */
  get timersBefore(): number {
    return this.#before.get("Timeout") ?? 0;
  }
  /** `timers`: how many of them mean nothing. */
  stir(timers: number): Stir {
    let found: Stir = this.#works() ? "something" : "nothing";
    for (const [kind, count] of activeResources()) {
      if (count <= (kind === "Timeout" ? timers : (this.#before.get(kind) ?? 0))) continue;
      if (!PASSIVE.has(kind)) return "input or output";
      found = "something";
    }
    return found;
  }
  /** In a thread of a test runner, what others of this process do can't be told apart. */
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

/** Has this process been still for long enough? */
export class Stillness {
  readonly #patience: Patience;
  #since: number | undefined;
  #sinceStill = 0;
  #sinceOwn = 0;

  constructor(patience: Patience) {
    this.#patience = patience;
  }
  /** Something happened. */
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

/** What keeps this process alive, by kind. */
function activeResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) if (kind !== "Immediate") counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}
function processorTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
