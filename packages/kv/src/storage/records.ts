// Jobs and commands as stored values, and their keys.
// Owns: which fields of a record are in its key and which in its value.
// Invariants: decoding returns what was encoded, whatever kinds the core adds; a record of an operation is stored at the operation's
// location.

import type { Command, Job } from "@holdfast/core";
import {
  begin,
  finish,
  open,
  putByte,
  putFields,
  putNatural,
  putText,
  putValue,
  takeByte,
  takeFields,
  takeNatural,
  takeText,
  takeValue,
} from "./binary.ts";
import type { Locations } from "./layout.ts";
import type { Tuple } from "./tuple.ts";

export type HistoryRecord = Job | Command;

/** Properties of a turn, stored with each of its records. */
export interface TurnFacts {
  readonly time: number;
  readonly historyLength: number;
}

/** Append only: stored data refers to positions. 0 is for kinds that are not listed yet. */
const KINDS = [
  "", "start", "resolve", "fire", "childStarted", "signal", "update", "query", "cancel", "patch", "seed", "expire", "resume", "evict",
  "step", "transaction", "activity", "child", "sleep", "signalRun", "cancelRun", "rollback", "sideEffect", "childResult", "condition",
  "ivar", "updateState", "parallel", "join", "race", "try", "shield", "loop", "receive", "refuse", "reuse", "rollbackCheckpoint",
  "attributes", "settle", "winner", "dispatch", "acceptUpdate", "completeUpdate", "handlerFailed", "commit", "rollBack", "complete",
  "fail", "canceled", "continueAsNew",
]; // biome-ignore format: a table
const indexOfKind = new Map(KINDS.map((kind, index) => [kind, index]));

/** Flag in the first byte: a command, not a job. `signal` and `cancel` are both. */
const COMMAND = 128;
/** Flag in the first byte: a step with nothing but its number, or an outcome that is just a value. Most records are one of these. */
const SHORT = 64;

const IN_KEY: ReadonlySet<string> = new Set(["type", "unit", "name", "n"]);
const UNIT_IN_KEY: ReadonlySet<string> = new Set(["type", "unit"]);
const TYPE_ONLY: ReadonlySet<string> = new Set(["type"]);
/** Commands that are not at an operation's location: their `unit` has the location. */
const PLACED_BY_UNIT: ReadonlySet<string> = new Set(["dispatch", "handlerFailed", "commit"]);

export function isOpening(record: HistoryRecord): record is Extract<Command, { readonly n: number }> {
  return "n" in record;
}
export function isPlacedByUnit(record: HistoryRecord): record is Extract<Command, { type: "dispatch" | "handlerFailed" | "commit" }> {
  return PLACED_BY_UNIT.has(record.type);
}

// ── writing ──

export function encodeRecord(record: HistoryRecord, isCommand: boolean, facts: TurnFacts): Uint8Array {
  begin();
  const kind = indexOfKind.get(record.type) ?? 0;
  const short = isShort(record);
  putByte(kind | (isCommand ? COMMAND : 0) | (short ? SHORT : 0));
  if (kind === 0) putText(record.type);
  putNatural(facts.time);
  putNatural(facts.historyLength);
  if (short) {
    putNatural(record.seq);
    if (record.type === "resolve") putValue(record.outcome.value);
  } else putFields(record, isOpening(record) ? IN_KEY : isPlacedByUnit(record) ? UNIT_IN_KEY : TYPE_ONLY);
  return finish();
}

type ShortRecord =
  | Extract<Command, { type: "step" | "transaction" }>
  | (Extract<Job, { type: "resolve" }> & { outcome: { status: "completed" } });

function isShort(record: HistoryRecord): record is ShortRecord {
  if (record.type === "resolve") return record.outcome.status === "completed";
  return record.type === "step" && record.timeout === undefined && record.retry === undefined && record.rollback === undefined;
}

// ── reading ──

export interface StoredRecord {
  readonly record: HistoryRecord;
  readonly isCommand: boolean;
  readonly facts: TurnFacts;
}

/** `parts`: the location in the key; undefined for a record of the run itself. */
export function decodeRecord(value: Uint8Array, parts: Tuple | undefined, locations: Locations): StoredRecord {
  open(value);
  const first = takeByte();
  const isCommand = first >= COMMAND;
  const type = KINDS[first & 63] || takeText();
  const facts = { time: takeNatural(), historyLength: takeNatural() };
  const record: Record<string, unknown> = { type };
  if ((first & SHORT) !== 0) {
    record["seq"] = takeNatural();
    if (type === "resolve") record["outcome"] = { status: "completed", value: takeValue() };
    else place(record, parts ?? [], locations);
  } else {
    takeFields(record);
    if (isCommand && parts !== undefined) {
      if (PLACED_BY_UNIT.has(type)) record["unit"] = locations.expand(parts);
      else if (OPENINGS.has(type)) place(record, parts, locations);
    }
  }
  return { record: record as unknown as HistoryRecord, isCommand, facts };
}

function place(record: Record<string, unknown>, parts: Tuple, locations: Locations): void {
  const { name, n } = locations.nameOf(parts.at(-1));
  record["unit"] = parts.length === 1 ? "" : locations.expand(parts.slice(0, -1));
  record["name"] = name;
  record["n"] = n;
}

/** Commands about existing operations; all others at a location open one. */
const HAPPENINGS: ReadonlySet<string> = new Set(["settle", "winner", "cancel", "dispatch", "acceptUpdate", "completeUpdate", "handlerFailed", "commit"]); // biome-ignore format: one line
const OPENINGS = { has: (type: string): boolean => !HAPPENINGS.has(type) };
