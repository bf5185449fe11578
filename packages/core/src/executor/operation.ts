// A durable call on a ctx, from its opening record to the delivery of its result.
// Owns: the promise handed to user code, and the settlement until the unit takes it.
// Invariants: C5 (delivered when its unit has the turn), X10 (a promise that is not delivered never settles), X11 (a rejection
// is handled before user code sees it), Y3 (settled once).

import { causesOf } from "../base/errorParts.ts";
import type { AnyWorkflow } from "../model/index.ts";
import {
  type CancelCommand,
  type CommitCommand,
  HOST_OR_INLINE_KINDS,
  type OpeningCommand,
  type Outcome,
  type Payload,
  type SettleCommand,
} from "../protocol/index.ts";
import { describeOperation, formatLocation } from "../protocol/location.ts";
import type { StepBody } from "./operations/steps.ts";
import { lookForLost, watchFailure } from "./unheardResults.ts";
import type { Unit } from "./unit.ts";
import { WaitPromise } from "./waitPromise.ts";

/** What an operation came to. Payloads are decoded when they are delivered. */
export type Settlement =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: true; readonly payload: Payload }
  | { readonly ok: false; readonly error: Error };

/** What can happen to an open operation; one object serves all operations of a kind, or one that has state of its own. */
export interface Behaviour {
  /** Its unit is cancelled (K1). */
  cancel?(operation: Operation, error: Error): void;
  /** The host has carried it out. */
  outcome?(operation: Operation, outcome: Outcome): void;
  /** Its timer is due. */
  fire?(operation: Operation): void;
  /** Its child exists. */
  childStarted?(operation: Operation, runId: string): void;
  /** A commit is reached in replay (L3, R11). */
  restore?(operation: Operation, commit: CommitCommand): void;
}
const INERT: Behaviour = {};

const ignore = () => {};

/** What gives up an open operation: the host is told of its own, the others are settled. */
export function givingUp(kind: string, seq: number): CancelCommand | SettleCommand {
  return HOST_OR_INLINE_KINDS.has(kind) ? { type: "cancel", seq } : { type: "settle", seq, status: "canceled" };
}

export class Operation {
  readonly unit: Unit;
  readonly kind: string;
  readonly name: string;
  readonly n: number;
  seq: number;
  readonly promise: Promise<unknown>;
  settlement: Settlement | undefined;
  /** The step of its unit that opened it. */
  readonly step: number;
  /** Of a wait for signals that did not find one at once: the name of the message that it consumed (C5). */
  consumed: string | undefined;
  /** It never became an operation (refused, or the run is poisoned): its promise is all there is. */
  closed = false;
  /** By what means units outside this loop or receive have seen what happened inside it, in memory alone: it can't commit any more (L3). */
  entangled: string | undefined;
  /** Replay: history has a commit for this loop or receive further on (L3, R11). */
  committed = false;
  /** Replay: its opening command as history has it. What it says of options stays in force (Y2). */
  recorded: OpeningCommand | undefined;
  /** A wait or timer: given up when its unit's function returns (P3). Others are joined. */
  floating = false;
  /** Of a condition: it has a timeout. */
  timed = false;
  /** A cancel was sent and the outcome is still awaited (C7). */
  joining = false;
  /** What jobs and cancellation do to it. */
  behaviour: Behaviour = INERT;
  /** What the host runs for it, if it is a step or the like. */
  body: StepBody | undefined;
  /** Of a child: its definition as the parent's code has it. Not recorded: what it says of retry and deadline is the child's own affair. */
  child: AnyWorkflow | undefined;
  /** Runs in the unit's turn just before delivery (A6). */
  beforeDelivery: (() => Settlement) | undefined;
  #resolve: (value: unknown) => void = ignore;
  #reject: (error: unknown) => void = ignore;

  constructor(unit: Unit, kind: string, name: string, n: number, seq: number) {
    this.unit = unit;
    this.kind = kind;
    this.name = name;
    this.n = n;
    this.seq = seq;
    this.step = unit.steps;
    const keep = (resolve: (value: unknown) => void, reject: (error: unknown) => void): void => {
      this.#resolve = resolve;
      this.#reject = reject;
    };
    this.promise = kind === "signal" ? new WaitPromise(keep) : new Promise(keep);
  }

  get location(): string {
    return formatLocation(this.unit.path, this.name, this.n);
  }
  /** In words, for errors and `waitingFor`: `step charge`. */
  get description(): string {
    return describeOperation(this.kind, this.unit.path, this.name, this.n);
  }

  /** Hands the result to user code. Only in its unit's turn. */
  deliver(): void {
    if (this.beforeDelivery !== undefined) this.settlement = this.beforeDelivery();
    const settlement = this.settlement;
    if (settlement === undefined) return;
    if (!settlement.ok) this.#fail(settlement.error);
    else if ("value" in settlement) {
      if (this.consumed !== undefined) lookForLost(this, settlement.value);
      this.#resolve(settlement.value);
    } else {
      try {
        this.#resolve(this.unit.execution.decode(settlement.payload));
      } catch (error) {
        this.#fail(error as Error);
      }
    }
  }
  #fail(error: Error): void {
    const { options, replaying } = this.unit.execution;
    if (options.withholdsRejections && !replaying) watchFailure(this, error);
    else this.promise.catch(ignore); // X11: no code may be awaiting it yet
    remember(error);
    this.#reject(error);
  }
}

const deliveredErrors = new WeakSet<object>();
/** The error goes to workflow code, which may throw anything and leave any promise alone. */
export function remember<E>(error: E): E {
  if (typeof error === "object" && error !== null) deliveredErrors.add(error);
  return error;
}

/**
 * X11: is this error, or one that it was caused by, one that ctx or an operation gave to workflow code? Hosts ask it of unhandled
 * rejections: those of promises derived from operations are the workflow's affair, not the process's.
 */
export function isDeliveredError(error: unknown): boolean {
  return causesOf(error).some((one) => deliveredErrors.has(one));
}

/** A rejected promise for a call that fails at once, handled so that it troubles nobody before it is awaited (X11). */
export function rejected(error: unknown): Promise<never> {
  remember(error);
  return handled(Promise.reject(error));
}
/** X11: if it rejects before anybody awaits it, nobody is troubled. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(ignore);
  return promise;
}

/** X10: what a poisoned or evicted run hands out. */
export function never(): Promise<never> {
  return new Promise(ignore);
}
