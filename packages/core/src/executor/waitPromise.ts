// The promise of a wait for signals: a promise that knows what listens to it.
// Owns: its listeners, and whether the value that it got reached one of them. Warnings are the business of unheardResults.ts.
// Invariants: C5 (a Promise.race that is over hears nothing more). To workflow code it is a native promise: its `constructor` is Promise,
// so `await` takes it as it is, and its listeners run in the microtasks in which those of a native promise would.
//
// What can be seen: every listener reads `constructor` (await, Promise.resolve) or calls `then`. Which of them is a Promise.race (or any) is read
// from the stack, and whether that race is over from its resolve function: only while it is pending does that read `then` of an object
// that it is given. Where the stack does not say (engines other than V8), a listener counts as one that hears.
// One difference is left: a callback that settles another member of the race that its own promise is in comes first, not that member.
// These properties are on a prototype of its own: on a promise itself they would slow down all promises of the process in V8.

type Resolve = (value: unknown) => void;

interface Listener {
  readonly hears: boolean;
}
const HEARS: Listener = { hears: true };

/** A Promise.race or Promise.any that has the promise among its members. */
class Race implements Listener {
  hears = true;
  readonly #resolve: Resolve;

  constructor(resolve: Resolve) {
    this.#resolve = resolve;
  }
  /** Gives it the value a microtask ahead of the reaction; a race that is pending takes one more to read it. */
  offer(value: unknown): void {
    let isPending = false;
    const probe = {
      // biome-ignore lint/suspicious/noThenProperty: the race reads it while it is pending
      get then() {
        isPending = true;
        return (resolve: Resolve) => resolve(value);
      },
    };
    this.#resolve(probe);
    this.hears = isPending;
  }
}

export class WaitPromise<T = unknown> extends Promise<T> implements Listener {
  readonly #listeners: Listener[] = [];
  /** Of one that `then` derived: from which. */
  // biome-ignore lint/style/useReadonlyClassProperties: set by the `then` of another instance
  #source: WaitPromise | undefined;
  #isOffered = false;
  #isInThen = false;

  /** Has its value reached code, or may it still? Where nothing listens, the code may await it later. */
  get hears(): boolean {
    if (this.#source !== undefined && !this.#isOffered) return true;
    return this.#listeners.length === 0 || this.#listeners.some((listener) => listener.hears);
  }

  /** The value is about to resolve it. Nothing is done ahead where something else listens, which would run before the races. */
  offer(value: unknown): void {
    if (isThenable(value) || !this.#isAlone) return;
    this.#isOffered = true;
    const races = this.#listeners.filter((listener) => listener instanceof Race);
    if (races.length === this.#listeners.length) for (const race of races) race.offer(value);
  }

  /** Does the value that its source got go to it alone? */
  get #isAlone(): boolean {
    return this.#source === undefined || (this.#source.#listeners.length === 1 && this.#source.#isAlone);
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise
  override then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    if (isCalledByRace(this.then)) {
      if (this.#listeners.at(-1) === HEARS) this.#listeners.pop(); // it has read `constructor` just now
      this.#listeners.push(new Race(onFulfilled as unknown as Resolve));
      return this.#then(onFulfilled, onRejected);
    }
    const derived: Promise<A | B> = this.#then((value) => {
      const result = typeof onFulfilled === "function" ? onFulfilled(value) : (value as unknown as A);
      // A callback that returns nothing has used the value itself.
      if (result !== undefined && derived instanceof WaitPromise) derived.offer(result);
      return result;
    }, onRejected);
    if (derived instanceof WaitPromise) {
      derived.#source = this as WaitPromise;
      this.#listeners.push(derived);
    }
    return derived;
  }
  #then<A, B>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#isInThen = true;
    try {
      return super.then(onFulfilled, onRejected);
    } finally {
      this.#isInThen = false;
    }
  }

  /** Read by every listener but `then`; `then` reads it for the class of the promise that it derives. */
  override get ["constructor"](): PromiseConstructor {
    if (this.#isInThen) return WaitPromise;
    this.#listeners.push(HEARS);
    return Promise;
  }
}

function isThenable(value: unknown): boolean {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  try {
    return "then" in value;
  } catch {
    return true;
  }
}

const RACE = /^(?:\w+\.)?(?:race|any) \(<anonymous>\)$/;

interface StackTraces {
  stackTraceLimit?: unknown;
  prepareStackTrace?: unknown;
  captureStackTrace?(holder: object, below: unknown): void;
}
const frames = (_holder: unknown, calls: unknown): unknown => calls;
/** V8: is the caller of this method the native Promise.race, or Promise.any? */
function isCalledByRace(method: unknown): boolean {
  const engine = Error as unknown as StackTraces;
  if (engine.captureStackTrace === undefined) return false;
  try {
    return RACE.test(callerOf(method, engine as Required<StackTraces>));
  } catch {
    return false; // Error is frozen, or patched
  }
}
/** The settings of the process, and what it does with stacks, have no part in it, and are as they were after it. */
function callerOf(method: unknown, engine: Required<StackTraces>): string {
  const holder: { stack?: unknown } = {};
  const { stackTraceLimit, prepareStackTrace } = engine;
  try {
    engine.stackTraceLimit = 1;
    engine.prepareStackTrace = frames;
    engine.captureStackTrace(holder, method);
    return Array.isArray(holder.stack) ? String(holder.stack[0]) : "";
  } finally {
    engine.stackTraceLimit = stackTraceLimit;
    engine.prepareStackTrace = prepareStackTrace;
  }
}
