// Messages that were not consumed yet, and the operations that wait for them.
// Owns: signals, updates and due timeouts in arrival order; the open waits and the open receive in the order in which they began.
// Invariants: M2 M4–M6 M8 (order, buffering, rejection), D9 (which names were still wanted when the run ended), R7 R8 (updates during a
// busy handler, timeouts in the same queue), X6 (messages are offered in arrival order to the operations that accept them).

import { serializeError, UpdateRejectedError } from "../errors/index.ts";
import type { BufferedMessage, Payload } from "../protocol/index.ts";
import type { Execution } from "./execution.ts";
import type { Operation } from "./operation.ts";

/** The reason of an update that is rejected because it came at the wrong time (M8): sent again later, it may be accepted. */
export const NO_OPEN_RECEIVE = "no open receive of the run handles it now";

export interface Signal {
  readonly type: "signal";
  readonly id: string;
  readonly name: string;
  readonly payload: Payload;
}
export interface Update {
  readonly type: "update";
  readonly id: string;
  readonly name: string;
  readonly input: Payload;
  readonly validate: boolean;
  /** The update may wait for a later activation (M8). */
  readonly isPatient: boolean;
  /** Accepted, and waiting for the handler before it to end (R7). */
  accepted: boolean;
  /** Its decoded input, if only its handler gets this object (no validator has seen it). */
  decoded?: { readonly input: unknown };
}
export interface Timeout {
  readonly type: "fire";
  readonly seq: number;
}
export type Message = Signal | Update | Timeout;

/** An open operation that consumes messages: a wait or a receive. */
export interface Taker {
  readonly operation: Operation;
  /** Whether it consumes signals of this name. */
  wants(name: string): boolean;
  /** Whether it can consume one now. */
  readonly ready: boolean;
  take(signal: Signal): void;
}
/** The open receive, which also consumes updates. */
export interface UpdateTaker extends Taker {
  handles(update: string): boolean;
  /** Runs the validator; returns its error, or undefined if the update is accepted. */
  refuses(update: Update): Error | undefined;
  takeUpdate(update: Update): void;
  readonly closing: boolean;
}

export class Mailbox {
  readonly #execution: Execution;
  /** Messages before `#first` were removed. The array is compacted rarely, because a run may consume 100,000 messages from the front. */
  #messages: Message[] = [];
  #first = 0;
  /** Updates of this turn that are not decided yet: each is accepted, kept or rejected by its end. */
  #undecided: Update[] = [];
  /** Replay: the messages that arrived in this turn. */
  readonly #arrived = new Set<Message>();
  readonly #takers: Taker[] = [];
  #receive: UpdateTaker | undefined;
  /** No operation accepted the messages before this index, and none has become ready for them since. */
  #offered = 0;
  /** Names for which a wait or the receive ended in this turn without a message (D9). */
  readonly #unmet = new Set<string>();

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  // ── messages ──

  beginTurn(): void {
    if (this.#unmet.size > 0) this.#unmet.clear();
  }
  beginReplayTurn(): void {
    if (this.#arrived.size > 0) this.#arrived.clear();
  }
  add(message: Message): void {
    this.#messages.push(message);
    if (message.type === "update") this.#undecided.push(message);
    if (this.#execution.matcher !== undefined) this.#arrived.add(message);
  }
  /** Removes messages that a removed operation had consumed (V3). */
  discard(ids: readonly string[]): void {
    this.#replace(this.#waiting.filter((message) => message.type === "fire" || !ids.includes(message.id)));
  }
  get #waiting(): Message[] {
    return this.#first === 0 ? this.#messages : this.#messages.slice(this.#first);
  }
  #replace(messages: Message[]): void {
    this.#messages = messages;
    this.#first = 0;
    this.wake();
  }
  #remove(message: Message): void {
    const index = this.#messages.indexOf(message, this.#first);
    if (index < 0) return;
    if (index > this.#first) {
      this.#messages.splice(index, 1);
      if (index < this.#offered) this.#offered--;
      return;
    }
    this.#first++;
    if (this.#offered < this.#first) this.#offered = this.#first;
    if (this.#first < 32 || this.#first * 2 < this.#messages.length) return;
    this.#messages.splice(0, this.#first);
    this.#offered -= this.#first;
    this.#first = 0;
  }
  /** Drops everything except updates that are not accepted yet, which still have to be rejected (M8). */
  clear(): void {
    this.#takers.length = 0;
    this.#receive = undefined;
    this.#replace(this.#waiting.filter((message) => message.type === "update" && !message.accepted));
  }
  /** Unconsumed signals, which move to the next execution (P10). */
  get signals(): Signal[] {
    return this.#waiting.filter((message) => message.type === "signal");
  }
  /** The messages that a commit records (L3, R11). Updates that are not accepted yet don't belong to the run. */
  snapshot(): BufferedMessage[] {
    return this.#waiting
      .filter((message) => message.type !== "update" || message.accepted)
      .map((message): BufferedMessage => {
        if (message.type === "fire") return { type: "fire", seq: message.seq };
        if (message.type === "signal") return { type: "signal", id: message.id, name: message.name, payload: message.payload };
        return { type: "update", id: message.id, name: message.name, input: message.input };
      });
  }
  /** Restores the messages of a commit and keeps those that arrived in its turn; all others were consumed before it. */
  restore(messages: readonly BufferedMessage[]): void {
    const restored = this.#waiting.filter((message) => this.#arrived.has(message));
    let at = 0; // M2: messages of the commit keep their order relative to each other
    for (const message of messages) {
      const index = restored.findIndex((one) => isSame(one, message));
      if (index >= 0) at = index + 1;
      else
        restored.splice(at++, 0, message.type === "update" ? { ...message, validate: false, isPatient: false, accepted: true } : message);
    }
    this.#replace(restored);
  }

  // ── waits and the receive ──

  /** The open receive, if there is one (R1: one at a time). */
  get receive(): UpdateTaker | undefined {
    return this.#receive;
  }
  enter(taker: Taker): void {
    this.#takers.push(taker);
    this.wake();
  }
  enterReceive(receive: UpdateTaker): void {
    this.#receive = receive;
    this.enter(receive);
  }
  leave(taker: Taker): void {
    const index = this.#takers.indexOf(taker);
    if (index >= 0) this.#takers.splice(index, 1);
    if (this.#receive === taker) this.#receive = undefined;
    this.wake();
  }
  /** Records that a wait or receive for these names ended without a message (D9). */
  leftUnmet(names: readonly string[]): void {
    for (const name of names) this.#unmet.add(name);
  }
  get unmet(): ReadonlySet<string> {
    return this.#unmet;
  }
  /** Offers all messages again: an operation may have become ready for one that none accepted before. */
  wake(): void {
    this.#offered = this.#first;
  }
  /** Whether the same unit has started, in a later step, another wait for the signal name that this wait consumed (C5). */
  hasLaterWait({ unit, step, consumed }: Operation): boolean {
    if (consumed === undefined) return false;
    return this.#takers.some((taker) => taker.operation.unit === unit && taker.operation.step > step && taker.wants(consumed));
  }
  /** The operation that has waited longest for signals of this name (M6). */
  #firstFor(name: string): Taker | undefined {
    return this.#takers.find((taker) => taker.wants(name));
  }

  /** Removes and returns the oldest buffered signal that is wanted, unless an earlier waiter wants it too (M4). */
  pop(wants: (name: string) => boolean, self?: Taker): Signal | undefined {
    for (let i = this.#first; i < this.#messages.length; i++) {
      const message = this.#messages[i] as Message;
      if (message.type !== "signal" || !wants(message.name)) continue;
      const first = this.#firstFor(message.name);
      if (first !== undefined && first !== self) continue;
      this.#remove(message);
      return message;
    }
    return undefined;
  }

  // ── the turn (X6) ──

  /** Delivers the next message that an operation accepts. False if there is none. */
  takeNext(): boolean {
    for (; this.#offered < this.#messages.length; this.#offered++) {
      if (this.#offer(this.#messages[this.#offered] as Message)) return true;
    }
    return false;
  }
  #offer(message: Message): boolean {
    switch (message.type) {
      case "signal": {
        const taker = this.#firstFor(message.name);
        if (taker === undefined || !taker.ready) return false;
        this.#remove(message);
        taker.take(message);
        return true;
      }
      case "update": {
        const receive = this.#receive;
        if (receive === undefined || !receive.ready || !receive.handles(message.name)) return false;
        this.#remove(message);
        if (message.accepted || this.#accept(message, receive)) receive.takeUpdate(message);
        return true;
      }
      case "fire": {
        const operation = this.#execution.operations.get(message.seq);
        if (operation !== undefined && operation === this.#receive?.operation && !this.#receive.ready) return false;
        this.#remove(message);
        operation?.behaviour.fire?.(operation);
        return true;
      }
    }
  }
  /** Validates an update and records its acceptance before its handler runs; a rejected update leaves no trace (M9, M10). */
  #accept(update: Update, receive: UpdateTaker): boolean {
    const error = receive.refuses(update);
    if (this.#execution.poison !== undefined) return false;
    if (error !== undefined) {
      this.#reject(update, error);
      return false;
    }
    update.accepted = true;
    this.#execution.emit({ type: "acceptUpdate", seq: receive.operation.seq, id: update.id });
    return true;
  }
  #reject(update: Update, error: Error): void {
    this.#execution.replies.push({ type: "rejectUpdate", id: update.id, error: serializeError(error) });
  }

  /** At the end of an activation: accepts updates behind a busy handler (R7), keeps those that may wait, rejects the others (M8). */
  closeTurn(): void {
    const undecided = this.#undecided;
    this.#undecided = [];
    for (const message of undecided) {
      if (message.accepted || !this.#messages.includes(message, this.#first)) continue;
      const receive = this.#receive;
      if (receive !== undefined && !receive.closing && receive.handles(message.name)) {
        if (!this.#accept(message, receive)) this.#remove(message);
      } else {
        this.#remove(message);
        if (message.isPatient) {
          this.#execution.replies.push({ type: "keepUpdate", id: message.id });
          continue;
        }
        this.#reject(message, new UpdateRejectedError({ update: message.name, reason: NO_OPEN_RECEIVE }));
      }
    }
  }
  /** Removes and returns accepted updates that a closing receive will not handle (R6). */
  takeAccepted(): Update[] {
    const accepted = this.#waiting.filter((message): message is Update => message.type === "update" && message.accepted);
    for (const update of accepted) this.#remove(update);
    return accepted;
  }
}

function isSame(a: Message, b: BufferedMessage): boolean {
  if (a.type === "fire") return b.type === "fire" && a.seq === b.seq;
  return b.type !== "fire" && a.id === b.id;
}
