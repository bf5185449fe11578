// `ctx.receive`: a message-processing loop with a reducer state.
// Owns: the state, the handler in progress, the async handlers in flight, and how the loop closes.
// Invariants: R1–R11, A1–A6, M9 M10 (acceptance, outcomes), K4 (cancellation closes it, joins its handlers, throws).

import { preview } from "../../base/text.ts";
import {
  IllegalReturnError,
  InvalidInputError,
  messageOf,
  ReceiveClosedError,
  serializeError,
  UpdateRejectedError,
} from "../../errors/index.ts";
import { type AsyncHandlerContext, isReceiveResult, type Messages, type ReceiveHandlers } from "../../model/index.ts";
import type { CommitCommand, Payload } from "../../protocol/index.ts";
import { parseDuration } from "../../values/index.ts";
import { commitCommand, obstacle } from "../commits.ts";
import type { Execution } from "../execution.ts";
import type { Signal, Update, UpdateTaker } from "../mailbox.ts";
import { type Behaviour, type Operation, rejected, type Settlement } from "../operation.ts";
import { copyOfState, guardedState, initialState } from "../states.ts";
import type { Unit, UnitOutcome } from "../unit.ts";

type Handler = (payload: unknown, state: unknown, ctx: unknown) => unknown;
type UpdateHandlers = Readonly<Record<string, Handler | { validate: (input: unknown, state: unknown) => unknown; handle: Handler }>>;
type MakeContext = (unit: Unit) => unknown;

export class ReceiveScope implements UpdateTaker, Behaviour {
  readonly operation: Operation;
  readonly #execution: Execution;
  readonly #signals: Readonly<Record<string, Handler>>;
  readonly #updates: UpdateHandlers;
  readonly #checkpointEvery: number | undefined;
  readonly #context: MakeContext;
  readonly #ordinal: number;
  readonly #async = new Set<Unit>();
  #state: unknown;
  #dispatched = 0;
  #sinceCheckpoint = 0;
  #sync: Unit | undefined;
  #closing = false;
  #timedOut = false;
  #error: { readonly error: Error } | undefined;
  #warned = false;
  /** Replay: history has a later commit, and nothing is dispatched before it (R11). */
  #awaitingCommit: boolean;
  /** `updateState` calls that wait for the sync handler (R10). */
  #blocked: Operation[] = [];

  constructor(operation: Operation, state: unknown, handlers: ReceiveHandlers<unknown, Messages>, context: MakeContext) {
    this.operation = operation;
    this.#execution = operation.unit.execution;
    this.#state = guardedState(this.#execution, state);
    this.#signals = (handlers.signals ?? {}) as Record<string, Handler>;
    this.#updates = (handlers.updates ?? {}) as UpdateHandlers;
    this.#checkpointEvery = handlers.checkpointEvery;
    this.#context = context;
    this.#ordinal = operation.unit.nextScope();
    this.#awaitingCommit = operation.committed;
    operation.behaviour = this;
    operation.floating = true;
    this.#execution.mailbox.enterReceive(this);
  }

  // ── consuming messages ──

  get closing(): boolean {
    return this.#closing;
  }
  get ready(): boolean {
    return this.#sync === undefined && !this.#closing && !this.#draining && !this.#awaitingCommit;
  }
  /** A checkpoint is due and waits for the handlers in progress (R11). */
  get #draining(): boolean {
    return this.#checkpointEvery !== undefined && this.#sinceCheckpoint >= this.#checkpointEvery;
  }
  wants(name: string): boolean {
    return !this.#closing && this.handlesSignal(name);
  }
  handlesSignal(name: string): boolean {
    return Object.hasOwn(this.#signals, name) && this.#signals[name] !== undefined;
  }
  handles(update: string): boolean {
    return Object.hasOwn(this.#updates, update) && this.#updates[update] !== undefined;
  }
  refuses(update: Update): Error | undefined {
    if (this.#execution.replaying || !update.validate) return undefined;
    const handler = this.#updates[update.name];
    try {
      // Not execution.decode: an unreadable input rejects the update instead of blocking the run.
      const input = this.#execution.codec.decode(update.input);
      if (typeof handler !== "object") {
        update.decoded = { input };
        return undefined;
      }
      const state = copyOfState(this.#execution, this.#state); // M9: the validator's changes to it have no effect
      const result = this.#execution.inClosure(`the validator of update "${update.name}"`, () => handler.validate(input, state));
      if (isThenable(result)) {
        this.#execution.violate(
          new IllegalReturnError(`The validator of update "${update.name}" returned a promise: it must be synchronous.`),
        );
      }
      return undefined;
    } catch (error) {
      return new UpdateRejectedError({ update: update.name, reason: messageOf(error), cause: error });
    }
  }
  take(signal: Signal): void {
    this.#dispatch(signal, this.#signals[signal.name] as Handler);
  }
  takeUpdate(update: Update): void {
    const handler = this.#updates[update.name];
    this.#dispatch(update, typeof handler === "object" ? handler.handle : (handler as Handler));
  }

  // ── handlers ──

  #path(dispatch: number): string {
    return `${this.operation.location}/~h${dispatch}`;
  }
  #dispatch(message: Signal | Update, handler: Handler): void {
    const dispatch = this.#dispatched++;
    this.#sinceCheckpoint++;
    const path = this.#path(dispatch);
    this.#execution.emit({ type: "dispatch", seq: this.operation.seq, unit: path, message: message.id });
    const parent = this.operation.unit;
    this.#sync = this.#execution.spawn({
      role: "handler",
      path,
      parent,
      order: parent.handlerOrder(this.#ordinal, dispatch, false),
      receive: this,
      run: (unit) => handler(this.#contentOf(message), this.#state, this.#context(unit)),
      onEnd: (outcome) => this.#syncEnded(message, dispatch, outcome),
    });
  }

  #contentOf(message: Signal | Update): unknown {
    if (message.type === "signal") return this.#execution.decode(message.payload);
    return message.decoded === undefined ? this.#execution.decode(message.input) : message.decoded.input;
  }

  #syncEnded(message: Signal | Update, dispatch: number, outcome: UnitOutcome): void {
    this.#sync = undefined;
    if (outcome.ok) this.#apply(message, dispatch, outcome.value);
    else if (message.type === "update") this.#completeUpdate(message, outcome);
    else this.#close({ error: outcome.error as Error }); // R9: thrown from receive
    this.#next();
  }

  #apply(message: Signal | Update, dispatch: number, result: unknown): void {
    const legal = message.type === "signal" ? SIGNAL_RESULTS : UPDATE_RESULTS;
    if (!isReceiveResult(result) || !legal.has(result.result)) {
      const kind = `${message.type} "${message.name}"`;
      const ways = message.type === "signal" ? "noreply(state), stop(state)" : "reply(value, state), stop(value, state)";
      this.#execution.violate(new IllegalReturnError(`The handler of ${kind} must return Receive.${ways} or async(fn, state).`));
      return;
    }
    if ((result.result === "reply" || result.result === "stopWith") && message.type === "update") {
      if (!this.#completeUpdate(message, { ok: true, value: result.value })) return;
    }
    this.#state = guardedState(this.#execution, result.state);
    if (result.result === "stop" || result.result === "stopWith") this.#close();
    else if (result.result === "async") this.#spawnAsync(message, dispatch, result.fn as (ctx: AsyncHandlerContext<unknown>) => unknown);
  }

  #spawnAsync(message: Signal | Update, dispatch: number, fn: (ctx: AsyncHandlerContext<unknown>) => unknown): void {
    const parent = this.operation.unit;
    const unit: Unit = this.#execution.spawn({
      role: "asyncHandler",
      path: `${this.#path(dispatch)}/~async`,
      parent,
      order: parent.handlerOrder(this.#ordinal, dispatch, true),
      receive: this,
      run: (own) => fn(this.#context(own) as AsyncHandlerContext<unknown>),
      onEnd: (outcome) => this.#asyncEnded(message, unit, outcome),
    });
    this.#async.add(unit);
  }
  #asyncEnded(message: Signal | Update, unit: Unit, outcome: UnitOutcome): void {
    this.#async.delete(unit);
    if (message.type === "update") this.#completeUpdate(message, outcome);
    else if (!outcome.ok) {
      const error = serializeError(outcome.error);
      this.#execution.emit({ type: "handlerFailed", seq: this.operation.seq, unit: unit.path, error });
      this.#execution.log("error", `The async handler of signal "${message.name}" failed: ${error.message}`, unit, { error });
    }
    this.#next();
  }

  /** Records the outcome of an update (M10). False if the update failed, also if its reply could not be encoded. */
  #completeUpdate(update: Update, outcome: UnitOutcome): boolean {
    const { seq } = this.operation;
    const emit = (error: unknown) =>
      this.#execution.emit({ type: "completeUpdate", seq, id: update.id, status: "failed", error: serializeError(error) });
    const failure = outcome.ok ? this.#execution.matcher?.overLimit("completeUpdate", update.id) : outcome.error;
    if (!outcome.ok || failure !== undefined) {
      emit(failure);
      return false;
    }
    let value: Payload;
    try {
      value = this.#execution.encode(outcome.value, `the reply to update ${update.name}`);
    } catch (error) {
      emit(error);
      return false;
    }
    this.#execution.emit({ type: "completeUpdate", seq, id: update.id, status: "completed", value });
    return true;
  }

  // ── the state ──

  /** Applies the change now, or in the unit's own turn once the sync handler has ended (A3, A6, R10). */
  updateState(unit: Unit, change: (state: unknown) => readonly [unknown, unknown]): Promise<unknown> {
    for (let own: Unit | undefined = unit; own?.receive === this; own = own.parent) own.wroteState = true;
    if (this.#sync === undefined) {
      const settlement = this.#change(change);
      if (this.#execution.poison !== undefined) return new Promise(() => {});
      return settlement.ok ? Promise.resolve((settlement as { value: unknown }).value) : rejected(settlement.error);
    }
    const operation = this.#execution.open(unit, "updateState", "updateState");
    if (operation.closed) return operation.promise;
    operation.behaviour = UPDATE_STATE;
    operation.beforeDelivery = () => (operation.settlement?.ok === false ? operation.settlement : this.#change(change));
    this.#blocked.push(operation);
    return operation.promise;
  }
  #change(change: (state: unknown) => readonly [unknown, unknown]): Settlement {
    try {
      const result = this.#execution.inClosure("updateState", () => change(this.#state));
      if (!Array.isArray(result) || result.length !== 2) {
        throw this.#execution.violate(new IllegalReturnError("updateState needs a synchronous function that returns [result, newState]."));
      }
      this.#state = guardedState(this.#execution, result[1]);
      return { ok: true, value: result[0] };
    } catch (error) {
      return { ok: false, error: error as Error };
    }
  }

  // ── the end ──

  fire(): void {
    this.#timedOut = true;
    this.#leaveUnmet();
    this.#close();
    this.#next();
  }
  cancel(_operation: Operation, error: Error): void {
    if (this.#awaitingCommit) return; // replay: the commit came first
    const canceled = this.operation.unit.canceled;
    if (canceled === undefined || canceled !== this.#execution.cancelRequested) this.#leaveUnmet();
    this.#close();
    if (canceled !== undefined) {
      this.#error = { error };
      this.#sync?.cancel(canceled);
      for (const unit of [...this.#async]) unit.cancel(canceled);
    }
    this.#next();
  }
  /** Notes that the receive ends without a message, unless a handler has stopped it before (D9). */
  #leaveUnmet(): void {
    if (!this.#closing) this.#execution.mailbox.leftUnmet(Object.keys(this.#signals).filter((name) => this.handlesSignal(name)));
  }
  /** Stops dispatching (R5), and fails the accepted updates that were not dispatched (R6). */
  #close(error?: { readonly error: Error }): void {
    this.#error ??= error;
    if (this.#closing) return;
    this.#closing = true;
    for (const update of this.#execution.mailbox.takeAccepted()) {
      this.#completeUpdate(update, { ok: false, error: new ReceiveClosedError({ update: update.name }) });
    }
  }

  /** Called after a handler has ended or the receive was closed: unblocks `updateState` calls, then commits, concludes or continues. */
  #next(): void {
    if (this.#execution.poison !== undefined) return;
    if (this.#sync === undefined) {
      const blocked = this.#blocked;
      this.#blocked = [];
      for (const operation of blocked) this.#execution.conclude(operation, "completed", { ok: true, value: undefined });
    }
    const idle = this.#sync === undefined && this.#async.size === 0;
    if (this.#closing) {
      if (idle) this.#conclude();
    } else if (idle && this.#draining) this.#checkpoint();
    this.#execution.mailbox.wake();
  }
  #conclude(): void {
    this.#execution.mailbox.leave(this);
    const canceled = this.operation.unit.canceled;
    if (canceled !== undefined) this.#execution.conclude(this.operation, "canceled", { ok: false, error: canceled });
    else if (this.#error !== undefined) this.#execution.conclude(this.operation, "failed", { ok: false, error: this.#error.error });
    else {
      const value = { state: this.#state, timedOut: this.#timedOut };
      this.#execution.conclude(this.operation, this.#timedOut ? "timedOut" : "completed", { ok: true, value });
    }
  }

  // ── R11 ──

  #checkpoint(): void {
    this.#sinceCheckpoint = 0;
    const execution = this.#execution;
    const why = obstacle(execution, this.operation);
    if (why !== undefined) {
      const message = `The receive ${this.operation.location} can't checkpoint: ${why}. Until then it continues without checkpoints, and its history grows.`;
      if (!this.#warned) execution.log("warn", message, this.operation.unit);
      this.#warned = true;
      return;
    }
    let value: Payload;
    try {
      value = execution.encodeOrRefuse(this.operation.unit, "commit", this.#state, "the state of a receive");
    } catch (error) {
      this.#close({ error: error as Error });
      this.#conclude();
      return;
    }
    execution.emit(commitCommand(execution, this.operation, this.#dispatched, value, this.#dispatched));
    this.#state = guardedState(execution, execution.decode(value));
  }
  restore(operation: Operation, commit: CommitCommand): void {
    this.#awaitingCommit = false;
    this.#dispatched = commit.count;
    this.#sinceCheckpoint = 0;
    this.#state = guardedState(this.#execution, this.#execution.decode(commit.value));
    const { canceled } = operation.unit;
    if (canceled !== undefined) this.cancel(operation, canceled);
  }
}

const UPDATE_STATE: Behaviour = {
  cancel: (operation, error) => operation.unit.execution.conclude(operation, "canceled", { ok: false, error }),
};
const SIGNAL_RESULTS: ReadonlySet<string> = new Set(["noreply", "stop", "async"]);
const UPDATE_RESULTS: ReadonlySet<string> = new Set(["reply", "stopWith", "async"]);

function isThenable(value: unknown): boolean {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}

export function receive(unit: Unit, state: unknown, handlers: ReceiveHandlers<unknown, Messages>, context: MakeContext): Promise<unknown> {
  const execution = unit.execution;
  if (execution.mailbox.receive !== undefined) throw execution.illegal(unit, "receive", "another receive is open; one is open at a time");
  const every = handlers.checkpointEvery;
  if (every !== undefined && (!Number.isInteger(every) || every < 1)) {
    throw new InvalidInputError({
      what: "ctx.receive",
      issues: [{ message: `checkpointEvery must be a positive whole number, not ${preview(every)}.`, path: ["checkpointEvery"] }],
    });
  }
  const fields = {
    ...(handlers.timeout !== undefined && { timeout: parseDuration(handlers.timeout) }),
    ...(every !== undefined && { checkpointEvery: every }),
  };
  let operation: Operation;
  let initial: unknown;
  try {
    initial = initialState(execution, state, "the initial state of a receive");
    operation = execution.open(unit, "receive", "receive", fields);
  } catch (error) {
    operation = execution.refuse(unit, "receive", "receive", error as Error);
  }
  if (!operation.closed) new ReceiveScope(operation, initial, handlers, context);
  return operation.promise;
}
