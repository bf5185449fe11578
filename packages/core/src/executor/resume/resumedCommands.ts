// What a resumed run does where it failed before: commands that history has not, on their way to the turn of the resume.
// Owns: these commands, and which units may emit them.
// Invariants: D10 (only what waited for the voided operations may go another way), Y1 (replayed from the turn of the resume),
// X2 (no number is given out twice).

import type { Command, OpeningCommand, ReplayTurn, Voided } from "../../protocol/index.ts";
import { isWithin } from "../../protocol/location.ts";
import type { Execution } from "../execution.ts";
import { difference, isOpening, type Same } from "../replay/comparison.ts";

export class ResumedCommands {
  readonly #execution: Execution;
  readonly #turns: readonly ReplayTurn[];
  readonly #same: Same;
  #commands: Command[] = [];
  /** Turns of resumes that are still to come in history, up to the one after which nothing was voided. */
  #resumes: readonly ReplayTurn[] = [];
  /** Is the turn of the resume not in history: the one to come? */
  isLive = false;
  /** State was published in a turn whose failure was voided. */
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
      for (const command of turn?.commands ?? []) if ("seq" in command) this.#execution.sawSeq(command.seq);
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
    const fresh = "seq" in actual && actual.seq === 0 ? { ...actual, seq: this.#execution.freshSeq() } : actual;
    const command = this.recordOf(actual) ?? fresh;
    this.#commands.push(command);
    return command;
  }
  /** The record that the turn of a resume has of this command. */
  recordOf(actual: Command): Command | undefined {
    return this.#records().find((one) => difference(actual, one, this.#same) === undefined);
  }
  /** The next operation that the turns of resumes have for a unit. */
  nextOf(unit: string): OpeningCommand | undefined {
    return this.#records().find((one): one is OpeningCommand => isOpening(one) && one.unit === unit);
  }
  #records(): Command[] {
    return this.#resumes.flatMap((turn) => turn.commands.filter((command) => !this.#commands.includes(command)));
  }
  /** Those that this turn of a resume has, though it was voided by the next; the others are carried on. */
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
  /** May a unit do something else than before: does it, one above it or one beneath it wait for what was voided? */
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
