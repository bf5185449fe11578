// Compares commands with their records, and describes commands in words.
// Owns: the comparison of fields; payloads are compared by what they decode to.
// Invariants: Y2 (all fields of identity are compared; options that only say how an operation is carried out are compared separately), F1 (in
// a fork, records may name the children of its source).

import type { Codec } from "../codec/index.ts";
import { sameValue } from "../codec/index.ts";
import { type Command, IDENTITY, OPTIONS, type OpeningCommand, PAYLOAD_FIELDS, type Payload } from "../protocol/index.ts";
import type { RenamedChildren } from "./replay/renamedChildren.ts";

/** Deep equality of identity fields. Payloads are equal if they are identical or decode to equal values. */
export interface Same {
  (a: unknown, b: unknown, field?: string): boolean;
  /** The value of a field for messages: payloads are decoded. */
  decode(value: unknown, field: string): unknown;
}

/** `renamed`: records that name the child of another run are the same as commands that name the fork's own child. */
export function sameBy(codec: Codec, renamed?: RenamedChildren): Same {
  const equal = (a: unknown, b: unknown): boolean =>
    sameValue(a, b) || (renamed !== undefined && sameValue(renamed.unified(a), renamed.unified(b)));
  const same = (a: unknown, b: unknown, field?: string): boolean => {
    if (a === b) return true;
    if (a === undefined || b === undefined) return false;
    if (field !== undefined && PAYLOAD_FIELDS.has(field)) {
      try {
        return equal(codec.decode(a as Payload), codec.decode(b as Payload));
      } catch {
        return false;
      }
    }
    return typeof a === "object" || renamed !== undefined ? equal(a, b) : false;
  };
  const decode = (value: unknown, field: string): unknown => {
    if (value === undefined || !PAYLOAD_FIELDS.has(field)) return value;
    try {
      return codec.decode(value as Payload);
    } catch {
      return value;
    }
  };
  return Object.assign(same, { decode });
}

export function isOpening(command: Command): command is OpeningCommand {
  return "n" in command;
}

/** The first field in which two commands differ; undefined if they are the same. */
export function difference(actual: Command, expected: Command, same: Same): string | undefined {
  if (actual.type !== expected.type) return "kind";
  if (isOpening(actual)) {
    const before = expected as OpeningCommand;
    if (actual.name !== before.name) return "name";
    if (actual.unit !== before.unit) return "unit";
    if (actual.n !== before.n) return "occurrence";
  }
  return differingField(actual, expected, IDENTITY[actual.type], same);
}

/** The first option in which two otherwise equal commands differ (Y2). */
export function changedOption(actual: Command, expected: Command, same: Same): string | undefined {
  const options = OPTIONS[actual.type];
  return options === undefined ? undefined : differingField(actual, expected, options, same);
}

function differingField(actual: Command, expected: Command, fields: readonly string[], same: Same): string | undefined {
  if (fields.length === 0) return undefined;
  const a = actual as unknown as Record<string, unknown>;
  const b = expected as unknown as Record<string, unknown>;
  for (const field of fields) {
    if (a[field] !== b[field] && !same(a[field], b[field], field)) return field;
  }
  return undefined;
}

/** `step "charge"`, `complete`, `settle of 7 (timedOut)`. */
export function describeCommand(command: Command): string {
  if (isOpening(command)) {
    const place = command.unit === "" ? "" : ` in ${command.unit}`;
    const again = command.n === 0 ? "" : ` (occurrence ${command.n + 1})`;
    return `${command.type} "${command.name}"${again}${place}`;
  }
  return describeOther(command);
}

function describeOther(command: Exclude<Command, OpeningCommand>): string {
  // biome-ignore lint/nursery/useExhaustiveSwitchCases: the compiler sees that it is
  switch (command.type) {
    case "settle":
      return `the end (${command.status}) of operation ${command.seq}`;
    case "winner":
      return `the win of "${command.key}" in race ${command.seq}`;
    case "cancel":
      return `the cancellation of operation ${command.seq}`;
    case "dispatch":
      return `the dispatch of message ${command.message} to ${command.unit}`;
    case "acceptUpdate":
      return `the acceptance of update ${command.id}`;
    case "completeUpdate":
      return `the ${command.status === "completed" ? "reply to" : "failure of"} update ${command.id}`;
    case "handlerFailed":
      return `the failure of handler ${command.unit}`;
    case "commit":
      return `commit ${command.count} of ${command.unit}`;
    case "rollBack":
      return "the start of the rollbacks";
    case "complete":
      return "the end of the workflow (completed)";
    case "fail":
      return `the failure of the workflow (${command.error.name}: ${command.error.message})`;
    case "canceled":
      return "the end of the workflow (canceled)";
    case "continueAsNew":
      return "the end of the workflow (continued as new)";
  }
}
