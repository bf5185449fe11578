// One execution of one workflow, as the executor holds it in memory between turns.
// Owns: the units, the open operations, the turn's commands and replies, and who has the turn. Only it appends commands (X2).
// Invariants: X2, X7 X8 (who acts without the turn poisons it), P3 (how units end), P8 P9 (how values and limits are checked),
// V4 (a poisoned execution emits nothing), Y6 (in replay every emission is matched).

import type { Codec } from "../codec/index.ts";
import {
  CanceledError,
  ForeignAwaitError,
  IllegalCallError,
  IllegalReturnError,
  isInstance,
  messageOf,
  OutOfTurnError,
  reviveRecorded,
  serializeError,
  toError,
} from "../errors/index.ts";
import { type AnyWorkflow, isReceiveResult, type Logger } from "../model/index.ts";
import {
  type Answer,
  type Command,
  HOST_KINDS,
  isCommitting,
  type OpeningCommand,
  type Payload,
  type SettleCommand,
  type StartJob,
} from "../protocol/index.ts";
import type { ContinueAsNewToken } from "./continuation.ts";
import { encodeLimited, type Limits, tooLong } from "./limits.ts";
import { Mailbox } from "./mailbox.ts";
import { givingUp, Operation, remember, type Settlement } from "./operation.ts";
import { Conditions } from "./operations/conditions.ts";
import type { Matcher } from "./replay/matcher.ts";
import { FailureCauses } from "./resume/failureCauses.ts";
import type { Reusable, ReusableOutcomes } from "./resume/reusableOutcomes.ts";
import { Saga } from "./saga.ts";
import { Scheduler } from "./scheduler.ts";
import { reportLost, reportUnheard } from "./unheardResults.ts";
import { Unit, type UnitOptions, type UnitOutcome } from "./unit.ts";
import type { RunningTurn, TurnWatch } from "./watch.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export interface ExecutionOptions {
  readonly workflow: AnyWorkflow;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Limits;
  /** Whether `sideEffect` values go into its command, or its function is carried out by the host like a step. */
  readonly sideEffects: "inline" | "scheduled";
  readonly watch: TurnWatch | undefined;
  readonly freezeStates: boolean;
  /** Replay: changed options of operations are divergence too (Y2). */
  readonly strictReplay: boolean;
  readonly withholdsRejections: boolean;
}

/** A child that `startChild` has started. */
export interface StartedChild {
  readonly id: string;
  readonly workflow: string;
  settlement: Settlement | undefined;
  waiters: Operation[];
}

export class Execution implements RunningTurn {
  readonly workflow: AnyWorkflow;
  readonly codec: Codec;
  readonly limits: Limits;
  readonly scheduler = new Scheduler();
  readonly mailbox: Mailbox;
  readonly conditions: Conditions;
  readonly saga: Saga;
  readonly failureCauses = new FailureCauses();
  /** Open operations by sequence number. */
  readonly operations = new Map<number, Operation>();
  /** Children by the number of the operation that started them: outcomes for `ChildHandle.result`. */
  readonly children = new Map<number, StartedChild>();
  /** Patches that the host's own history knows of. */
  readonly notifiedPatches = new Set<string>();
  readonly logger: Logger;
  readonly watch: TurnWatch | undefined;
  readonly options: ExecutionOptions;

  start: StartJob | undefined;
  seed = "";
  attempt = 1;
  time = 0;
  historyLength = 0;
  replaying = false;
  matcher: Matcher | undefined;
  reusableOutcomes: ReusableOutcomes | undefined;
  commands: Command[] = [];
  replies: Answer[] = [];
  /** Published in this turn / at all. */
  turnState: Payload | undefined;
  state: Payload | undefined;
  root: Unit | undefined;
  current: Unit | undefined;
  /** A synchronous function of the user's is being run by the executor: no ctx call is legal inside it (A4, M9, C6). */
  closure: string | undefined;
  /** Listeners of a `ctx.signal` are being told. */
  #aborting = false;
  cancelRequested: CanceledError | undefined;
  cancelReason: string | undefined;
  /** The cancellation came when the root's function had returned: no code has had a say in it. */
  cancelUnheard = false;
  /** What the root came to, until all jobs of the turn have been heard: one of them may be a cancellation. */
  rootOutcome: UnitOutcome | undefined;
  /** K7: the deadline has struck. */
  expired = false;
  continuation: ContinueAsNewToken | undefined;
  poison: Error | undefined;
  evicted = false;
  /** A terminal command was emitted. */
  closed = false;
  /** It was a failure, and nothing was undone. */
  hasFailed = false;
  liveUnits = 0;
  #lastSeq = 0;
  /** Where messages were lost to waits that nothing hears (C5); operations that failed and whose promise no code handles so far (X11). */
  readonly lostAt = new Set<string>();
  readonly unheard = new Set<Operation>();
  #warnedOfLength = false;
  /** D10: operations that are settled by an outcome from before, at the end of the step. */
  #reused: { operation: Operation; reusable: Reusable }[] = [];

  constructor(options: ExecutionOptions) {
    this.workflow = options.workflow;
    this.codec = options.codec;
    this.limits = options.limits;
    this.logger = options.logger;
    this.watch = options.watch;
    this.options = options;
    this.mailbox = new Mailbox(this);
    this.conditions = new Conditions(this);
    this.saga = new Saga(this);
  }

  get runId(): string {
    return this.start?.runId ?? "";
  }

  // ── commands ──

  /** Appends a command, or in replay matches it; returns the one that counts. */
  emit<C extends Command>(command: C): C {
    if (this.poison !== undefined) return command;
    if (this.matcher !== undefined) return this.matcher.match(command) as C;
    this.commands.push(command);
    return command;
  }

  /** Opens an operation of a unit that has the turn: its record, its number, its promise (Y7). */
  open(unit: Unit, type: OpeningCommand["type"], name: string, fields?: object): Operation {
    const n = unit.occurrence(name);
    const refusal = this.matcher === undefined ? this.#overLimit(unit) : this.matcher.refusal(unit.path, name, n, type);
    if (refusal !== undefined) return this.#refused(unit, type, name, n, refusal);
    const place = { type, seq: 0, unit: unit.path, name, n };
    const command = (fields === undefined ? place : { ...place, ...fields }) as Mutable<OpeningCommand>;
    const reusable =
      this.reusableOutcomes === undefined || this.matcher?.isInVoid(command) === true ? undefined : this.reusableOutcomes.take(command);
    if (reusable !== undefined) {
      const record = this.emit({ type: "reuse", seq: reusable.seq, unit: unit.path, name, n, kind: type });
      const operation = this.#register(new Operation(unit, type, name, n, record.seq));
      this.#reused.push({ operation, reusable });
      return operation;
    }
    if (this.matcher === undefined) command.seq = ++this.#lastSeq;
    const record = this.emit(command);
    this.sawSeq(record.seq);
    const operation = this.#register(new Operation(unit, type, name, n, record.seq));
    if (record !== command) operation.recorded = record;
    if (isCommitting(record) && record.committed === true) operation.committed = true;
    return operation;
  }
  #register(operation: Operation): Operation {
    if (this.poison !== undefined) {
      operation.closed = true;
      return operation;
    }
    operation.unit.open.add(operation);
    this.operations.set(operation.seq, operation);
    return operation;
  }
  /** A command of a unit's that opens nothing. */
  note(unit: Unit, type: OpeningCommand["type"], name: string, fields?: object): OpeningCommand {
    const seq = this.matcher === undefined ? ++this.#lastSeq : 0;
    const record = this.emit({ type, seq, unit: unit.path, name, n: unit.occurrence(name), ...fields } as OpeningCommand);
    this.sawSeq(record.seq);
    return record;
  }
  /** Y4: the call fails now, and in every replay. */
  refuse(unit: Unit, kind: string, name: string, error: Error): Operation {
    return this.#refused(unit, kind, name, unit.occurrence(name), error);
  }
  #refused(unit: Unit, kind: string, name: string, n: number, error: Error): Operation {
    const seq = this.matcher === undefined ? ++this.#lastSeq : 0;
    const record = this.emit({ type: "refuse", seq, unit: unit.path, name, n, kind, error: serializeError(error) });
    this.sawSeq(record.seq);
    const operation = new Operation(unit, kind, name, n, record.seq);
    operation.closed = true;
    if (this.poison !== undefined) return operation;
    operation.settlement = { ok: false, error: this.matcher === undefined ? error : reviveRecorded(record.error) };
    operation.deliver();
    return operation;
  }
  /** P9, Y4: why an operation that opens nothing is refused now, or was when history was recorded. */
  refusal(unit: Unit, name: string): Error | undefined {
    return this.matcher === undefined ? this.#overLimit(unit) : this.matcher.refusal(unit.path, name, undefined, name);
  }
  #overLimit(unit: Unit): Error | undefined {
    const length = this.historyLength + this.commands.length;
    if (length < this.limits.historyWarn) return undefined;
    if (!this.#warnedOfLength) {
      this.#warnedOfLength = true;
      this.log("warn", `The history of this run has ${length} records. Continue as new, or use a loop that trims (historyEvery).`, unit);
    }
    if (length < this.limits.historyMax || unit.role === "internal") return undefined;
    return tooLong(length, this.limits);
  }
  freshSeq(): number {
    return ++this.#lastSeq;
  }
  get lastSeq(): number {
    return this.#lastSeq;
  }
  /** Numbers go on after the highest that history has used. */
  sawSeq(seq: number): void {
    if (seq > this.#lastSeq) this.#lastSeq = seq;
  }

  // ── settling ──

  /** The operation has its result; the unit takes it in its own turn, or nobody does if its function has returned (P3). */
  settle(operation: Operation, settlement: Settlement): void {
    if (operation.settlement !== undefined) return;
    operation.settlement = settlement;
    this.operations.delete(operation.seq);
    const unit = operation.unit;
    if (unit.returned === undefined) {
      unit.results.push(operation);
      this.scheduler.schedule(unit);
    } else {
      this.#letGo(operation);
      this.endIfOver(unit);
    }
  }
  /** P3: nobody will take the result. What it was to do in its unit's turn is done all the same (R10). */
  #letGo(operation: Operation): void {
    operation.unit.open.delete(operation);
    operation.beforeDelivery?.();
    if (operation.settlement?.ok === false && HOST_KINDS.has(operation.kind)) reportUnheard(operation, operation.settlement.error);
  }
  /** The executor settles an operation of its own: with a record. */
  conclude(operation: Operation, status: SettleCommand["status"], settlement: Settlement, messages?: readonly string[]): void {
    if (operation.settlement !== undefined) return;
    this.emit(
      messages === undefined ? { type: "settle", seq: operation.seq, status } : { type: "settle", seq: operation.seq, status, messages },
    );
    this.settle(operation, settlement);
  }
  /** The same for an operation that need not pause: its result is there at once, the unit keeps the turn (X5). */
  concludeNow(operation: Operation, status: SettleCommand["status"], settlement: Settlement, messages?: readonly string[]): void {
    this.emit(
      messages === undefined ? { type: "settle", seq: operation.seq, status } : { type: "settle", seq: operation.seq, status, messages },
    );
    if (this.poison !== undefined) return;
    operation.settlement = settlement;
    this.operations.delete(operation.seq);
    operation.unit.open.delete(operation);
    operation.deliver();
  }

  // ── units ──

  spawn(options: UnitOptions): Unit {
    const unit = new Unit(this, options);
    this.liveUnits++;
    this.scheduler.schedule(unit);
    return unit;
  }

  /** A unit's function returned or threw. */
  functionEnded(unit: Unit, outcome: UnitOutcome): void {
    if (this.poison !== undefined || this.evicted || unit.over) return;
    if (this.current !== unit) this.violate(new ForeignAwaitError({ unit: unit.title }));
    else if (unit.role !== "handler" && outcome.ok && isReceiveResult(outcome.value) && outcome.value.result === "async") {
      this.violate(
        new IllegalReturnError(`Receive.async(fn, state) is for the sync handlers of a receive: ${unit.title} can't return it.`),
      ); // N
    } else unit.returned = outcome;
  }

  /** The barrier after a unit's step: what has become of it? */
  stepEnded(unit: Unit): void {
    if (this.poison !== undefined) return;
    if (unit.consumed !== undefined) reportLost(unit, unit.consumed);
    if (this.#reused.length > 0) this.#settleReused();
    if (unit.returned !== undefined) this.#windDown(unit);
    else if (unit.runnable) this.scheduler.schedule(unit);
    else if (unit.open.size === 0 && (unit.postponed ?? []).length === 0) this.violate(new ForeignAwaitError({ unit: unit.title })); // X8
  }
  #settleReused(): void {
    const reused = this.#reused;
    this.#reused = [];
    for (const { operation, reusable } of reused) {
      if (reusable.runId !== undefined) operation.behaviour.childStarted?.(operation, reusable.runId);
      if (reusable.outcome !== undefined) operation.behaviour.outcome?.(operation, reusable.outcome);
    }
  }

  /** P3: timers and waits are given up, the rest is joined; then the unit is over. */
  #windDown(unit: Unit): void {
    unit.dropResults();
    for (const operation of [...unit.open]) {
      if (operation.settlement !== undefined) this.#letGo(operation);
      else if (operation.floating) operation.behaviour.cancel?.(operation, unit.canceled ?? RETURNED);
    }
    this.endIfOver(unit);
  }
  endIfOver(unit: Unit): void {
    if (unit.over || unit.returned === undefined || unit.open.size > 0 || unit.gates > 0) return;
    unit.over = true;
    this.liveUnits--;
    unit.parent?.children.delete(unit);
    unit.onEnd(unit.returned, unit);
  }

  // ── values ──

  /** P9: what history has accepted is over no limit. */
  encode(value: unknown, what: string): Payload {
    return this.matcher === undefined ? encodeLimited(this.codec, value, this.limits, what) : this.codec.encode(value);
  }

  /** The same for a value that is no operation's: a refusal is recorded, so that replay takes the same way under other limits (Y4). */
  encodeOrRefuse(unit: Unit, kind: string, value: unknown, what: string): Payload {
    let error: unknown = this.matcher?.refusal(unit.path, kind, undefined, kind);
    if (error === undefined) {
      try {
        return this.encode(value, what);
      } catch (caught) {
        error = caught;
      }
    }
    this.note(unit, "refuse", kind, { kind, error: serializeError(error) });
    throw error;
  }
  /** V4: what can't be decoded is no fault of the run's: it waits for a worker whose codec can. */
  decode(payload: Payload): unknown {
    try {
      return this.codec.decode(payload);
    } catch (error) {
      throw this.violate(toError(error));
    }
  }
  get nothing(): Payload {
    return this.codec.encode(undefined);
  }
  reseed(seed: string): void {
    this.seed = seed;
    const reseed = (unit: Unit): void => {
      unit.reseed();
      for (const child of unit.children) reseed(child);
    };
    if (this.root !== undefined) reseed(this.root);
  }

  // ── rules ──

  /** Runs a synchronous function of the user's in which no ctx may be used. */
  inClosure<T>(name: string, run: () => T): T {
    const outer = this.closure;
    this.closure = name;
    const watch = this.current === undefined ? this.watch : undefined; // between steps: a predicate, a validator
    watch?.enter(this);
    try {
      const result = run();
      if (isInstance(result, Promise)) result.catch(() => {}); // it will be refused: nobody hears of what becomes of it (X11)
      return result;
    } finally {
      watch?.leave(this);
      this.closure = outer;
    }
  }
  /** Runs what is no workflow code, though a unit may have the turn: a side effect, the logger. */
  unwatched<T>(run: () => T): T {
    const watch = this.current === undefined ? undefined : this.watch;
    if (watch === undefined) return run();
    watch.leave(this);
    try {
      return run();
    } finally {
      watch.enter(this);
    }
  }

  /** K1: calls the listeners of a `ctx.signal`. No unit has the turn, so a call of theirs on ctx breaks a rule (X7). */
  abort(controller: AbortController, error: CanceledError): void {
    this.#aborting = true;
    controller.abort(error);
    this.#aborting = false;
  }

  /** X11: the error of a listener of `ctx.signal` goes nowhere else: a line in the log is all that is left of it. */
  listenerFailed(unit: Unit, error: unknown): void {
    if (this.poison !== undefined || this.evicted) return;
    this.log("warn", `A listener of ctx.signal failed: ${messageOf(error)}. Handle errors inside the listener.`, unit, {
      error: serializeError(error),
    });
  }

  /** X7, A4: may this unit call this now? False if the run is poisoned or evicted: then nothing it is given ever settles. */
  enter(unit: Unit, call: string): boolean {
    if (this.poison !== undefined || this.evicted) return false;
    if (this.#aborting) {
      this.violate(new OutOfTurnError({ unit: unit.title, call }));
      return false;
    }
    if (this.closure !== undefined)
      throw this.illegal(unit, call, `it is inside ${this.closure}, which is synchronous and calls nothing on ctx`);
    if (this.current !== unit) {
      const pausedOn = [...unit.open].find((operation) => operation.settlement === undefined)?.description;
      const turnOf = this.current?.title;
      throw this.violate(
        new OutOfTurnError({
          unit: unit.title,
          call,
          ...(pausedOn !== undefined && { pausedOn }),
          ...(turnOf !== undefined && { turnOf }),
        }),
      );
    }
    return true;
  }
  /** The unit that has the turn, for things that any unit may use. Undefined if the run is poisoned or evicted. */
  caller(call: string): Unit | undefined {
    if (this.poison !== undefined || this.evicted) return undefined;
    if (this.current === undefined) {
      const error = this.violate(new OutOfTurnError({ unit: "(none)", call }));
      if (this.#aborting) return undefined;
      throw error;
    }
    return this.enter(this.current, call) ? this.current : undefined;
  }
  illegal(unit: Unit, call: string, reason: string): Error {
    return this.violate(new IllegalCallError({ call, unit: unit.title, reason }));
  }
  /** A broken rule: the turn, or the next one, fails, whatever user code does about the error (V4). */
  violate<E extends Error>(error: E): E {
    this.poison ??= error;
    return remember(error); // X11: it may be thrown into a promise that nobody awaits
  }

  log(level: keyof Logger, message: string, unit?: Unit, fields?: object): void {
    if (!this.replaying) this.say(level, message, unit, fields);
  }
  /** The same, in replay too: about the replay itself. */
  say(level: keyof Logger, message: string, unit?: Unit, fields?: object): void {
    try {
      this.unwatched(() => this.logger[level](message, { runId: this.runId, workflow: this.workflow.name, unit: unit?.title, ...fields }));
    } catch {
      // X1: in replay nothing is logged, so a logger that fails must not be seen by the workflow.
    }
  }

  /** K7: no workflow code runs any more; what the host is doing for it is given up. */
  abandonUnits(): void {
    for (const { kind, seq } of [...this.operations.values()]) this.emit(givingUp(kind, seq));
    this.#forget();
  }
  #forget(): void {
    const forget = (unit: Unit): void => {
      unit.over = true;
      unit.drop();
      for (const child of unit.children) forget(child);
      unit.children.clear();
    };
    if (this.root !== undefined) forget(this.root);
    this.liveUnits = 0;
    this.scheduler.clear();
    this.operations.clear();
    this.children.clear();
    this.mailbox.clear();
    this.conditions.clear();
  }
  /** X10: everything is dropped, nothing settles. */
  drop(): void {
    this.evicted = true;
    this.#forget();
    this.saga.clear();
    this.root = undefined;
    this.current = undefined;
  }
}

/** Why a wait was given up whose unit's function returned; nobody sees it. */
const RETURNED = new CanceledError("the function that waited has returned");
