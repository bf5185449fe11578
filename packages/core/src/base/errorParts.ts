// Splits an error into the parts that are stored, and rebuilds an error from them.
// Owns which parts survive and which class the rebuilt error has. The codec decides how the parts are encoded.
// Invariants: never throws, even if an error's getters do; splitting a rebuilt error yields the same parts (P8, Y4).

import { type ErrorEntry, type ErrorName, entryByCode, entryByName } from "./catalog.ts";
import { entryOfClass, HoldfastError, holdfastErrorClass } from "./holdfastError.ts";
import { isInstance, preview, read, tagOf } from "./text.ts";

export interface ErrorParts {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  /** Undefined if the error has no cause. */
  readonly cause: unknown;
  /** All other fields of the error: `status`, `step`, `errors` … */
  readonly fields: ReadonlyMap<string, unknown>;
  /** True if the error only shares its name with a Holdfast class (axios has a CanceledError too). */
  readonly foreign: boolean;
}

/** An error as it is stored: plain JSON. Values in `data` that JSON lacks are tagged as in the codec. */
export interface SerializedError {
  /** The name of its class. */
  name: string;
  /** Its message. */
  message: string;
  /** Its stack, if it had one. */
  stack?: string;
  /** The error behind it. */
  cause?: SerializedError;
  /** All other fields of the error, as tagged JSON. */
  data?: unknown;
}

/** The name of the error that wraps a thrown value which is not an Error. Its field `value` holds the thrown value. */
export const NON_ERROR = "NonError";

/** Whether the value is an Error, including errors of other realms (vm contexts). */
export function isError(value: unknown): value is Error {
  return isInstance(value, Error) || tagOf(value) === "Error";
}

/** Returns a thrown Error as it is, and wraps any other thrown value in a "NonError". */
export function toError(thrown: unknown): Error {
  if (isError(thrown)) return thrown;
  const error = makeError(NON_ERROR, nonErrorMessage(thrown));
  setField(error, "value", thrown);
  return error;
}

/** The message of any thrown value. */
export function messageOf(thrown: unknown): string {
  if (!isError(thrown)) return nonErrorMessage(thrown);
  const message = read(thrown, "message");
  return typeof message === "string" ? message : preview(message);
}

/** The inverse of `toError`: returns the wrapped value, or the error itself. A value that would get another message stays wrapped. */
export function unwrapNonError(error: Error): unknown {
  if (error.name !== NON_ERROR || !("value" in error) || error.value === undefined) return error;
  return isError(error.value) || nonErrorMessage(error.value) !== error.message ? error : error.value;
}

function nonErrorMessage(thrown: unknown): string {
  return typeof thrown === "string" ? thrown : `${preview(thrown)} was thrown, which is not an Error`;
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

/** Found by class, otherwise by code: a second copy of this package in the process has different classes but the same codes. */
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

/** The name of the Holdfast class that the error is an instance of. For a user's subclass: the class that it extends. */
export function kindOfError(error: unknown): ErrorName | undefined {
  // Safe cast: every entry comes from the catalog.
  return isError(error) ? (entryOf(error, classNameOf(error))?.name as ErrorName | undefined) : undefined;
}

/** The catalog entry of a Holdfast error. A user's subclass has its own name and the code of the class that it extends. */
export function entryFor(name: string, code: unknown): ErrorEntry | undefined {
  if (builtIns.has(name)) return undefined;
  return entryByName(name) ?? (typeof code === "string" ? entryByCode(code) : undefined);
}

/** The error's `name`, or the name of its class if the class did not set one. */
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
  // Values that the catalog supplies are not stored. A user's subclass keeps its code, which says which class it extends.
  if (entry?.name === name && fields.get("code") === entry.code) fields.delete("code");
  if (entry !== undefined && fields.get("retryable") === entry.retryable) fields.delete("retryable");
  return fields;
}

function fieldNames(error: Error): string[] {
  try {
    const names = Object.keys(error);
    // AggregateError's `errors` is the only field of a built-in error that is not enumerable.
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
 * Creates an error of the entry's class, otherwise of the built-in class of that name, without stack, cause and fields.
 * Constructors are not called, because they would compose a new message; the result is still a native Error to the JavaScript engine.
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

/** Assigns instead of defining the property: before a define, V8 formats the old stack, which costs more than everything else here. */
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

const MOST_CAUSES = 16;
/** The error and its causes, as far as they can be read. */
export function causesOf(error: unknown): object[] {
  const causes: object[] = [];
  for (let at = error; typeof at === "object" && at !== null && causes.length < MOST_CAUSES; at = read(at, "cause")) causes.push(at);
  return causes;
}
