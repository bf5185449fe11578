// The watchdog: reports a turn that does not return. It is a separate thread, because the thread that runs the turn is blocked.
// Owns: one thread and one shared buffer per process.
// Invariants: X9 (a turn that never returns is reported once, with its workflow, run and unit); each step of a unit costs two memory
// writes.

import { Worker } from "node:worker_threads";
import type { RunningTurn, TurnWatch } from "@holdfast/core";

// The buffer: four numbers, then the text.
const STEP = 0; // Changes whenever a step of a unit begins or ends.
const DEPTH = 1; // Turns in progress.
const LIMIT = 2; // Milliseconds after which the latest turn is reported.
const LENGTH = 3; // Bytes of text: workflow, run and unit, one line each.
const TEXT_AT = 16;
const TEXT_BYTES = 2_000;

/** How late a timer may fire on a busy machine, in milliseconds. */
const LATE = 50;

/** Plain JavaScript in a string, so that it needs no separate file, whether this package is built, bundled or run from source. */
const THREAD = `
const { writeSync } = require("node:fs");
const { workerData } = require("node:worker_threads");
const numbers = new Int32Array(workerData, 0, 4);
const text = new Uint8Array(workerData, ${TEXT_AT});
let step = -1;
let since = 0;
let told = false;
let looked = performance.now();
let pause = 0;
function look() {
  const latest = Atomics.load(numbers, ${STEP});
  const limit = numbers[${LIMIT}];
  const now = performance.now();
  // This thread did not run for so long either: the process was suspended, or got no CPU time.
  since += Math.max(0, now - looked - pause - ${LATE});
  looked = now;
  if (latest !== step || Atomics.load(numbers, ${DEPTH}) === 0) {
    step = latest;
    since = now;
    told = false;
  } else if (!told && now - since >= limit) {
    told = true;
    const [workflow, run, unit] = Buffer.from(text.slice(0, numbers[${LENGTH}])).toString().split("\\n");
    const seconds = ((now - since) / 1000).toFixed(1);
    const line = '[holdfast] Workflow "' + workflow + '" (run ' + run + ", unit " + unit + ") has blocked the thread for " + seconds +
      " s and has not returned: is there an endless loop in workflow code? Nothing else in process " + process.pid + " can run meanwhile.\\n";
    try {
      writeSync(2, line);
    } catch {}
  }
  pause = Math.min(1000, Math.max(10, limit / 10));
  setTimeout(look, pause);
}
look();
`;

interface Buffers {
  readonly numbers: Int32Array;
  readonly text: Buffer;
}

let buffers: Buffers | undefined;

/** Starts the thread, unless it runs already. It does not keep the process alive. If threads are not allowed, nothing is reported. */
function started(limit: number): Buffers {
  if (buffers !== undefined) return buffers;
  const shared = new SharedArrayBuffer(TEXT_AT + TEXT_BYTES);
  buffers = { numbers: new Int32Array(shared, 0, 4), text: Buffer.from(shared, TEXT_AT) };
  buffers.numbers[LIMIT] = limit;
  try {
    const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, codeRangeSizeMb: 16, stackSizeMb: 1 };
    const thread = new Worker(THREAD, { eval: true, workerData: shared, execArgv: [], env: {}, resourceLimits, name: "holdfast-watchdog" });
    thread.on("error", () => {});
    thread.unref();
  } catch {
    // Threads are not allowed here (--permission): turns that return are still timed.
  }
  return buffers;
}

/** Reports turns that take longer than `limit` milliseconds, on stderr. */
export class Watchdog implements TurnWatch {
  readonly #limit: number;
  readonly #numbers: Int32Array;
  readonly #text: Buffer;

  constructor(limit: number) {
    this.#limit = Math.ceil(Math.min(limit, 2 ** 31 - 1));
    ({ numbers: this.#numbers, text: this.#text } = started(this.#limit));
  }
  /** User code of this run is about to run: from now on it is timed. */
  enter(turn: RunningTurn): void {
    const unit = turn.closure ?? turn.current?.title ?? "root";
    if (turn.runId !== written.run || unit !== written.unit || turn.workflow.name !== written.workflow) this.#write(turn, unit);
    this.#numbers[LIMIT] = this.#limit;
    this.#mark(1);
  }
  /** It has returned. */
  leave(_turn: RunningTurn): void {
    this.#mark(-1);
  }
  #mark(change: 1 | -1): void {
    depth += change;
    step = (step + 1) | 0;
    Atomics.store(this.#numbers, DEPTH, depth);
    Atomics.store(this.#numbers, STEP, step);
  }
  /** Only when it changes: writing text costs more than everything else here. */
  #write(turn: RunningTurn, unit: string): void {
    const { runId: run } = turn;
    const { name: workflow } = turn.workflow;
    this.#numbers[LENGTH] = this.#text.write(`${workflow.slice(0, 200)}\n${run.slice(0, 200)}\n${unit.slice(0, 200)}`);
    written = { workflow, run, unit };
  }
}

let depth = 0;
let step = 0;
/** The current content of the buffer. */
let written = { workflow: "", run: "", unit: "" };
