// An operation: a durable call on a ctx, from its opening record to the delivery of its result.
// Owns: the promise given to user code, and the settlement until it is delivered.
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

/** The result of an operation. Payloads are decoded when they are delivered. */
export type Settlement =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: true; readonly payload: Payload }
  | { readonly ok: false; readonly error: Error };

/** The events of an open operation. One object serves all operations of a kind, or a single operation that has state. */
export interface Behaviour {
  /** Its unit was cancelled (K1). */
  cancel?(operation: Operation, error: Error): void;
  /** The host has carried it out. */
  outcome?(operation: Operation, outcome: Outcome): void;
  /** Its timer is due. */
  fire?(operation: Operation): void;
  /** Its child run was created. */
  childStarted?(operation: Operation, runId: string): void;
  /** Replay has reached its commit (L3, R11). */
  restore?(operation: Operation, commit: CommitCommand): void;
}
const INERT: Behaviour = {};

const ignore = () => {};

/** The command that cancels an open operation: a `cancel` for the host, or a `settle` for operations of the executor. */
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
  /** The number of the unit's step that opened it. */
  readonly step: number;
  /** For a wait that had to pause: the name of the signal that it consumed (C5). */
  consumed: string | undefined;
  /** The call did not open an operation (it was refused, or the run is poisoned); only its promise is used. */
  closed = false;
  /** Why this loop or receive can't commit any more: code outside depends, through an ivar or a condition, on what happened inside (L3). */
  entangled: string | undefined;
  /** Replay: history has a later commit of this loop or receive (L3, R11). */
  committed = false;
  /** Replay: its recorded opening command, whose options stay in force (Y2). */
  recorded: OpeningCommand | undefined;
  /** A wait or timer, which is cancelled when its unit's function returns (P3). Other operations are joined. */
  floating = false;
  /** A condition with a timeout. */
  timed = false;
  /** A cancel was sent and the outcome is still awaited (C7). */
  joining = false;
  /** How it reacts to jobs and cancellation. */
  behaviour: Behaviour = INERT;
  /** The function that the host runs for it: for a step, transaction, rollback or scheduled side effect. */
  body: StepBody | undefined;
  /** For a child: its definition from the parent's code. Not recorded: its retry and deadline concern only the child run. */
  child: AnyWorkflow | undefined;
  /** For a child of a copied turn that this fork starts again: the id of the fork's own child (F1). */
  childId: string | undefined;
  /** Runs in the unit's turn, just before delivery (A6). */
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
  /** The operation in words, for errors and `waitingFor`: `step charge`. */
  get description(): string {
    return describeOperation(this.kind, this.unit.path, this.name, this.n);
  }

  /** Delivers the result to user code. Called only in its unit's turn. */
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
    else this.promise.catch(ignore); // X11: there may be no code that awaits it yet
    remember(error);
    this.#reject(error);
  }
}

const deliveredErrors = new WeakSet<object>();
/** Remembers an error that is given to workflow code, to recognize it in unhandled rejections (see `isDeliveredError`). */
export function remember<E>(error: E): E {
  if (typeof error === "object" && error !== null) deliveredErrors.add(error);
  return error;
}

/**
 * Whether this error, or one of its causes, was given to workflow code by ctx or an operation. Hosts check it for unhandled
 * rejections: those of promises derived from operations must not reach the process.
 * @example
 * ```ts
 * const order = workflow("order", async (ctx) => {
 *   const failed = ctx.step("charge", () => Promise.reject(new FatalError("declined")));
 *   return failed.catch((error) => isDeliveredError(error));
 * });
 * const engine = await testEngine({ workflows: [order] });
 * console.log(await (await engine.start(order)).result()); // true
 * console.log(isDeliveredError(new Error("from elsewhere"))); // false
 * await engine.close();
 * ```
 */
export function isDeliveredError(error: unknown): boolean {
  return causesOf(error).some((one) => deliveredErrors.has(one));
}

/** A rejected promise for a call that fails immediately, marked as handled so that it is not an unhandled rejection (X11). */
export function rejected(error: unknown): Promise<never> {
  remember(error);
  return handled(Promise.reject(error));
}
/** Marks a promise as handled, so that a rejection before it is awaited is not unhandled (X11). */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(ignore);
  return promise;
}

/** A promise that never settles, for calls of a poisoned or evicted run (X10). */
export function never(): Promise<never> {
  return new Promise(ignore);
}
