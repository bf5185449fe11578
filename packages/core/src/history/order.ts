// Checks the order of a history's turns, before code runs: turns and records that were repeated or moved are rejected.
// Owns: the numbers of the turns and operations seen so far.
// Invariants: Y3 (a record is consumed once; a resolution belongs to an operation that was opened before it), Y5 (a value that is not a
// history is an InvalidInputError that names the place). A second resolution of an operation, and one after the end of the run, are
// accepted: they change nothing, and hosts may have recorded them.

import type { Command, Job, Turn } from "../protocol/index.ts";
import { malformed } from "./checkHistory.ts";

/** The commands after which no other may follow. `fail` is not among them, because a failed run may be resumed. */
const FINAL: ReadonlySet<string> = new Set(["complete", "canceled", "continueAsNew"]);

export function checkOrder(turns: readonly Turn[]): void {
  const order = new Order();
  for (const [i, turn] of turns.entries()) order.add(turn, `turns[${i}]`);
}

class Order {
  #index = -1;
  #hasStarted = false;
  #hasEnded = false;
  readonly #opened = new Set<number>();
  /** The highest number of an operation so far. Operations below it may be missing, because trimming removed their records. */
  #highest = 0;

  add(turn: Turn, path: string): void {
    if (turn.index <= this.#index) {
      throw malformed(`Turn ${turn.index} comes after turn ${this.#index}: it was repeated or moved.`, `${path}.index`);
    }
    this.#index = turn.index;
    for (const [i, job] of turn.jobs.entries()) this.#job(job, `${path}.jobs[${i}]`);
    for (const [i, command] of turn.commands.entries()) this.#command(command, `${path}.commands[${i}]`);
  }

  #job(job: Job, path: string): void {
    if (job.type === "start") {
      if (this.#hasStarted) throw malformed("The run is started a second time.", path);
      this.#hasStarted = true;
    } else if (!this.#hasStarted) throw malformed("The first job of a history is the start of the run.", path);
    const answers = job.type === "resolve" || job.type === "fire" || job.type === "childStarted";
    if (answers && job.seq > this.#highest) {
      throw malformed(`The job "${job.type}" is for operation ${job.seq}, which was not opened before.`, `${path}.seq`);
    }
  }

  #command(command: Command, path: string): void {
    if (this.#hasEnded) throw malformed("The command comes after the end of the run.", path);
    if (FINAL.has(command.type)) this.#hasEnded = true;
    if (command.type === "commit") this.#highest = Math.max(this.#highest, command.lastSeq);
    if (!("n" in command)) return;
    // A `reuse` carries the number of the earlier operation whose outcome it uses.
    if (command.type !== "reuse" && this.#opened.has(command.seq)) {
      throw malformed(`Operation ${command.seq} is opened a second time.`, `${path}.seq`);
    }
    this.#opened.add(command.seq);
    this.#highest = Math.max(this.#highest, command.seq);
  }
}
