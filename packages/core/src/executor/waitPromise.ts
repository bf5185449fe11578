// The promise of a wait for signals, which tracks its listeners.
// Owns: its listeners, and whether its value reached one of them. unheardResults.ts logs the warnings.
// Invariants: C5 (a Promise.race that has ended receives nothing more). Workflow code sees a native promise: its `constructor` is Promise,
// so `await` does not wrap it, and its listeners run in the same microtasks as those of a native promise.
//
// How it works: every listener reads `constructor` (await, Promise.resolve) or calls `then`. The stack shows whether the caller of `then`
// is Promise.race or Promise.any. Whether that race has ended shows its resolve function: it reads `then` of the object passed to it only
// while the race is pending. If the stack does not tell (engines other than V8), the listener counts as one that receives the value.
// One difference to a native promise remains: if a callback settles another member of the race that its own promise is in, the callback's
// promise wins the race, not that member.
// The properties are on a separate prototype: on a promise itself they would slow down all promises of the process in V8.

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
  /** Passes the value one microtask ahead of the reaction, because a pending race needs one more microtask to read it. */
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
  /** For a promise that `then` derived: the promise it was derived from. */
  // biome-ignore lint/style/useReadonlyClassProperties: set by the `then` of another instance
  #source: WaitPromise | undefined;
  #isOffered = false;
  #isInThen = false;

  /** Whether its value has reached code or still may. Without listeners it may: the code can await it later. */
  get hears(): boolean {
    if (this.#source !== undefined && !this.#isOffered) return true;
    return this.#listeners.length === 0 || this.#listeners.some((listener) => listener.hears);
  }

  /** Called before the value resolves it. Races get the value ahead only if nothing else listens, since that would run before them. */
  offer(value: unknown): void {
    if (isThenable(value) || !this.#isAlone) return;
    this.#isOffered = true;
    const races = this.#listeners.filter((listener) => listener instanceof Race);
    if (races.length === this.#listeners.length) for (const race of races) race.offer(value);
  }

  /** Whether it is the only listener of its source. */
  get #isAlone(): boolean {
    return this.#source === undefined || (this.#source.#listeners.length === 1 && this.#source.#isAlone);
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise
  override then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    if (isCalledByRace(this.then)) {
      if (this.#listeners.at(-1) === HEARS) this.#listeners.pop(); // Promise.race has just read `constructor`
      this.#listeners.push(new Race(onFulfilled as unknown as Resolve));
      return this.#then(onFulfilled, onRejected);
    }
    const derived: Promise<A | B> = this.#then((value) => {
      const result = typeof onFulfilled === "function" ? onFulfilled(value) : (value as unknown as A);
      // A callback that returns undefined has consumed the value itself.
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

  /** Read by every listener except `then`, which reads it to get the class of the derived promise. */
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
/** Whether the caller of this method is the native Promise.race or Promise.any (V8 only). */
function isCalledByRace(method: unknown): boolean {
  const engine = Error as unknown as StackTraces;
  if (engine.captureStackTrace === undefined) return false;
  try {
    return RACE.test(callerOf(method, engine as Required<StackTraces>));
  } catch {
    return false; // Error is frozen, or patched
  }
}
/** The first stack frame above the method. Does not depend on the stack settings of the process, and restores them. */
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
