// The anatomy of errors: taking one apart into what is stored of it, and putting one together again.
// Owns which parts survive and which class an error comes back as; how the parts are encoded is the codec's business.
// Invariants: total, whatever an error's getters do; taking apart what was put together gives the same parts (P8, Y4).

import { type ErrorEntry, type ErrorName, entryByCode, entryByName } from "./catalog.ts";
import { entryOfClass, HoldfastError, holdfastErrorClass } from "./holdfastError.ts";
import { isInstance, preview, read, tagOf } from "./text.ts";

export interface ErrorParts {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  /** Undefined where there is none. */
  readonly cause: unknown;
  /** What else the error carries: `status`, `step`, `errors` … */
  readonly fields: ReadonlyMap<string, unknown>;
  /** It goes by the name of one of our classes (axios has a CanceledError too), but is none of ours. */
  readonly foreign: boolean;
}

/** An error as it is stored: plain JSON. What `data` holds beyond plain JSON is tagged as in the codec. */
export interface SerializedError {
  name: string;
  message: string;
  stack?: string;
  cause?: SerializedError;
  data?: unknown;
}

/** The name of an error that stands for a thrown value which is none; the value is in its field `value`. */
export const NON_ERROR = "NonError";

/** Errors of other realms (vm contexts) count. */
export function isError(value: unknown): value is Error {
  return isInstance(value, Error) || tagOf(value) === "Error";
}

/** What was thrown, as an Error: itself, or a "NonError" that holds the value. */
export function toError(thrown: unknown): Error {
  if (isError(thrown)) return thrown;
  const error = makeError(NON_ERROR, nonErrorMessage(thrown));
  setField(error, "value", thrown);
  return error;
}

/** The message of what was thrown, whatever that is. */
export function messageOf(thrown: unknown): string {
  if (!isError(thrown)) return nonErrorMessage(thrown);
  const message = read(thrown, "message");
  return typeof message === "string" ? message : preview(message);
}

/** The other way: the value that a "NonError" stands for, or the error itself. A value that would read differently when thrown stays wrapped. */
export function unwrapNonError(error: Error): unknown {
  if (error.name !== NON_ERROR || !("value" in error) || error.value === undefined) return error;
  return isError(error.value) || nonErrorMessage(error.value) !== error.message ? error : error.value;
}

function nonErrorMessage(thrown: unknown): string {
  return typeof thrown === "string" ? thrown : `${preview(thrown)} was thrown, which is no Error`;
}

const reserved = new Set(["name", "message", "stack", "cause"]);

export function takeApart(error: Error): ErrorParts {
  const name = classNameOf(error);
  const stack = read(error, "stack");
  const entry = entryOf(error, name);
  return {
    name,
    message: messageOf(error),
    stack: typeof stack === "string" ? stack : undefined,
    cause: read(error, "cause"),
    fields: fieldsOf(error, name, entry),
    foreign: entry === undefined && entryByName(name) !== undefined,
  };
}

/** By its class, or else by its code: a second copy of this package in the process has other classes, but the same codes. */
function entryOf(error: Error, name: string): ErrorEntry | undefined {
  if (isInstance(error, HoldfastError)) return entryOfOurs(error);
  const code = read(error, "code");
  return typeof code === "string" && entryByCode(code) !== undefined ? entryFor(name, code) : undefined;
}

function entryOfOurs(error: HoldfastError): ErrorEntry {
  try {
    return entryOfClass(error.constructor);
  } catch {
    return entryOfClass(HoldfastError); // its constructor was replaced, or can't be read
  }
}

/** Which class of ours an error is of, or of a user's subclass of it. */
export function kindOfError(error: unknown): ErrorName | undefined {
  // Entries have no other names than the catalog's.
  return isError(error) ? (entryOf(error, classNameOf(error))?.name as ErrorName | undefined) : undefined;
}

/** The catalog entry of an error of ours; a user's subclass has a name of its own and the code of the class it extends. */
export function entryFor(name: string, code: unknown): ErrorEntry | undefined {
  if (builtIns.has(name)) return undefined;
  return entryByName(name) ?? (typeof code === "string" ? entryByCode(code) : undefined);
}

/** The name, or where a class did not set one, the name of the class. */
function classNameOf(error: Error): string {
  const name = read(error, "name");
  if (typeof name !== "string") return "Error";
  if (name !== "Error") return name;
  const type = read(error, "constructor");
  const className = typeof type === "function" ? read(type, "name") : undefined;
  return typeof className === "string" && className !== "" ? className : name;
}

function fieldsOf(error: Error, name: string, entry: ErrorEntry | undefined): Map<string, unknown> {
  const fields = new Map<string, unknown>();
  for (const key of fieldNames(error)) {
    if (reserved.has(key)) continue;
    const value = read(error, key);
    if (value !== undefined || name === NON_ERROR) fields.set(key, value);
  }
  // What the catalog says need not be stored; of a user's subclass the code is kept, since it tells which class it extends.
  if (entry?.name === name && fields.get("code") === entry.code) fields.delete("code");
  if (entry !== undefined && fields.get("retryable") === entry.retryable) fields.delete("retryable");
  return fields;
}

function fieldNames(error: Error): string[] {
  try {
    const names = Object.keys(error);
    // The one own field of a built-in that is not enumerable: AggregateError's.
    if (Object.hasOwn(error, "errors") && !names.includes("errors")) names.push("errors");
    return names;
  } catch {
    return [];
  }
}

const builtIns: ReadonlyMap<string, { readonly prototype: Error }> = new Map(
  [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError, AggregateError].map((type) => [type.name, type]),
);

/**
 * An error of the class that the entry stands for, or else of the built-in class of that name, without stack, cause and fields.
 * It is a real Error to the engine that we run on, whatever its class: constructors are not run again, they would compose a new message.
 */
export function makeError(name: string, message: string, entry?: ErrorEntry): Error {
  const type = (entry === undefined ? undefined : holdfastErrorClass(entry.name)) ?? builtIns.get(name) ?? Error;
  const error = Object.setPrototypeOf(new Error(message), type.prototype) as Error;
  setStack(error, undefined);
  if (error.name !== name) setHidden(error, "name", name);
  if (entry !== undefined) {
    setField(error, "code", entry.code);
    setField(error, "retryable", entry.retryable);
  }
  return error;
}

/** Assigned and not defined: to define it, V8 first formats the stack that is to be replaced, which takes longer than all the rest. */
export function setStack(error: { stack?: string | undefined }, stack: string | undefined): void {
  error.stack = stack;
}

export function setCause(error: Error, cause: unknown): void {
  setHidden(error, "cause", cause);
}

export function setField(error: Error, key: string, value: unknown): void {
  if (reserved.has(key)) return;
  const enumerable = !(key === "errors" && error instanceof AggregateError);
  Object.defineProperty(error, key, { value, enumerable, writable: true, configurable: true });
}

function setHidden(error: Error, key: string, value: unknown): void {
  Object.defineProperty(error, key, { value, enumerable: false, writable: true, configurable: true });
}
