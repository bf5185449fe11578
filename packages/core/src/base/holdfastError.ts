// HoldfastError: the base class of all errors of Holdfast, and the registry of their classes.
// Owns the link between a class and its catalog entry: name on the prototype (so that stacks begin with it), code and retryable on each
// instance.
// Invariants: `name` is the class name even in minified code; a user's subclass keeps the code of the class that it extends.
import { type ErrorEntry, type ErrorName, entryByName } from "./catalog.ts";

/** Options of a `HoldfastError`. */
export interface HoldfastErrorOptions {
  /** The error behind it. */
  cause?: unknown;
  /**
   * The code of the error. Set it for errors of hosts and tools that have no separate class.
   * @defaultValue the code of the class
   */
  code?: `HF_${string}`;
  /**
   * Whether repeating the same call can succeed.
   * @defaultValue as for the class
   */
  retryable?: boolean;
}

type ErrorClass = { readonly prototype: HoldfastError };

const entries = new Map<unknown, ErrorEntry>();
const classes = new Map<string, ErrorClass>();

/** Called once by each class, in its static block. */
export function declareError(type: ErrorClass, name: ErrorName): void {
  const entry = entryByName(name);
  if (entry === undefined) throw new TypeError(`${name} is missing in the error catalog`);
  Object.defineProperty(type.prototype, "name", { value: name, writable: true, configurable: true });
  entries.set(type, entry);
  classes.set(name, type);
}

/** The Holdfast class of that name, or undefined. */
export function holdfastErrorClass(name: string): ErrorClass | undefined {
  return classes.get(name);
}

/**
 * The base class of every error that Holdfast throws. Match on `code`, which never changes.
 * @example
 * ```ts
 * const engine = await Holdfast.open("memory:");
 * const error = await engine.run("nothing").result().catch((error) => error);
 * console.log(error instanceof HoldfastError && error.code); // "HF_RUN_NOT_FOUND"
 * await engine.close();
 * ```
 */
export class HoldfastError extends Error {
  static {
    declareError(this, "HoldfastError");
  }

  /** Stable code of the error, for example "HF_RUN_NOT_FOUND". */
  readonly code: string;
  /** Whether repeating the same call can succeed. */
  readonly retryable: boolean;

  constructor(message: string, options: HoldfastErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    if (!entries.has(new.target)) nameAfterSubclass(this, new.target.name);
    const entry = entryOfClass(new.target);
    this.code = options.code ?? entry.code;
    this.retryable = options.retryable ?? entry.retryable;
  }
}

/** Gives an error of a user's subclass the name of that subclass, unless its prototype already sets a name. */
function nameAfterSubclass(error: Error, name: string): void {
  const inherited = entryByName(error.name) !== undefined;
  if (inherited && name !== "") Object.defineProperty(error, "name", { value: name, writable: true, configurable: true });
}

/** The catalog entry of the class, or of the nearest Holdfast class that it extends. */
export function entryOfClass(type: unknown): ErrorEntry {
  for (let at = type; typeof at === "function"; at = Object.getPrototypeOf(at)) {
    const entry = entries.get(at);
    if (entry !== undefined) return entry;
  }
  throw new TypeError("not a subclass of HoldfastError");
}
