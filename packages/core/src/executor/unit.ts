// A unit: a schedulable thread of workflow code (the root, a branch, a handler, an iteration, a body).
// Owns: its open operations, the results that are not delivered yet, its counters of names and scopes, its cancellation.
// Invariants: P3 (over only when none of its operations is outstanding), C5 (one result per step), X3 (path and order are structural),
// X7 (its ctx works only in its turn), K1 K2 (cancellation reaches everything that is not shielded).

import type { CanceledError } from "../errors/index.ts";
import type { UnitOrder } from "../protocol/location.ts";
import { Random } from "../values/index.ts";
import { quietController } from "./abortSignals.ts";
import type { Execution } from "./execution.ts";
import type { Operation } from "./operation.ts";
import type { ReceiveScope } from "./operations/receive.ts";

/** What a unit may do (N). Iterations and bodies of `try` and `shield` have the role of the unit around them. */
export type Role = "root" | "branch" | "handler" | "asyncHandler" | "internal";

export type UnitOutcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: unknown };

export interface UnitOptions {
  readonly role: Role;
  readonly path: string;
  readonly parent: Unit | undefined;
  readonly order: UnitOrder;
  /** The receive whose handler it runs, if it runs one. */
  readonly receive?: ReceiveScope | undefined;
  readonly shielded?: boolean;
  /** The workflow code, called when the unit first gets the turn. */
  readonly run: (unit: Unit) => unknown;
  /** Called when the unit is over (P3). */
  readonly onEnd: (outcome: UnitOutcome, unit: Unit) => void;
}

const GATE = Symbol("gate");
const RANK_BRANCH = 0;
const RANK_HANDLER = 1;

export class Unit {
  readonly execution: Execution;
  readonly role: Role;
  readonly path: string;
  readonly parent: Unit | undefined;
  readonly order: UnitOrder;
  readonly receive: ReceiveScope | undefined;
  readonly shielded: boolean;
  readonly onEnd: (outcome: UnitOutcome, unit: Unit) => void;
  readonly children = new Set<Unit>();
  /** Operations that are open or not delivered yet, in order of emission. */
  readonly open = new Set<Operation>();
  /** Settled operations, to be delivered one per step. `GATE`: a removed operation has settled in history (V3). */
  readonly results: (Operation | typeof GATE)[] = [];
  readonly patches = new Map<string, boolean>();
  canceled: CanceledError | undefined;
  /** This unit, or one beneath it, has changed the state of its receive (A3). */
  wroteState = false;
  started = false;
  yielding = false;
  /** The number of steps so far. */
  steps = 0;
  /** Waits whose message may be lost (C5). */
  consumed: Set<Operation> | undefined;
  /** The outcome of its function. The unit may still have to join operations. */
  returned: UnitOutcome | undefined;
  over = false;
  /** It is in the list of the next round. */
  scheduled = false;
  /** Calls that are postponed until a removed operation has settled in history (V3). */
  postponed: (() => void)[] | undefined;
  #run: (unit: Unit) => unknown;
  #names: Map<string, number> | undefined;
  #lastName = "";
  #lastCount = 0;
  #scopes = 0;
  #random: Random | undefined;
  #controller: AbortController | undefined;
  #yielded: Promise<void> | undefined;
  #resumeYield: (() => void) | undefined;

  constructor(execution: Execution, options: UnitOptions) {
    this.execution = execution;
    this.role = options.role;
    this.path = options.path;
    this.parent = options.parent;
    this.order = options.order;
    this.receive = options.receive;
    this.shielded = options.shielded ?? false;
    this.onEnd = options.onEnd;
    this.#run = options.run;
    if (options.parent !== undefined) {
      options.parent.children.add(this);
      if (!this.shielded) this.canceled = options.parent.canceled;
    }
  }

  /** The path for messages: "root" instead of the empty path. */
  get title(): string {
    return this.path === "" ? "root" : this.path;
  }

  /** How often this unit has used a name before. Repeated use of one name, the common case, needs no map. */
  occurrence(name: string): number {
    if (name === this.#lastName) return ++this.#lastCount;
    this.#names ??= new Map();
    if (this.#lastName !== "") this.#names.set(this.#lastName, this.#lastCount);
    this.#lastName = name;
    this.#lastCount = (this.#names.get(name) ?? -1) + 1;
    return this.#lastCount;
  }
  /** Releases the number that `occurrence` just returned. */
  unuse(name: string): void {
    if (name === this.#lastName) this.#lastCount--;
  }

  /** The ordinal of this unit's next scope. */
  nextScope(): number {
    return this.#scopes++;
  }
  branchOrder(scope: number, index: number): UnitOrder {
    return [...this.order, RANK_BRANCH, scope, index];
  }
  handlerOrder(scope: number, dispatch: number, asynchronous: boolean): UnitOrder {
    return [...this.order, RANK_HANDLER, scope, dispatch, asynchronous ? 1 : 0];
  }

  get random(): Random {
    this.#random ??= new Random(this.execution.seed, this.path);
    return this.#random;
  }
  /** A new seed for the run: the next draw uses it. */
  reseed(): void {
    this.#random = undefined;
  }

  /** Aborts when this unit is cancelled. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = quietController((error) => this.execution.listenerFailed(this, error));
      if (this.canceled !== undefined) this.#controller.abort(this.canceled);
    }
    return this.#controller.signal;
  }

  /** Whether it has something to do in the next round. */
  get runnable(): boolean {
    return !this.over && (!this.started || this.yielding || this.results.length > 0);
  }

  /** Runs one step (X5): starts the function, ends a yield, or delivers one result. */
  step(): void {
    this.steps++;
    if (!this.started) {
      this.started = true;
      this.#start();
    } else if (this.yielding) {
      this.yielding = false;
      this.#resumeYield?.();
    } else {
      const result = this.results.shift();
      if (result === undefined) return;
      if (result === GATE) this.#passGate();
      else {
        this.open.delete(result);
        result.deliver();
      }
    }
  }
  #start(): void {
    const run = this.#run;
    this.#run = noCode;
    // Started in a microtask, so that the code before the first await runs like the code after it.
    Promise.resolve()
      .then(() => run(this))
      .then(
        (value) => this.execution.functionEnded(this, { ok: true, value }),
        (error: unknown) => this.execution.functionEnded(this, { ok: false, error }),
      );
  }
  /** `ctx.yield()`: pauses without a record. All yields of one step end together, as one resolution (C5). */
  yieldTurn(): Promise<void> {
    if (!this.yielding || this.#yielded === undefined) {
      this.yielding = true;
      this.#yielded = new Promise((resolve) => {
        this.#resumeYield = resolve;
      });
    }
    return this.#yielded;
  }

  /** The number of removed operations that this unit waits for in history (V3). */
  gates = 0;
  closeGate(): void {
    this.gates++;
    this.postponed ??= [];
  }
  /** A removed operation has settled in history: the unit gets a step for it, as it did when it was recorded. */
  openGate(): void {
    this.results.push(GATE);
    this.execution.scheduler.schedule(this);
  }
  #passGate(): void {
    this.gates--;
    const calls = this.postponed ?? [];
    while (calls.length > 0 && (this.gates === 0 || this.execution.matcher?.isDue(this) !== false)) calls.shift()?.();
    if (this.gates === 0) this.postponed = undefined;
  }
  /** Whether a call has to wait for its place in history (V3). Calls made concurrently with the removed operation don't. */
  get mustWait(): boolean {
    return this.postponed !== undefined && (this.postponed.length > 0 || this.execution.matcher?.isDue(this) === false);
  }
  /** Drops the pending results, because its function has returned. */
  dropResults(): void {
    const gates = this.results.filter((result) => result === GATE);
    this.results.splice(0, this.results.length, ...gates);
  }

  /** Cancels the unit: its operations, and those of unshielded units beneath it, throw (K1), and so do new ones (K2). */
  cancel(error: CanceledError): void {
    if (this.canceled !== undefined || this.over) return;
    this.canceled = error;
    if (this.#controller !== undefined) this.execution.abort(this.#controller, error);
    for (const operation of [...this.open]) {
      if (operation.settlement === undefined) operation.behaviour.cancel?.(operation, error);
    }
  }

  /** Discards everything without settling a promise (X10). */
  drop(): void {
    this.#run = noCode;
    this.open.clear();
    this.results.length = 0;
    this.#resumeYield = undefined;
  }
}

function noCode(): never {
  throw new Error("A unit starts once.");
}
