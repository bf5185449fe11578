// One execution of a workflow, as the executor keeps it in memory between turns.
// Owns: the units, the open operations, the turn's commands and replies, and which unit has the turn. Only it appends commands (X2).
// Invariants: X2, X7 X8 (a unit that acts outside its turn poisons the turn), P3 (how units end), P8 P9 (values are checked against the
// limits), V4 (a poisoned execution emits nothing), Y6 (in replay every command is matched).

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
import { checkedState, encodeLimited, encodeUnlimited, type Limits, tooLong } from "./limits.ts";
import { Mailbox } from "./mailbox.ts";
import type { ExecutionObserver, RunningTurn, TurnWatch } from "./observer.ts";
import { givingUp, Operation, remember, type Settlement } from "./operation.ts";
import { OperationNumbers } from "./operationNumbers.ts";
import { Conditions } from "./operations/conditions.ts";
import type { Matcher } from "./replay/matcher.ts";
import { FailureCauses } from "./resume/failureCauses.ts";
import type { Reusable, ReusableOutcomes } from "./resume/reusableOutcomes.ts";
import { Saga } from "./saga.ts";
import { Scheduler } from "./scheduler.ts";
import { reportLost, reportUnheard } from "./unheardResults.ts";
import { Unit, type UnitOptions, type UnitOutcome } from "./unit.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export interface ExecutionOptions {
  readonly workflow: AnyWorkflow;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Limits;
  /** "inline": the command of a `sideEffect` holds its value. "scheduled": the host runs its function like a step. */
  readonly sideEffects: "inline" | "scheduled";
  readonly watch: TurnWatch | undefined;
  readonly freezeStates: boolean;
  /** Replay reports changed options of operations as divergence too (Y2). */
  readonly strictReplay: boolean;
  readonly withholdsRejections: boolean;
  readonly matchedBy: string | undefined;
  readonly stateBytes: number | undefined;
  readonly observer: ExecutionObserver | undefined;
}

/** A child that `startChild` has started. */
export interface StartedChild {
  readonly id: string;
  readonly workflow: AnyWorkflow;
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
  readonly numbers = new OperationNumbers();
  /** Open operations by sequence number. */
  readonly operations = new Map<number, Operation>();
  /** Started children by the number of their operation, with the outcomes for `ChildHandle.result`. */
  readonly children = new Map<number, StartedChild>();
  /** Patches that are recorded in the host's own history (hosts that match commands themselves). */
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
  /** The state published in this turn. */
  turnState: Payload | undefined;
  /** The last published state. */
  state: Payload | undefined;
  root: Unit | undefined;
  current: Unit | undefined;
  /** The name of the synchronous user function that the executor is calling: no ctx call is allowed inside it (A4, M9, C6). */
  closure: string | undefined;
  /** Listeners of a `ctx.signal` are being called. */
  #aborting = false;
  cancelRequested: CanceledError | undefined;
  cancelReason: string | undefined;
  /** The cancellation arrived after the root's function had returned, so no code could react to it. */
  cancelUnheard = false;
  /** The outcome of the root, until all jobs of the turn have been applied: one of them may be a cancellation. */
  rootOutcome: UnitOutcome | undefined;
  /** The deadline has passed (K7). */
  expired = false;
  continuation: ContinueAsNewToken | undefined;
  poison: Error | undefined;
  evicted = false;
  /** A terminal command was emitted. */
  closed = false;
  /** The terminal command was a failure without rollbacks, so the run can be resumed. */
  hasFailed = false;
  liveUnits = 0;
  /** Locations of waits that consumed a message no code received; each is logged once (C5). */
  readonly lostAt = new Set<string>();
  /** Failed operations whose promise no code has handled so far (X11). */
  readonly unheard = new Set<Operation>();
  #warnedOfLength = false;
  /** Operations that are settled with a recorded outcome at the end of the step (D10). */
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

  /** Appends a command, or in replay matches it with its record; returns the command or the record. */
  emit<C extends Command>(command: C): C {
    if (this.poison !== undefined) return command;
    this.options.observer?.emitted(command, this.current?.path);
    if (this.matcher !== undefined) return this.matcher.match(command) as C;
    this.commands.push(command);
    return command;
  }

  /** Opens an operation of the unit that has the turn: emits its record, and assigns its number and promise (Y7). */
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
    if (this.matcher === undefined) command.seq = this.numbers.next();
    const record = this.emit(command);
    this.numbers.saw(record.seq);
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
  /** Emits a command of a unit that opens no operation. */
  note(unit: Unit, type: OpeningCommand["type"], name: string, fields?: object): OpeningCommand {
    const seq = this.matcher === undefined ? this.numbers.next() : 0;
    const record = this.emit({ type, seq, unit: unit.path, name, n: unit.occurrence(name), ...fields } as OpeningCommand);
    this.numbers.saw(record.seq);
    return record;
  }
  /** Records that a call failed, so that it fails in every replay too (Y4). */
  refuse(unit: Unit, kind: string, name: string, error: Error): Operation {
    return this.#refused(unit, kind, name, unit.occurrence(name), error);
  }
  #refused(unit: Unit, kind: string, name: string, n: number, error: Error): Operation {
    const seq = this.matcher === undefined ? this.numbers.next() : 0;
    const record = this.emit({ type: "refuse", seq, unit: unit.path, name, n, kind, error: serializeError(error) });
    this.numbers.saw(record.seq);
    const operation = new Operation(unit, kind, name, n, record.seq);
    operation.closed = true;
    if (this.poison !== undefined) return operation;
    operation.settlement = { ok: false, error: this.matcher === undefined ? error : reviveRecorded(record.error) };
    operation.deliver();
    return operation;
  }
  /** The error of a call that opens no operation: over a limit now, or refused when history was recorded (P9, Y4). */
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

  // ── settling ──

  /** Stores the result of an operation. Its unit gets it in its own turn; if the unit's function has returned, it is discarded (P3). */
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
  /** Discards a result, because the function of its unit has returned (P3). A pending `updateState` is still applied (R10). */
  #letGo(operation: Operation): void {
    operation.unit.open.delete(operation);
    operation.beforeDelivery?.();
    if (operation.settlement?.ok === false && HOST_KINDS.has(operation.kind)) reportUnheard(operation, operation.settlement.error);
  }
  /** Settles an operation that the executor carries out itself, with a record. */
  conclude(operation: Operation, status: SettleCommand["status"], settlement: Settlement, messages?: readonly string[]): void {
    if (operation.settlement !== undefined) return;
    this.emit(
      messages === undefined ? { type: "settle", seq: operation.seq, status } : { type: "settle", seq: operation.seq, status, messages },
    );
    this.settle(operation, settlement);
  }
  /** Like `conclude`, for an operation that need not pause: its result is delivered at once and the unit keeps the turn (X5). */
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

  /** Called when the function of a unit has returned or thrown. */
  functionEnded(unit: Unit, outcome: UnitOutcome): void {
    if (this.poison !== undefined || this.evicted || unit.over) return;
    if (this.current !== unit) this.violate(new ForeignAwaitError({ unit: unit.title }));
    else if (unit.role !== "handler" && outcome.ok && isReceiveResult(outcome.value) && outcome.value.result === "async") {
      this.violate(
        new IllegalReturnError(`Receive.async(fn, state) is for the sync handlers of a receive: ${unit.title} can't return it.`),
      ); // N
    } else unit.returned = outcome;
  }

  /** Called at the barrier after a step: ends the unit, schedules it again, or finds that it awaits a foreign promise (X8). */
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

  /** Cancels the timers and waits of a unit that returned, and joins its other operations; then the unit is over (P3). */
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

  /** Encodes a value. In replay no limit is checked, because history has already accepted the value (P9). */
  encode(value: unknown, what: string): Payload {
    return this.matcher === undefined ? encodeLimited(this.codec, value, this.limits, what) : encodeUnlimited(this.codec, value, what);
  }

  /** Like `encode`, for a value outside an operation: records the error, so that replay fails in the same place under other limits (Y4). */
  encodeOrRefuse(unit: Unit, kind: string, value: unknown, what: string, stateBytes?: number): Payload {
    let error: unknown = this.matcher?.refusal(unit.path, kind, undefined, kind);
    if (error === undefined) {
      try {
        return checkedState(this.encode(value, what), stateBytes, what);
      } catch (caught) {
        error = caught;
      }
    }
    this.note(unit, "refuse", kind, { kind, error: serializeError(error) });
    throw error;
  }
  /** Decodes a payload. If that fails the run is blocked until a worker with a suitable codec takes it (V4). */
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

  /** Runs a synchronous user function in which ctx must not be used. */
  inClosure<T>(name: string, run: () => T): T {
    const outer = this.closure;
    this.closure = name;
    const watch = this.current === undefined ? this.watch : undefined; // a predicate or a validator, called between steps
    watch?.enter(this);
    try {
      const result = run();
      if (isInstance(result, Promise)) result.catch(() => {}); // the caller rejects promises, so their rejections are ignored (X11)
      return result;
    } finally {
      watch?.leave(this);
      this.closure = outer;
    }
  }
  /** Runs code that the turn watch must ignore although a unit may have the turn: a side effect, the logger. */
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

  /** Calls the listeners of a `ctx.signal` (K1). No unit has the turn, so a listener must not use ctx (X7). */
  abort(controller: AbortController, error: CanceledError): void {
    this.#aborting = true;
    controller.abort(error);
    this.#aborting = false;
  }

  /** Logs the error of a `ctx.signal` listener, which no code could catch (X11). */
  listenerFailed(unit: Unit, error: unknown): void {
    if (this.poison !== undefined || this.evicted) return;
    this.log("warn", `A listener of ctx.signal failed: ${messageOf(error)}. Handle errors inside the listener.`, unit, {
      error: serializeError(error),
    });
  }

  /** Throws if this unit may not make this call now (X7, A4). False if the run is poisoned or evicted: then no promise may settle. */
  enter(unit: Unit, call: string): boolean {
    if (this.poison !== undefined || this.evicted) return false;
    if (this.#aborting) {
      this.violate(new OutOfTurnError({ unit: unit.title, call }));
      return false;
    }
    if (this.closure !== undefined)
      throw this.illegal(unit, call, `it is inside ${this.closure}, which must be synchronous and must not use ctx`);
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
  /** The unit that has the turn, for calls on objects that any unit may use. Undefined if the run is poisoned or evicted. */
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
  /** Records a broken rule: this turn, or the next one, fails even if user code catches the error (V4). */
  violate<E extends Error>(error: E): E {
    this.poison ??= error;
    return remember(error); // X11: it may reject a promise that no code awaits
  }

  log(level: keyof Logger, message: string, unit?: Unit, fields?: object): void {
    if (!this.replaying) this.say(level, message, unit, fields);
  }
  /** Logs in replay too: for messages about the replay itself. */
  say(level: keyof Logger, message: string, unit?: Unit, fields?: object): void {
    try {
      this.unwatched(() => this.logger[level](message, { runId: this.runId, workflow: this.workflow.name, unit: unit?.title, ...fields }));
    } catch {
      // X1: replay logs nothing, so a failing logger must not affect the workflow.
    }
  }

  /** Stops all workflow code and cancels the operations that the host carries out for it (K7). */
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
  /** Evicts the execution: all state is discarded, and no promise settles (X10). */
  drop(): void {
    this.evicted = true;
    this.#forget();
    this.saga.clear();
    this.root = undefined;
    this.current = undefined;
  }
}

/** The reason for cancelling the waits of a unit whose function returned. No code receives it. */
const RETURNED = new CanceledError("the function that waited has returned");
