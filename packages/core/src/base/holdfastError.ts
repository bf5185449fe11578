// HoldfastError: what all errors of Holdfast have in common, and the register of their classes.
// Owns the link between a class and its catalog entry: name on the prototype (so that stacks open with it), code and retryable on each instance.
// Invariants: `name` is the class name even in minified code; a user's subclass keeps the code of the class it extends.
import { type ErrorEntry, type ErrorName, entryByName } from "./catalog.ts";

export interface HoldfastErrorOptions {
  cause?: unknown;
  /** For errors of hosts and tools that have no class of their own. */
  code?: `HF_${string}`;
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

/** The class of that name, if it is one of ours. */
export function holdfastErrorClass(name: string): ErrorClass | undefined {
  return classes.get(name);
}

export class HoldfastError extends Error {
  static {
    declareError(this, "HoldfastError");
  }

  readonly code: string;
  /** Would trying the same thing again help? */
  readonly retryable: boolean;

  constructor(message: string, options: HoldfastErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    if (!entries.has(new.target)) nameAfterSubclass(this, new.target.name);
    const entry = entryOfClass(new.target);
    this.code = options.code ?? entry.code;
    this.retryable = options.retryable ?? entry.retryable;
  }
}

/** A class that a user derived from one of ours goes by its own name, unless its prototype already says otherwise. */
function nameAfterSubclass(error: Error, name: string): void {
  const inherited = entryByName(error.name) !== undefined;
  if (inherited && name !== "") Object.defineProperty(error, "name", { value: name, writable: true, configurable: true });
}

/** Of the class itself, or of the nearest of ours that it extends. */
export function entryOfClass(type: unknown): ErrorEntry {
  for (let at = type; typeof at === "function"; at = Object.getPrototypeOf(at)) {
    const entry = entries.get(at);
    if (entry !== undefined) return entry;
  }
  throw new TypeError("not a class of HoldfastError");
}
