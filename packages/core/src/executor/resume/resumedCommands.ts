// Commands that a resumed run emits where it failed before. History doesn't have them there; they belong to the turn of the resume.
// Owns: these commands, and which units may emit them.
// Invariants: D10 (only units that waited for the voided operations may act differently), Y1 (replay matches them with the turn of the
// resume), X2 (no number is used twice).

import type { Command, OpeningCommand, ReplayTurn, Voided } from "../../protocol/index.ts";
import { isWithin } from "../../protocol/location.ts";
import { difference, isOpening, type Same } from "../comparison.ts";
import type { Execution } from "../execution.ts";

export class ResumedCommands {
  readonly #execution: Execution;
  readonly #turns: readonly ReplayTurn[];
  readonly #same: Same;
  #commands: Command[] = [];
  /** The later turns in history that contain a resume, up to the first one that was not voided. */
  #resumes: readonly ReplayTurn[] = [];
  /** The turn of the resume is not in history yet: it is the next live turn. */
  isLive = false;
  /** A turn whose failure was voided has published state. */
  published = false;

  constructor(execution: Execution, turns: readonly ReplayTurn[], same: Same) {
    this.#execution = execution;
    this.#turns = turns;
    this.#same = same;
  }

  beginTurn(index: number, voided: Voided): void {
    const rest = this.#turns.slice(index + 1);
    const end = rest.findIndex((turn) => turn.voided === undefined);
    this.isLive = end < 0;
    this.#resumes = (end < 0 ? rest : rest.slice(0, end + 1)).filter((turn) => turn.jobs.some((job) => job.type === "resume"));
    for (const turn of [this.#turns[index], ...(end < 0 ? rest : rest.slice(0, end))]) {
      for (const command of turn?.commands ?? []) if ("seq" in command) this.#execution.numbers.saw(command.seq);
    }
    if (voided.free) this.#execution.attempt = voided.attempt;
  }
  get size(): number {
    return this.#commands.length;
  }
  takeAll(): Command[] {
    const commands = this.#commands;
    this.#commands = [];
    return commands;
  }

  add(actual: Command): Command {
    const fresh = "seq" in actual && actual.seq === 0 ? { ...actual, seq: this.#execution.numbers.next() } : actual;
    const command = this.recordOf(actual) ?? fresh;
    this.#commands.push(command);
    return command;
  }
  /** The record of this command in the turn of a resume. */
  recordOf(actual: Command): Command | undefined {
    return this.#records().find((one) => difference(actual, one, this.#same) === undefined);
  }
  /** The next operation of a unit in the turns of resumes. */
  nextOf(unit: string): OpeningCommand | undefined {
    return this.#records().find((one): one is OpeningCommand => isOpening(one) && one.unit === unit);
  }
  #records(): Command[] {
    return this.#resumes.flatMap((turn) => turn.commands.filter((command) => !this.#commands.includes(command)));
  }
  /** Removes and returns the commands that this turn of a resume has recorded; the others stay for a later resume. */
  takeRecorded(turn: ReplayTurn): Command[] {
    const recorded = this.#commands.filter((command) => turn.commands.includes(command));
    this.#commands = this.#commands.filter((command) => !recorded.includes(command));
    return recorded;
  }

  allows(command: Command, voided: Voided): boolean {
    if (isOpening(command) || "unit" in command) return this.reaches(command.unit, voided);
    if (!("seq" in command)) return true; // the end of the run
    return this.reaches(this.#execution.operations.get(command.seq)?.unit.path ?? "", voided);
  }
  /** Whether a unit may act differently than before: it, or a unit above or beneath it, waits for a voided operation. */
  reaches(unit: string, voided: Voided): boolean {
    if (voided.free || unit === "") return true;
    for (const turn of this.#turns) {
      for (const command of turn.commands) {
        if (
          !isOpening(command) ||
          !(voided.seqs.includes(command.seq) || (command.type === "childResult" && voided.seqs.includes(command.child)))
        )
          continue;
        if (command.unit === "" || isWithin(command.unit, unit) || isWithin(unit, command.unit)) return true;
      }
    }
    return false;
  }
}
