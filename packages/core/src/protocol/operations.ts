// The table of operations: one row for each kind of command that opens one.
// Owns: what hosts, lists and the executor need to know about a kind without knowing the kind. Every set of kinds is derived from it.
// Invariants: Y7 (each kind has one carrier, which settles it), V3 D12 (what can be recorded and taken out, and what is listed, has a kind
// that users know). To add an operation: its row, then what the compiler points at.

import type { Command, OpeningCommand } from "./command.ts";

/**
 * Who carries an operation out, and so how it settles.
 * Settled by a job: `worker` (the worker that has the run calls a function of the workflow's), `activityWorker`, `otherRun` (a message or
 * a start goes to another run), `clock`. Without one: `executor` (a `settle` command), `inline` (its record holds its value, or the host
 * carries it out like a step), `record` (it is over with its record), `history` (its outcome is in history already).
 */
export type Carrier = "worker" | "activityWorker" | "otherRun" | "clock" | "executor" | "inline" | "record" | "history";

interface OperationRow {
  readonly by: Carrier;
  /** As users name it: in `ctx.removed`, and where it is listed. Undefined: they know no such operation. */
  readonly kind: string | undefined;
  /** Has it a place in `run.operations()`? */
  readonly isListed: boolean;
  /** Has it attempts, which are retried by a policy and listed one by one? */
  readonly hasAttempts?: true;
  /** The host fires a timer for it: `own`, as what it waits for, or `timeout`, if it has one. */
  readonly timer?: "own" | "timeout";
  /** Units run inside it: as its parts, which say more about what a run waits for than it does, or as handlers of messages. */
  readonly units?: "parts" | "handlers";
  /** Replay may begin at a commit of it (L3, R11). */
  readonly commits?: true;
  /** It ends by what the workflow itself does, and by nothing else but its timer (C6). */
  readonly isInternal?: true;
  /** What people call it, if not by its type. */
  readonly words?: string;
}

/** One row for each kind. */
export const OPERATIONS = {
  step: { by: "worker", kind: "step", isListed: true, hasAttempts: true },
  transaction: { by: "worker", kind: "transaction", isListed: true, hasAttempts: true },
  rollback: { by: "worker", kind: "step", isListed: true, hasAttempts: true }, // S1: a step in a unit of the executor's
  activity: { by: "activityWorker", kind: "activity", isListed: true, hasAttempts: true },
  child: { by: "otherRun", kind: "child", isListed: true },
  signalRun: { by: "otherRun", kind: "signalRun", isListed: true, words: "delivery of signal" },
  cancelRun: { by: "otherRun", kind: "cancelRun", isListed: true, words: "cancellation of run" },
  sleep: { by: "clock", kind: "sleep", isListed: true, timer: "own" },
  signal: { by: "executor", kind: "signal", isListed: true, timer: "timeout" },
  childResult: { by: "executor", kind: "child", isListed: false, words: "result of child" },
  condition: { by: "executor", kind: "condition", isListed: true, timer: "timeout", isInternal: true },
  ivar: { by: "executor", kind: "ivar", isListed: true, isInternal: true },
  updateState: { by: "executor", kind: undefined, isListed: false },
  parallel: { by: "executor", kind: "parallel", isListed: true, units: "parts" },
  join: { by: "executor", kind: "join", isListed: true, units: "parts" },
  race: { by: "executor", kind: "race", isListed: true, units: "parts" },
  loop: { by: "executor", kind: "loop", isListed: true, units: "parts", commits: true },
  try: { by: "executor", kind: "try", isListed: true, units: "parts" },
  shield: { by: "executor", kind: "shield", isListed: true, units: "parts" },
  receive: { by: "executor", kind: "receive", isListed: true, units: "handlers", timer: "timeout", commits: true },
  sideEffect: { by: "inline", kind: "sideEffect", isListed: true },
  patch: { by: "record", kind: "patch", isListed: true },
  rollbackCheckpoint: { by: "record", kind: "rollbackCheckpoint", isListed: true },
  attributes: { by: "record", kind: "attributes", isListed: true },
  refuse: { by: "record", kind: undefined, isListed: false },
  reuse: { by: "history", kind: undefined, isListed: false },
} as const satisfies { readonly [T in OpeningCommand["type"]]: OperationRow };

type Table = typeof OPERATIONS;
type OperationType = keyof Table;
type TypesWhere<Row> = { [T in OperationType]: Table[T] extends Row ? T : never }[OperationType];

/** The kinds of operations, as users name them: in `ctx.removed` and in what `run.operations()` lists. */
export type OperationKind = Exclude<Table[OperationType]["kind"], undefined>;
/** The commands of the operations that one of these carries out: for switches that handle each of them, and say so to the compiler. */
export type CarriedOutBy<C extends Carrier> = Extract<OpeningCommand, { type: TypesWhere<{ by: C }> }>;
/** Operations that the host carries out; each is settled by a job. */
export type HostOperation = CarriedOutBy<"worker" | "activityWorker" | "otherRun" | "clock">;
/** Operations that end by a timer at the latest, if they have a timeout. */
type TimedOperation = Extract<OpeningCommand, { type: TypesWhere<{ timer: "own" | "timeout" }> }>;
type CommittingOperation = Extract<OpeningCommand, { type: TypesWhere<{ commits: true }> }>;

const ROWS: ReadonlyMap<string, OperationRow> = new Map(Object.entries(OPERATIONS));

/** The types of commands whose rows pass. Records may come from a later version: what has no row is in no set. */
export function operationsWhere(passes: (row: OperationRow) => boolean): ReadonlySet<string> {
  return new Set([...ROWS].flatMap(([type, row]) => (passes(row) ? [type] : [])));
}
export function carriedOutBy(...carriers: readonly Carrier[]): ReadonlySet<string> {
  return operationsWhere(({ by }) => carriers.includes(by));
}

/** Operations that the host carries out. An open side effect is the host's too, where it carries those out. */
export const HOST_KINDS = carriedOutBy("worker", "activityWorker", "otherRun", "clock");
export const HOST_OR_INLINE_KINDS = carriedOutBy("worker", "activityWorker", "otherRun", "clock", "inline");
/** Operations that are over when their timer fires. To the others a timer is a message like those that they wait for. */
export const CLOCK_KINDS = carriedOutBy("clock");
export const HAS_ATTEMPTS = operationsWhere(({ hasAttempts }) => hasAttempts === true);
/** Operations that consist of units. */
export const HAS_PARTS = operationsWhere(({ units }) => units === "parts");
export const IS_LISTED = operationsWhere(({ isListed }) => isListed);
/** Operations that something else settles. Those that consist of parts are left out: what is inside them tells more. */
export const IS_AWAITED = operationsWhere(({ by, units }) => by !== "inline" && by !== "record" && by !== "history" && units !== "parts");
const USER_KINDS: ReadonlySet<string> = new Set([...ROWS.values()].flatMap(({ kind }) => kind ?? []));
export const OPERATION_KINDS = [...USER_KINDS] as readonly OperationKind[];

export function isOperationKind(kind: unknown): kind is OperationKind {
  return typeof kind === "string" && USER_KINDS.has(kind);
}
/** What its caller calls it: also where the call was refused, or its outcome used again. */
export function kindOf(record: OpeningCommand): string | undefined {
  return record.type === "refuse" || record.type === "reuse" ? record.kind : ROWS.get(record.type)?.kind;
}
/** The type in words, for people. */
export function wordsOf(type: string): string {
  return ROWS.get(type)?.words ?? type;
}

/** Operations whose commits replay may begin at (L3, R11). */
export const COMMITTING_KINDS = operationsWhere(({ commits }) => commits === true);
export function isCommitting(command: Command): command is CommittingOperation {
  return COMMITTING_KINDS.has(command.type);
}

const TIMED = operationsWhere(({ timer }) => timer !== undefined);
/** When the host fires the timer of an operation that a turn of this time opened. */
export function dueOf(command: OpeningCommand, time: number): number | undefined {
  if (!TIMED.has(command.type)) return undefined;
  const timed = command as TimedOperation;
  if (timed.type === "sleep") return timed.until ?? time + (timed.duration ?? 0);
  return timed.timeout === undefined ? undefined : time + timed.timeout;
}
