// Operations that history has and `ctx.removed` marks as removed from the code.
// Owns: their records, which of them have not settled yet, and the units that wait for that.
// Invariants: V3 (a removed operation is matched with everything beneath it, and a run that waits at it is freed), Y6 (later commands wait
// for their place in history), M7 (messages that it consumed stay consumed).

import { ReceiveClosedError, serializeError } from "../../errors/index.ts";
import type { ReplayTurn } from "../../protocol/index.ts";
import { CLOCK_KINDS, type Command, type CommitCommand, carriedOutBy, type Job, type OpeningCommand } from "../../protocol/index.ts";
import { formatLocation } from "../../protocol/location.ts";
import { isOpening } from "../comparison.ts";
import type { Execution } from "../execution.ts";
import { givingUp } from "../operation.ts";
import type { Unit } from "../unit.ts";

const OVER_WITH_RECORD = carriedOutBy("record");
/** Whether the operation settles with its record. */
function isUnpausing(record: OpeningCommand): boolean {
  if (record.type === "sideEffect") return record.value !== undefined || record.error !== undefined;
  return OVER_WITH_RECORD.has(record.type);
}

export class RemovedOperations {
  readonly #execution: Execution;
  readonly #turns: readonly ReplayTurn[];
  #turn = 0;
  /** Locations of removed operations. Everything beneath them is removed as well. */
  readonly #locations = new Set<string>();
  /** Removed operations, and operations beneath them, that have not settled yet. */
  readonly #open = new Map<number, OpeningCommand>();
  /** The unit that continues when the removed operation settles. */
  readonly #waiting = new Map<number, Unit>();
  /** Updates that a removed receive has accepted and not completed. */
  readonly #updates = new Map<string, { readonly seq: number; readonly name: string }>();

  constructor(execution: Execution, turns: readonly ReplayTurn[]) {
    this.#execution = execution;
    this.#turns = turns;
  }
  beginTurn(index: number): void {
    this.#turn = index;
  }
  /** The number of removed operations that units wait for. */
  get waiting(): number {
    return this.#waiting.size;
  }
  /** Whether `finish` has something to cancel or to free. */
  get pending(): boolean {
    return this.#open.size > 0 || this.#waiting.size > 0;
  }

  /** A unit has reached the place where the operation of this record was removed. `next` is the record after it. */
  add(unit: Unit, record: OpeningCommand, next: Command | undefined): void {
    unit.occurrence(record.name);
    this.#locations.add(formatLocation(record.unit, record.name, record.n));
    this.#open.set(record.seq, record);
    const atOnce = next?.type === "settle" && next.seq === record.seq;
    if (isUnpausing(record) || atOnce) return;
    this.#waiting.set(record.seq, unit);
    unit.closeGate();
  }

  /** Whether the command belongs to a removed operation, or to something beneath one. */
  has(command: Command): boolean {
    if (this.#locations.size === 0) return false;
    if (isOpening(command)) return this.#open.has(command.seq) || this.#isBeneath(command.unit);
    return "seq" in command && this.#open.has(command.seq);
  }
  #isBeneath(unit: string): boolean {
    if (this.#locations.has(unit)) return true;
    for (let end = unit.lastIndexOf("/"); end > 0; end = unit.lastIndexOf("/", end - 1)) {
      if (this.#locations.has(unit.slice(0, end))) return true;
    }
    return false;
  }
  /** Whether the command was emitted by `finish`. */
  isGivenUp(command: Command): boolean {
    const { type } = command;
    const givesUp = type === "cancel" || type === "completeUpdate" || (type === "settle" && command.status === "canceled");
    return givesUp && this.has(command);
  }

  /** Skips a record of a removed operation and applies its effects. */
  pass(command: Command): void {
    if (isOpening(command)) {
      this.#execution.numbers.saw(command.seq);
      if (isUnpausing(command)) this.#open.delete(command.seq);
      else this.#open.set(command.seq, command);
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
      this.#settled(command.seq);
    } else if (command.type === "cancel" && command.join !== true) this.#settled(command.seq);
  }
  /** Keeps the messages and the state that a commit of a removed scope carried. */
  #passCommit(commit: CommitCommand): void {
    const execution = this.#execution;
    execution.numbers.saw(commit.lastSeq);
    execution.state = commit.state;
    const messages = commit.messages ?? [];
    for (const message of messages) if (message.type === "update") this.#updates.set(message.id, { seq: commit.seq, name: message.name });
    execution.mailbox.restore(messages.filter((message) => message.type !== "update"));
  }
  /** A job for an operation that the executor does not know. True if it belongs to a removed operation. */
  passJob(job: Job): boolean {
    if (!("seq" in job) || !this.#open.has(job.seq)) return false;
    if (this.#settles(job, job.seq)) this.#settled(job.seq);
    return true;
  }
  /** Whether this job settles the removed operation of that number. */
  #settles(job: Job, seq: number): boolean {
    if (!("seq" in job) || job.seq !== seq) return false;
    const record = this.#open.get(seq);
    if (job.type === "fire") return record !== undefined && CLOCK_KINDS.has(record.type);
    return job.type === "resolve" || (record?.type === "child" && record.detached === true);
  }
  #settled(seq: number): void {
    this.#open.delete(seq);
    const unit = this.#waiting.get(seq);
    if (unit === undefined) return;
    this.#waiting.delete(seq);
    unit.openGate();
  }

  /** Whether the unit waits at a removed operation that never settles in history. Then it is past its last record (V1). */
  frees(unit: Unit): boolean {
    for (const [seq, waiting] of this.#waiting) if (waiting === unit && !this.#settlesLater(seq)) return true;
    return false;
  }
  #settlesLater(seq: number): boolean {
    return this.#turns.some((turn, i) => {
      if (i < this.#turn) return false;
      const byCommand = turn.commands.some((one) => (one.type === "settle" || one.type === "cancel") && one.seq === seq);
      return byCommand || (i > this.#turn && turn.jobs.some((job) => this.#settles(job, seq)));
    });
  }

  /** Called when replay is over: cancels the removed operations that are still open, and their units continue live. */
  finish(): void {
    const execution = this.#execution;
    for (const [id, { seq, name }] of this.#updates) {
      const error = serializeError(new ReceiveClosedError({ update: name }));
      execution.emit({ type: "completeUpdate", seq, id, status: "failed", error });
    }
    this.#updates.clear();
    for (const record of this.#open.values()) execution.emit(givingUp(record.type, record.seq));
    this.#open.clear();
    for (const unit of this.#waiting.values()) unit.openGate();
    this.#waiting.clear();
  }
}
