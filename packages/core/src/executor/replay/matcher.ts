// Replay: matches every command that the code emits with the one that history recorded.
// Owns: the position in the recorded turns.
// Invariants: Y2 (the operations of a unit match its own records in order), Y3 (a record is consumed once), Y6 (all commands match in the
// order and the turn of recording), V1 (patches), D10 (outcomes after a voided failure are kept for reuse), L3 R11 (commits).

import { preview } from "../../base/text.ts";
import { reviveRecorded } from "../../errors/index.ts";
import type { AnyWorkflow } from "../../model/index.ts";
import type { ReplayTurn, Voided } from "../../protocol/index.ts";
import { type Command, type Job, kindOf, type OpeningCommand, type OperationKind, type Payload } from "../../protocol/index.ts";
import { predecessor, segment, sharedLength } from "../../protocol/location.ts";
import { changedOption, difference, isOpening, type Same } from "../comparison.ts";
import type { Execution } from "../execution.ts";
import { ResumedCommands } from "../resume/resumedCommands.ts";
import { ReusableOutcomes } from "../resume/reusableOutcomes.ts";
import type { Unit } from "../unit.ts";
import { Divergence } from "./divergence.ts";
import { RemovedOperations } from "./removedOperations.ts";

/** A patch marker that the code may have removed altogether (V1). */
function isDeprecated(command: Command | undefined): boolean {
  return command?.type === "patch" && command.deprecated === true;
}

/** Workflows for which a changed option was already logged (Y2). */
const saidOf = new WeakSet<AnyWorkflow>();
/**
 * What to log if the option `field` of the operation at `location` is another one in the `code` than was `recorded`; undefined if one was
 * logged for the workflow before (Y2).
 */
export function changedOptionText(
  workflow: AnyWorkflow,
  {
    location,
    field,
    recorded,
    code,
  }: { readonly location: string; readonly field: string; readonly recorded: unknown; readonly code: unknown },
): string | undefined {
  if (saidOf.has(workflow)) return undefined;
  saidOf.add(workflow);
  const [before, now] = [preview(recorded), preview(code)];
  return `The ${field} of ${location} is ${before} in history and ${now} in the code. Operations keep the options that were recorded with them; new ones get those of the code. (Logged once per workflow; replay with { strict: true } reports every such difference.)`;
}
function fieldOf(command: Command, field: string): unknown {
  return (command as unknown as Record<string, unknown>)[field];
}

export class Matcher {
  readonly #execution: Execution;
  readonly #turns: readonly ReplayTurn[];
  readonly #same: Same;
  #turn = 0;
  #expected: readonly Command[] = [];
  #cursor = 0;
  /** Records of this turn after the cursor that are already matched. */
  #ahead: Set<Command> | undefined;
  #firstOutOfOrder: { expected: Command; actual: Command } | undefined;
  /** Commands that the code emits now where it failed before (D10). */
  readonly #resumed: ResumedCommands;
  /** Operations that were removed from the code (V3). */
  readonly #removed: RemovedOperations;
  readonly #divergence: Divergence;

  constructor(execution: Execution, turns: readonly ReplayTurn[], same: Same) {
    this.#execution = execution;
    this.#turns = turns;
    this.#same = same;
    this.#resumed = new ResumedCommands(execution, turns, same);
    this.#removed = new RemovedOperations(execution, turns);
    this.#divergence = new Divergence(execution, turns, same);
  }

  /** The voided failure of this turn, if there is one. */
  get voided(): Voided | undefined {
    return this.#turns[this.#turn]?.voided;
  }

  beginTurn(index: number): void {
    this.#turn = index;
    this.#expected = this.#turns[index]?.commands ?? [];
    this.#cursor = 0;
    this.#ahead = undefined;
    this.#firstOutOfOrder = undefined;
    this.#removed.beginTurn(index);
    this.#divergence.beginTurn(index);
    this.#execution.mailbox.beginReplayTurn();
    const turn = this.#turns[index];
    if (turn?.voided !== undefined) {
      this.#ahead = new Set(this.#resumed.takeRecorded(turn));
      this.#resumed.beginTurn(index, turn.voided);
    } else for (const command of this.takeCarried()) this.match(command);
    // If this turn freed the run from removed operations, it begins with their cancellations; units continue in its first round (V3).
    for (;;) {
      const next = this.#expected[this.#cursor];
      if (next === undefined || !this.#removed.isGivenUp(next)) return;
      this.#cursor++;
      this.#removed.pass(next);
    }
  }
  /** The commands that a resumed run has already emitted (D10). */
  takeCarried(): Command[] {
    return this.#resumed.takeAll();
  }
  /** The state that a resumed run has already published (D10). */
  get publishedState(): Payload | undefined {
    return this.#resumed.published ? this.#execution.state : undefined;
  }

  // ── matching ──

  match(actual: Command): Command {
    const record = this.#recordOf(actual);
    if (record !== actual) this.#compareOptions(actual, record);
    return record;
  }
  /** Recorded options stay in force (Y2). A strict replay reports a changed option as divergence; others log it once per workflow. */
  #compareOptions(actual: Command, record: Command): void {
    const execution = this.#execution;
    if (!execution.options.strictReplay && saidOf.has(execution.workflow)) return;
    const field = changedOption(actual, record, this.#same);
    if (field === undefined) return;
    if (execution.options.strictReplay) return this.#divergence.reportOption(record, actual, field);
    const change = { location: this.#divergence.locate(record), field, recorded: fieldOf(record, field), code: fieldOf(actual, field) };
    const text = changedOptionText(execution.workflow, change);
    if (text !== undefined) execution.say("info", text, undefined, change);
  }
  #recordOf(actual: Command): Command {
    for (;;) {
      this.#skip();
      const expected = this.#expected[this.#cursor];
      if (expected !== undefined && difference(actual, expected, this.#same) === undefined) {
        this.#cursor++;
        return expected;
      }
      if (expected === undefined || !isDeprecated(expected)) return this.#outOfOrder(actual, expected);
      this.#cursor++;
    }
  }

  #outOfOrder(actual: Command, expected: Command | undefined): Command {
    const later = this.#findLater(actual);
    if (this.voided !== undefined) return this.#matchInVoid(actual, later, this.voided);
    const own = isOpening(actual) ? this.#nextOf(actual.unit) : undefined;
    if (later !== undefined && expected !== undefined && (own === undefined || own === later)) {
      // The unit's own order is right, the overall order is not. The end of the turn shows whether another unit is late or has stopped.
      this.#firstOutOfOrder ??= { expected, actual };
      this.#ahead ??= new Set();
      this.#ahead.add(later);
      return later;
    }
    return this.#diverge(own ?? this.#missing(actual, expected) ?? (this.#isExtra(actual, expected) ? undefined : expected), actual);
  }
  /** The recorded operation that the code probably left out, derived from the command that it emitted too early. */
  #missing(actual: Command, expected: Command | undefined): OpeningCommand | undefined {
    if (actual.type === "dispatch" && expected?.type === "dispatch") return undefined;
    if (!isOpening(actual)) return this.#nearest(this.#scopeOf(actual));
    if (this.#divergence.recordedLater(actual) !== undefined) return this.#nearest(actual.unit, 0);
    // History does not know this unit: it was started because its predecessor ended too early.
    const before = this.#isKnown(actual.unit) ? undefined : predecessor(actual.unit);
    return before === undefined ? undefined : this.#nearest(before);
  }
  /** The unmatched operation of this turn that is nearest to a path: within it, or with a common prefix of at least `atLeast`. */
  #nearest(path: string, atLeast = path === "" ? 0 : path.length + 1): OpeningCommand | undefined {
    let nearest: OpeningCommand | undefined;
    let shared = atLeast - 1;
    for (let i = this.#cursor; i < this.#expected.length; i++) {
      const candidate = this.#expected[i] as Command;
      if (!isOpening(candidate) || this.#ahead?.has(candidate) === true || this.#removed.has(candidate)) continue;
      const common = sharedLength(`${candidate.unit}/`, `${path}/`);
      if (common <= shared) continue;
      nearest = candidate;
      shared = common;
    }
    return nearest;
  }
  #isKnown(unit: string): boolean {
    return this.#turns.some((turn) => turn.commands.some((command) => isOpening(command) && command.unit === unit));
  }
  /** The location of the scope that must have ended before this command is emitted. */
  #scopeOf(command: Command): string {
    if (command.type === "winner") return `${this.#divergence.locate(command)}/${segment(command.key)}`;
    return "seq" in command ? this.#divergence.locate({ type: "cancel", seq: command.seq }) : "";
  }
  /** Whether the code opened an operation that history has nowhere, in a unit without records in this turn. */
  #isExtra(actual: Command, expected: Command | undefined): boolean {
    return isOpening(actual) && expected !== undefined && isOpening(expected);
  }
  #findLater(actual: Command): Command | undefined {
    for (let i = this.#cursor; i < this.#expected.length; i++) {
      const candidate = this.#expected[i] as Command;
      if (this.#ahead?.has(candidate) === true || this.#removed.has(candidate)) continue;
      if (difference(actual, candidate, this.#same) === undefined) return candidate;
    }
    return undefined;
  }
  /** The next unmatched operation of a unit in this turn. */
  #nextOf(unit: string): OpeningCommand | undefined {
    for (let i = this.#cursor; i < this.#expected.length; i++) {
      const candidate = this.#expected[i] as Command;
      if (isOpening(candidate) && candidate.unit === unit && this.#ahead?.has(candidate) !== true && !this.#removed.has(candidate))
        return candidate;
    }
    return undefined;
  }
  #matchInVoid(actual: Command, later: Command | undefined, voided: Voided): Command {
    if (later !== undefined) {
      while (this.#expected[this.#cursor] !== later) this.#keep(this.#expected[this.#cursor++] as Command);
      this.#cursor++;
      return later;
    }
    return this.#resumed.allows(actual, voided) ? this.#resumed.add(actual) : this.#diverge(this.#expected[this.#cursor], actual);
  }
  /** Whether this turn, whose failure was voided, already has the operation (D10). */
  isInVoid(command: OpeningCommand): boolean {
    return this.voided !== undefined && this.#findLater(command) !== undefined;
  }
  /** Whether the operation is new: it runs for the first time, where the workflow failed before (D10). */
  isNew(command: OpeningCommand): boolean {
    return this.voided !== undefined && !this.isInVoid(command) && this.#resumed.isLive && this.#resumed.recordOf(command) === undefined;
  }
  #keep(command: Command): void {
    if (this.#ahead?.delete(command) === true) return;
    this.#execution.reusableOutcomes ??= new ReusableOutcomes(this.#same);
    this.#execution.reusableOutcomes.keep(command);
  }

  /** At the end of a turn every record must have been matched. */
  endTurn(): void {
    for (this.#skip(); isDeprecated(this.#expected[this.#cursor]); this.#skip()) this.#cursor++;
    const left = this.#expected[this.#cursor];
    if (this.voided !== undefined) {
      if (this.#execution.turnState !== undefined) this.#resumed.published = true;
      for (; this.#cursor < this.#expected.length; this.#cursor++) this.#keep(this.#expected[this.#cursor] as Command);
    } else if (left !== undefined) this.#divergence.report(left, undefined);
    else if (this.#firstOutOfOrder !== undefined) {
      this.#divergence.reportOrder(this.#firstOutOfOrder.expected, this.#firstOutOfOrder.actual);
    }
  }

  /** The error of a call that was refused when history was recorded (Y4). Without `n`: the next occurrence. */
  refusal(unit: string, name: string, n: number | undefined, kind: string): Error | undefined {
    const expected = this.#next();
    if (expected?.type !== "refuse" || expected.unit !== unit || expected.name !== name || expected.kind !== kind) return undefined;
    return n === undefined || expected.n === n ? reviveRecorded(expected.error) : undefined;
  }
  /** The error of a reply or output that exceeded its limit when history was recorded; the limits may have changed since (P9, Y4). */
  overLimit(type: "completeUpdate" | "fail", id?: string): Error | undefined {
    const expected = this.#next();
    if (expected?.type !== type || expected.error?.name !== "LimitExceededError") return undefined;
    return expected.type === "fail" || expected.id === id ? reviveRecorded(expected.error) : undefined;
  }
  #next(): Command | undefined {
    this.#skip();
    return this.#expected[this.#cursor];
  }

  #diverge(expected: Command | undefined, actual: Command): Command {
    this.#divergence.report(expected, actual);
    return actual;
  }

  // ── commits (L3, R11) ──

  /** Called when no unit is runnable. True if the next records of history let a unit continue without a job. */
  catchUp(): boolean {
    const { waiting } = this.#removed;
    this.#skip();
    return this.#restoreCommit() || this.#removed.waiting < waiting;
  }
  /** Restores the commit that is next in history, if its scope waits for it. */
  #restoreCommit(): boolean {
    const commit = this.#expected[this.#cursor];
    if (commit?.type !== "commit") return false;
    const execution = this.#execution;
    const operation = execution.operations.get(commit.seq);
    if (operation === undefined || !operation.committed) return false;
    operation.committed = false;
    this.#cursor++;
    execution.numbers.saw(commit.lastSeq);
    execution.mailbox.restore(commit.messages ?? []);
    execution.state = commit.state;
    execution.saga.keep(commit.rollbacks ?? []);
    operation.behaviour.restore?.(operation, commit);
    return true;
  }

  // ── patches (V1) and removals (V3) ──

  hasPatch(unit: Unit, id: string): boolean {
    let next = this.#upcoming(unit);
    if (next === undefined && this.voided !== undefined && this.#resumed.reaches(unit.path, this.voided)) {
      next = this.#resumed.nextOf(unit.path);
      if (next === undefined && this.#resumed.isLive) return true;
    }
    // No record follows a removed operation that never settles: the unit is past its last record.
    if (next === undefined) return this.#removed.frees(unit);
    return next.type === "patch" && next.name === id;
  }
  /** For a unit with outstanding removed operations: whether the next record of history belongs to it (V3). */
  isDue(unit: Unit): boolean {
    this.#skip();
    const expected = this.#expected[this.#cursor];
    return expected !== undefined && isOpening(expected) && expected.unit === unit.path;
  }
  /** The next record of the unit that has the turn: the one at the cursor, or after removals a later one. */
  #upcoming(unit: Unit): OpeningCommand | undefined {
    this.#skip();
    if (unit.postponed === undefined) {
      const expected = this.#expected[this.#cursor];
      return expected !== undefined && isOpening(expected) && expected.unit === unit.path ? expected : this.#nextOf(unit.path);
    }
    let before = unit.postponed.length;
    for (let turn = this.#turn; turn < this.#turns.length; turn++) {
      const commands = turn === this.#turn ? this.#expected.slice(this.#cursor) : (this.#turns[turn]?.commands ?? []);
      for (const command of commands) {
        if (isOpening(command) && command.unit === unit.path && !this.#removed.has(command) && before-- === 0) return command;
      }
    }
    return undefined;
  }

  remove(unit: Unit, name: string, kind: OperationKind): void {
    const record = this.#upcoming(unit);
    if (record === undefined || record.name !== name || kindOf(record) !== kind) return;
    this.#removed.add(unit, record, this.#expected[this.#expected.indexOf(record) + 1]);
    this.#skip();
  }
  /** Skips records of removed operations and records that are already matched. */
  #skip(): void {
    for (;;) {
      const command = this.#expected[this.#cursor];
      if (command === undefined) return;
      if (this.#ahead?.delete(command) === true) this.#cursor++;
      else if (this.#removed.has(command)) {
        this.#cursor++;
        this.#removed.pass(command);
      } else return;
    }
  }
  /** A job for an operation that the executor does not know. True if it belongs to a removed operation. */
  passJob(job: Job): boolean {
    return this.#removed.passJob(job);
  }
  /** Called when replay is over. */
  finish(): void {
    this.#removed.finish();
  }
  /** Whether a replayed run has something to do without a job. */
  get hasWork(): boolean {
    return this.#removed.pending || this.#resumed.size > 0;
  }
}
