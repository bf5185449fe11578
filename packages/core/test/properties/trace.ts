// Job: write what a program saw as plain JSON, the same for real errors and for those of the reference interpreter.
// Owns: the text of an error and of a result; it knows errors by their shape alone.
// Invariants: the text says which error it is and where it came from, and nothing that a replay may change (no stack, no wording).

interface ErrorShape {
  readonly name: string;
  readonly message?: string;
  readonly cause?: unknown;
  readonly errors?: Readonly<Record<string, unknown>>;
}
/** Errors that programs throw; of all others the name says enough. */
const WORDED: ReadonlySet<string> = new Set(["Error", "FatalError", "RollbackError"]);

export function describeError(error: unknown): string {
  if (typeof error !== "object" || error === null) return `thrown ${String(error)}`;
  const { name, message, cause, errors } = error as ErrorShape;
  if (WORDED.has(name)) return `${name}:${message ?? ""}`;
  if (name === "AggregateError")
    return `${name}{${Object.values(errors ?? {})
      .map(describeError)
      .join(",")}}`;
  if (errors !== undefined) {
    const parts = Object.entries(errors).map(([key, one]) => `${key}=${describeError(one)}`);
    return `${name}{${parts.join(",")}}`;
  }
  return cause === undefined ? name : `${name}(${describeError(cause)})`;
}

/** A result as the trace keeps it: errors as text, undefined as null, handles by their id. */
export function render(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(render);
  if (isErrorShape(value)) return describeError(value);
  if ("result" in value && "id" in value) return `handle ${String(value.id)}`;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, render(one)]));
}
function isErrorShape(value: object): boolean {
  return value instanceof Error || ("isFailure" in value && value.isFailure === true);
}
