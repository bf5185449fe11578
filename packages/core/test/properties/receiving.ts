// Job: the receive of the reference interpreter: dispatch, handlers, the reducer state, how it closes.
// Owns: the state of one open receive.
// Invariants: R1–R11, A1–A6, M9 M10, K4.

import type { Block, Handler, Receive } from "./program.ts";
import { type Call, type Code, Failure, type Machine, type Message, type Receiver, type Result, remove, type Unit } from "./reference.ts";
import { describeError } from "./trace.ts";
import { fresh, type Shared } from "./variables.ts";

/** The code of a handler. */
export type Run = (unit: Unit, block: Block, shared: Shared, receiving?: Receiving) => Code;

export class Receiving implements Receiver {
  readonly call: Call;
  state: unknown[] = [];
  /** `updateState` calls that wait for the sync handler (R10). */
  blocked: Call[] = [];
  readonly #run: Run;
  readonly #machine: Machine;
  readonly #receive: Receive;
  readonly #shared: Shared;
  readonly #ordinal: number;
  readonly #beside: Unit[] = [];
  #sync: Unit | undefined;
  #dispatched = 0;
  #sinceCheckpoint = 0;
  #closing = false;
  #timedOut = false;
  #error: { readonly error: unknown } | undefined;

  constructor(machine: Machine, call: Call, receive: Receive, shared: Shared, run: Run) {
    this.#run = run;
    this.#machine = machine;
    this.call = call;
    this.#receive = receive;
    this.#shared = shared;
    this.#ordinal = call.unit.scopes++;
    call.waits = true;
    call.fire = () => {
      this.#timedOut = true;
      this.#close();
      this.#next();
    };
    call.cancel = () => {
      this.#close();
      const { canceled } = call.unit;
      if (canceled !== undefined)
        for (const unit of [this.#sync, ...this.#beside]) if (unit !== undefined) this.#machine.cancelUnit(unit, canceled);
      this.#next();
    };
    this.#machine.receiver = this;
    this.#machine.enter(this);
  }

  // ── as the taker of messages ──

  readonly wants = (name: string): boolean => !this.#closing && Object.hasOwn(this.#receive.signals, name);
  readonly handles = (update: string): boolean => Object.hasOwn(this.#receive.updates, update);
  readonly closing = (): boolean => this.#closing;
  readonly ready = (): boolean => this.#sync === undefined && !this.#closing && !this.#draining;
  /** R11: no dispatch between the n-th message and the checkpoint. */
  get #draining(): boolean {
    const { checkpointEvery } = this.#receive;
    return checkpointEvery !== undefined && this.#sinceCheckpoint >= checkpointEvery;
  }
  readonly refuses = ({ name, payload }: Message): boolean => {
    const refuses = this.#handlerOf(name, "update").refuses;
    return refuses !== undefined && (Number(payload) + this.state.length) % refuses === 0;
  };
  get busy(): boolean {
    return this.#sync !== undefined;
  }
  #handlerOf(name: string, type: Message["type"]): Handler {
    const handlers: Readonly<Record<string, Handler>> = type === "signal" ? this.#receive.signals : this.#receive.updates;
    const handler = handlers[name];
    if (handler === undefined) throw new Error(`No handler for ${type} ${name}.`);
    return handler;
  }

  readonly take = (message: Message): void => {
    const machine = this.#machine;
    const dispatch = this.#dispatched++;
    this.#sinceCheckpoint++;
    const handler = this.#handlerOf(message.name, message.type);
    const path = `${this.call.location}/~h${dispatch}`;
    machine.emit({ type: "dispatch", seq: this.call.seq, unit: path, message: message.id });
    const before = this.state;
    this.#sync = machine.spawn({
      path,
      order: [...this.call.unit.order, 1, this.#ordinal, dispatch, 0],
      parent: this.call.unit,
      code: (unit) => this.#run(unit, handler.body, this.#sharedByHandlers()),
      onEnd: (result) => {
        this.#sync = undefined;
        if (result.ok) this.#handled(message, handler, dispatch, [...before, [message.payload, result.value]]);
        else if (message.type === "update") this.#answer(message, result);
        else this.#close({ error: result.error });
        this.#next();
      },
    });
  };
  #sharedByHandlers(): Shared {
    return this.#receive.checkpointEvery === undefined ? this.#shared : fresh();
  }

  // ── handlers ──

  #handled(message: Message, handler: Handler, dispatch: number, state: unknown[]): void {
    const stops = handler.stopAt !== undefined && state.length >= handler.stopAt;
    if (message.type === "update" && stops) this.#answer(message, { ok: true, value: "stopped" });
    else if (message.type === "update" && handler.async === undefined) this.#answer(message, { ok: true, value: state.length });
    this.state = state;
    if (stops) this.#close();
    else if (handler.async !== undefined) this.#spawnAsync(message, handler.async, dispatch);
  }
  #spawnAsync(message: Message, block: Block, dispatch: number): void {
    const machine = this.#machine;
    const path = `${this.call.location}/~h${dispatch}/~async`;
    const unit: Unit = machine.spawn({
      path,
      order: [...this.call.unit.order, 1, this.#ordinal, dispatch, 1],
      parent: this.call.unit,
      code: (own) => this.#run(own, block, this.#sharedByHandlers(), this),
      onEnd: (result) => {
        remove(this.#beside, unit);
        if (message.type === "update") this.#answer(message, result);
        else if (!result.ok) machine.emit({ type: "handlerFailed", seq: this.call.seq, unit: path, error: describeError(result.error) });
        this.#next();
      },
    });
    this.#beside.push(unit);
  }
  #answer({ id }: Message, result: Result): void {
    const { seq } = this.call;
    if (result.ok) this.#machine.emit({ type: "completeUpdate", seq, id, status: "completed", value: result.value });
    else this.#machine.emit({ type: "completeUpdate", seq, id, status: "failed", error: describeError(result.error) });
  }

  // ── the end ──

  /** R5, R6. */
  #close(error?: { readonly error: unknown }): void {
    this.#error ??= error;
    if (this.#closing) return;
    this.#closing = true;
    const machine = this.#machine;
    for (const message of machine.messages.filter((one) => one.type === "update" && one.accepted)) {
      remove(machine.messages, message);
      this.#answer(message, { ok: false, error: new Failure("ReceiveClosedError") });
    }
  }
  /** Whenever something of it has ended. */
  #next(): void {
    const machine = this.#machine;
    if (this.#sync !== undefined) return;
    for (const call of this.blocked) machine.conclude(call, "completed", { ok: true, value: undefined });
    this.blocked = [];
    if (this.#beside.length > 0) return;
    if (this.#closing) this.#conclude();
    else if (this.#draining) {
      this.#sinceCheckpoint = 0;
      if (machine.canCommit(this.call)) machine.commit(this.call, this.#dispatched, this.state, this.#dispatched);
    }
  }
  #conclude(): void {
    const machine = this.#machine;
    const { call } = this;
    machine.leave(this);
    const { canceled } = call.unit;
    if (canceled !== undefined) machine.conclude(call, "canceled", { ok: false, error: canceled });
    else if (this.#error !== undefined) machine.conclude(call, "failed", { ok: false, error: this.#error.error });
    else
      machine.conclude(call, this.#timedOut ? "timedOut" : "completed", {
        ok: true,
        value: { state: this.state, timedOut: this.#timedOut },
      });
  }
}
