// Strict replay: every command that code emits is held against the one that history recorded.
// Owns: the position in the recorded turns, and what was skipped because code no longer makes it.
// Invariants: Y2 (a unit's operations in order against its own records), Y3 (a record is consumed once), Y6 (all of them in the
// order and the turn of recording), V3 (removed operations), D10 (what a voided failure left behind), L3 R11 (commits).

import { NondeterminismError, ReceiveClosedError, reviveError, serializeError } from "../errors/index.ts";
import type { ReplayTurn, Voided } from "../history/index.ts";
import type { OperationKind } from "../model/index.ts";
import type { Command, CommitCommand, Job, OpeningCommand, Payload } from "../protocol/index.ts";
import { Carry } from "./carry.ts";
import { describeCommand, difference, isOpening, type Same } from "./comparison.ts";
import type { Execution } from "./execution.ts";
import { formatLocation, isWithin, predecessor, segment, sharedLength } from "./location.ts";
import { Salvage } from "./salvage.ts";
import type { Unit } from "./unit.ts";

const UNPAUSING: ReadonlySet<string> = new Set(["patch", "attributes", "rollbackCheckpoint", "refuse"]);
/** Does it settle by being recorded? */
function isUnpausing(record: OpeningCommand): boolean {
  if (record.type === "sideEffect") return record.value !== undefined || record.error !== undefined;
  return UNPAUSING.has(record.type);
}

/** V1: a marker that code may have done with altogether. */
function isDeprecated(command: Command | undefined): boolean {
  return command?.type === "patch" && command.deprecated === true;
}

export class Matcher {
  readonly #execution: Execution;
  readonly #turns: readonly ReplayTurn[];
  readonly #same: Same;
  #turn = 0;
  #expected: readonly Command[] = [];
  #cursor = 0;
  /** Records of this turn that were matched ahead of the cursor. */
  #ahead: Set<Command> | undefined;
  #firstOutOfOrder: { expected: Command; actual: Command } | undefined;
  /** What code emits now where it failed before (D10). */
  readonly #carry: Carry;
  // V3
  readonly #removedPaths: string[] = [];
  /** Removed operations, and all beneath them, that have not settled yet. */
  readonly #removed = new Map<number, OpeningCommand>();
  /** The unit that goes on when the removed operation settles. */
  readonly #waiting = new Map<number, Unit>();
  /** Updates that a removed receive has accepted and not answered. */
  readonly #updates = new Map<string, { readonly seq: number; readonly name: string }>();

  constructor(execution: Execution, turns: readonly ReplayTurn[], same: Same) {
    this.#execution = execution;
    this.#turns = turns;
    this.#same = same;
    this.#carry = new Carry(execution, turns, same);
  }

  /** Of this turn, if a failure in it was voided. */
  get voided(): Voided | undefined {
    return this.#turns[this.#turn]?.voided;
  }

  beginTurn(index: number): void {
    this.#turn = index;
    this.#expected = this.#turns[index]?.commands ?? [];
    this.#cursor = 0;
    this.#ahead = undefined;
    this.#firstOutOfOrder = undefined;
    this.#execution.mailbox.beginReplayTurn();
    const turn = this.#turns[index];
    if (turn?.voided !== undefined) {
      this.#ahead = new Set(this.#carry.takeRecorded(turn));
      this.#carry.beginTurn(index, turn.voided);
    } else for (const command of this.takeCarried()) this.match(command);
    // What a freed run gave up is the first thing of its turn, and its units go on from the first round (V3).
    for (let next = this.#expected[this.#cursor]; next !== undefined && this.#isGivenUp(next); next = this.#expected[this.#cursor]) {
      this.#cursor++;
      this.#passRemoved(next);
    }
  }
  /** What a resumed run has emitted already (D10). */
  takeCarried(): Command[] {
    return this.#carry.takeAll();
  }
  /** State that it has published already (D10). */
  get publishedState(): Payload | undefined {
    return this.#carry.published ? this.#execution.state : undefined;
  }

  // ── matching ──

  match(actual: Command): Command {
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
      // The unit is right, the order is not; whether another unit is late or silent shows at the end of the turn.
      this.#firstOutOfOrder ??= { expected, actual };
      this.#ahead ??= new Set();
      this.#ahead.add(later);
      return later;
    }
    return this.#diverge(own ?? this.#missing(actual, expected) ?? (this.#isExtra(actual, expected) ? undefined : expected), actual);
  }
  /** The operation that this turn has and code has left out, to judge by what code does too early. */
  #missing(actual: Command, expected: Command | undefined): OpeningCommand | undefined {
    if (actual.type === "dispatch" && expected?.type === "dispatch") return undefined;
    if (!isOpening(actual)) return this.#nearest(this.#scopeOf(actual));
    if (this.#recordedLater(actual) !== undefined) return this.#nearest(actual.unit, 0);
    // A unit that history does not know at all was begun because the one before it ended too early.
    const before = this.#isKnown(actual.unit) ? undefined : predecessor(actual.unit);
    return before === undefined ? undefined : this.#nearest(before);
  }
  /** The unmatched operation of this turn that is nearest to a path: within it, or sharing at least so much of it. */
  #nearest(path: string, atLeast = path === "" ? 0 : path.length + 1): OpeningCommand | undefined {
    let nearest: OpeningCommand | undefined;
    let shared = atLeast - 1;
    for (let i = this.#cursor; i < this.#expected.length; i++) {
      const candidate = this.#expected[i] as Command;
      if (!isOpening(candidate) || this.#ahead?.has(candidate) === true || this.#isRemoved(candidate)) continue;
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
  /** What must have ended for this command to be emitted. */
  #scopeOf(command: Command): string {
    if (command.type === "winner") return `${this.locate(command)}/${segment(command.key)}`;
    return "seq" in command ? this.locate({ type: "cancel", seq: command.seq }) : "";
  }
  /** Does code do what history has nowhere, in a unit of which this turn has nothing? */
  #isExtra(actual: Command, expected: Command | undefined): boolean {
    return isOpening(actual) && expected !== undefined && isOpening(expected);
  }
  #findLater(actual: Command): Command | undefined {
    for (let i = this.#cursor; i < this.#expected.length; i++) {
      const candidate = this.#expected[i] as Command;
      if (this.#ahead?.has(candidate) === true || this.#isRemoved(candidate)) continue;
      if (difference(actual, candidate, this.#same) === undefined) return candidate;
    }
    return undefined;
  }
  /** The next unmatched operation that this turn has for a unit. */
  #nextOf(unit: string): OpeningCommand | undefined {
    for (let i = this.#cursor; i < this.#expected.length; i++) {
      const candidate = this.#expected[i] as Command;
      if (isOpening(candidate) && candidate.unit === unit && this.#ahead?.has(candidate) !== true && !this.#isRemoved(candidate))
        return candidate;
    }
    return undefined;
  }
  #matchInVoid(actual: Command, later: Command | undefined, voided: Voided): Command {
    if (later !== undefined) {
      while (this.#expected[this.#cursor] !== later) this.#salvage(this.#expected[this.#cursor++] as Command);
      this.#cursor++;
      return later;
    }
    return this.#carry.allows(actual, voided) ? this.#carry.add(actual) : this.#diverge(this.#expected[this.#cursor], actual);
  }
  /** D10: has a turn whose failure was voided this operation already? */
  isInVoid(command: OpeningCommand): boolean {
    return this.voided !== undefined && this.#findLater(command) !== undefined;
  }
  /** D10: is this done for the first time, where the workflow failed before? */
  isNew(command: OpeningCommand): boolean {
    return this.voided !== undefined && !this.isInVoid(command) && this.#carry.isLive && this.#carry.recordOf(command) === undefined;
  }
  #salvage(command: Command): void {
    if (this.#ahead?.delete(command) === true) return;
    this.#execution.salvage ??= new Salvage(this.#same);
    this.#execution.salvage.keep(command);
  }

  /** At the end of a turn everything recorded must have been emitted. */
  endTurn(): void {
    for (this.#skip(); isDeprecated(this.#expected[this.#cursor]); this.#skip()) this.#cursor++;
    const left = this.#expected[this.#cursor];
    if (this.voided !== undefined) {
      if (this.#execution.turnState !== undefined) this.#carry.published = true;
      for (; this.#cursor < this.#expected.length; this.#cursor++) this.#salvage(this.#expected[this.#cursor] as Command);
    } else if (left !== undefined) this.#diverge(left, undefined);
    else if (this.#firstOutOfOrder !== undefined) {
      const { expected, actual } = this.#firstOutOfOrder;
      this.#fail(this.locate(expected), "order", describeCommand(expected), describeCommand(actual));
    }
  }

  /** A call that history saw refused (Y4). Without `n`: whichever occurrence comes next. */
  refusal(unit: string, name: string, n: number | undefined, kind: string): Error | undefined {
    const expected = this.#next();
    if (expected?.type !== "refuse" || expected.unit !== unit || expected.name !== name || expected.kind !== kind) return undefined;
    return n === undefined || expected.n === n ? reviveError(expected.error) : undefined;
  }
  /** A reply or output that history saw over its limit; limits may be others by now (P9, Y4). */
  overLimit(type: "completeUpdate" | "fail", id?: string): Error | undefined {
    const expected = this.#next();
    if (expected?.type !== type || expected.error?.name !== "LimitExceededError") return undefined;
    return expected.type === "fail" || expected.id === id ? reviveError(expected.error) : undefined;
  }
  #next(): Command | undefined {
    this.#skip();
    return this.#expected[this.#cursor];
  }

  // ── where they part ──

  #diverge(expected: Command | undefined, actual: Command | undefined): Command {
    const at =
      expected !== undefined && (isOpening(expected) || actual === undefined || !isOpening(actual)) ? expected : (actual as Command);
    const location = this.locate(at);
    if (expected === undefined || actual === undefined) {
      const hint = actual === undefined ? this.#insteadOf(expected as Command) : this.#recordedLater(actual);
      this.#fail(location, "operation", expected && describeCommand(expected), actual && describeCommand(actual), hint);
      return actual as Command;
    }
    const elsewhere = isOpening(expected) && isOpening(actual) && expected.unit !== actual.unit;
    const field = elsewhere ? "operation" : (difference(actual, expected, this.#same) ?? "order");
    if (isOpening(expected) && isOpening(actual) && !["operation", "kind", "name", "unit", "occurrence"].includes(field)) {
      this.#fail(location, field, this.#value(expected, field), this.#value(actual, field));
    } else this.#fail(location, field, describeCommand(expected), describeCommand(actual));
    return actual;
  }
  #value(command: Command, field: string): unknown {
    return this.#same.decode((command as unknown as Record<string, unknown>)[field], field);
  }
  #insteadOf(expected: Command): string | undefined {
    if (!isOpening(expected)) return undefined;
    const unit = expected.unit === "" ? "root" : expected.unit;
    return `The unit ${unit} did something else, or nothing, where history has it.`;
  }
  #recordedLater(actual: Command): string | undefined {
    for (let turn = this.#turn + 1; turn < this.#turns.length; turn++) {
      const found = this.#turns[turn]?.commands.some((command) => difference(actual, command, this.#same) === undefined);
      if (found === true)
        return `History has it ${turn - this.#turn === 1 ? "one turn" : `${turn - this.#turn} turns`} later: an operation before it is missing.`;
    }
    return undefined;
  }
  #fail(location: string, field: string, expected: unknown, actual: unknown, hint?: string): void {
    this.#execution.violate(new NondeterminismError({ location, field, expected, actual, ...(hint !== undefined && { hint }) }));
  }
  /** The location of the operation that a command is about. */
  locate(command: Command): string {
    if (isOpening(command)) return formatLocation(command.unit, command.name, command.n);
    if ("unit" in command) return command.unit;
    if ("seq" in command) {
      for (let turn = Math.min(this.#turn, this.#turns.length - 1); turn >= 0; turn--) {
        const opening = this.#turns[turn]?.commands.find((one) => isOpening(one) && one.seq === command.seq);
        if (opening !== undefined) return this.locate(opening);
      }
    }
    return "root";
  }

  // ── commits (L3, R11) ──

  /** When nothing is runnable: does history have something next that lets a unit go on by itself? */
  catchUp(): boolean {
    const waiting = this.#waiting.size;
    this.#skip();
    return this.#restoreCommit() || this.#waiting.size < waiting;
  }
  /** The commit that history has next, if its scope waits for it. */
  #restoreCommit(): boolean {
    const commit = this.#expected[this.#cursor];
    if (commit?.type !== "commit") return false;
    const execution = this.#execution;
    const operation = execution.operations.get(commit.seq);
    if (operation === undefined || !operation.committed) return false;
    operation.committed = false;
    this.#cursor++;
    execution.sawSeq(commit.lastSeq);
    execution.mailbox.restore((commit as CommitCommand).messages ?? []);
    execution.state = commit.state;
    execution.saga.keep(commit.rollbacks ?? []);
    operation.behaviour.restore?.(operation, commit);
    return true;
  }

  // ── patches (V1) and removals (V3) ──

  hasPatch(unit: Unit, id: string): boolean {
    let next = this.#upcoming(unit);
    if (next === undefined && this.voided !== undefined && this.#carry.reaches(unit.path, this.voided)) {
      next = this.#carry.nextOf(unit.path);
      if (next === undefined && this.#carry.isLive) return true;
    }
    // Nothing comes after a removed operation at which the run still waits: the unit is past its last record.
    if (next === undefined) return this.#isFreed(unit);
    return next.type === "patch" && next.name === id;
  }
  #isFreed(unit: Unit): boolean {
    for (const [seq, waiting] of this.#waiting) if (waiting === unit && !this.#settlesLater(seq)) return true;
    return false;
  }
  #settlesLater(seq: number): boolean {
    return this.#turns.some((turn, i) => {
      if (i < this.#turn) return false;
      const bySettle = turn.commands.some((one) => (one.type === "settle" || one.type === "cancel") && one.seq === seq);
      return bySettle || (i > this.#turn && turn.jobs.some((job) => this.#settles(job, seq)));
    });
  }
  /** V3: a unit has removed operations outstanding; is its next record the one at hand? */
  isDue(unit: Unit): boolean {
    this.#skip();
    const expected = this.#expected[this.#cursor];
    return expected !== undefined && isOpening(expected) && expected.unit === unit.path;
  }
  /** The next record of a unit that has the turn: the one at hand, or after removals one that is still to come. */
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
        if (isOpening(command) && command.unit === unit.path && !this.#isRemoved(command) && before-- === 0) return command;
      }
    }
    return undefined;
  }

  remove(unit: Unit, name: string, kind: OperationKind): void {
    const record = this.#upcoming(unit);
    if (record === undefined || record.name !== name || (record.type === "childResult" ? "child" : record.type) !== kind) return;
    unit.occurrence(name);
    this.#removedPaths.push(formatLocation(record.unit, record.name, record.n));
    this.#removed.set(record.seq, record);
    const next = this.#expected[this.#expected.indexOf(record) + 1];
    const atOnce = next?.type === "settle" && next.seq === record.seq;
    if (!isUnpausing(record) && !atOnce) {
      this.#waiting.set(record.seq, unit);
      unit.closeGate();
    }
    this.#skip();
  }
  /** What `finish` emitted. */
  #isGivenUp(command: Command): boolean {
    const { type } = command;
    return (
      (type === "cancel" || type === "completeUpdate" || (type === "settle" && command.status === "canceled")) && this.#isRemoved(command)
    );
  }
  #isRemoved(command: Command): boolean {
    if (isOpening(command)) return this.#removed.has(command.seq) || this.#removedPaths.some((path) => isWithin(command.unit, path));
    return "seq" in command && this.#removed.has(command.seq);
  }
  /** Passes over what belongs to removed operations and over what was matched ahead. */
  #skip(): void {
    for (;;) {
      const command = this.#expected[this.#cursor];
      if (command === undefined) return;
      if (this.#ahead?.delete(command) === true) this.#cursor++;
      else if ((this.#removed.size > 0 || this.#removedPaths.length > 0) && this.#isRemoved(command)) {
        this.#cursor++;
        this.#passRemoved(command);
      } else return;
    }
  }
  #passRemoved(command: Command): void {
    if (isOpening(command)) {
      this.#execution.sawSeq(command.seq);
      if (isUnpausing(command)) this.#removed.delete(command.seq);
      else this.#removed.set(command.seq, command);
      return;
    }
    const { mailbox } = this.#execution;
    if (command.type === "dispatch") mailbox.discard([command.message]);
    else if (command.type === "commit") this.#passCommit(command);
    else if (command.type === "acceptUpdate") {
      const job = this.#turns[this.#turn]?.jobs.find((one) => one.type === "update" && one.id === command.id);
      this.#updates.set(command.id, { seq: command.seq, name: job?.type === "update" ? job.name : command.id });
      mailbox.discard([command.id]);
    } else if (command.type === "completeUpdate") this.#updates.delete(command.id);
    else if (command.type === "settle") {
      mailbox.discard(command.messages ?? []);
      this.#removedSettled(command.seq);
    } else if (command.type === "cancel" && command.join !== true) this.#removedSettled(command.seq);
  }
  /** What a commit of a removed scope had carried on is carried on without it. */
  #passCommit(commit: CommitCommand): void {
    const execution = this.#execution;
    execution.sawSeq(commit.lastSeq);
    execution.state = commit.state;
    const messages = commit.messages ?? [];
    for (const message of messages) if (message.type === "update") this.#updates.set(message.id, { seq: commit.seq, name: message.name });
    execution.mailbox.restore(messages.filter((message) => message.type !== "update"));
  }
  /** A job for an operation that the executor does not know. True if it was a removed one's. */
  passJob(job: Job): boolean {
    if (!("seq" in job) || !this.#removed.has(job.seq)) return false;
    if (this.#settles(job, job.seq)) this.#removedSettled(job.seq);
    return true;
  }
  /** Does this job settle the removed operation of that number? */
  #settles(job: Job, seq: number): boolean {
    if (!("seq" in job) || job.seq !== seq) return false;
    const record = this.#removed.get(seq);
    if (job.type === "fire") return record?.type === "sleep";
    return job.type === "resolve" || (record?.type === "child" && record.detached === true);
  }
  #removedSettled(seq: number): void {
    this.#removed.delete(seq);
    const unit = this.#waiting.get(seq);
    if (unit === undefined) return;
    this.#waiting.delete(seq);
    unit.openGate();
  }
  /** Replay is over: what is still open of removed operations is given up, and their units go on live. */
  finish(): void {
    const execution = this.#execution;
    for (const [id, { seq, name }] of this.#updates) {
      execution.emit({
        type: "completeUpdate",
        seq,
        id,
        status: "failed",
        error: serializeError(new ReceiveClosedError({ update: name })),
      });
    }
    this.#updates.clear();
    for (const record of this.#removed.values()) {
      const host = ["step", "transaction", "activity", "child", "sleep", "signalRun", "cancelRun"].includes(record.type);
      execution.emit(host ? { type: "cancel", seq: record.seq } : { type: "settle", seq: record.seq, status: "canceled" });
    }
    this.#removed.clear();
    for (const unit of this.#waiting.values()) unit.openGate();
    this.#waiting.clear();
  }
  /** Has a replayed run something to do though no job has come? */
  get hasWork(): boolean {
    return this.#removed.size > 0 || this.#waiting.size > 0 || this.#carry.size > 0;
  }
}
