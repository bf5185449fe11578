// The table of operations: one row for each kind of command that opens an operation.
// Owns: the properties of each kind, so that hosts, lists and the executor need no special cases. Every set of kinds is derived from it.
// Invariants: Y7 (each kind has one carrier, which settles it), V3 D12 (operations that can be listed, or marked as removed, have a
// kind that users know). To add an operation, add its row and fix the compiler errors.

import type { Command, OpeningCommand } from "./command.ts";

/**
 * What carries out an operation, which decides how it settles.
 * Settled by a job: `worker` (the worker that has the run calls a function of the workflow), `activityWorker`, `otherRun` (a message or
 * a start for another run), `clock`. Settled without a job: `executor` (a `settle` command), `inline` (its record holds its value, or the
 * host carries it out like a step), `record` (it ends with its record), `history` (its outcome is already in history).
 */
export type Carrier = "worker" | "activityWorker" | "otherRun" | "clock" | "executor" | "inline" | "record" | "history";

interface OperationRow {
  readonly by: Carrier;
  /** The name that users see, in `ctx.removed` and in lists. Undefined: users don't see this operation. */
  readonly kind: string | undefined;
  /** Whether `run.operations()` lists it. */
  readonly isListed: boolean;
  /** Whether it has attempts, which are retried by a policy and listed one by one. */
  readonly hasAttempts?: true;
  /** The host fires a timer for it: `own`, if it waits for the timer itself, or `timeout`, if it has an optional timeout. */
  readonly timer?: "own" | "timeout";
  /** Units run inside it: as its parts (`waitingFor` shows their operations instead), or as handlers of messages. */
  readonly units?: "parts" | "handlers";
  /** Replay may start at one of its commits (L3, R11). */
  readonly commits?: true;
  /** Only the workflow's own code or its timer can end it (C6). */
  readonly isInternal?: true;
  /** Its type in words, if different from the type. */
  readonly words?: string;
}

/** Every operation: who carries it out, and how users see it. */
export const OPERATIONS = {
  step: { by: "worker", kind: "step", isListed: true, hasAttempts: true },
  transaction: { by: "worker", kind: "transaction", isListed: true, hasAttempts: true },
  rollback: { by: "worker", kind: "step", isListed: true, hasAttempts: true }, // S1: a step in an internal unit
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

/** The kinds of operations that users see, in `ctx.removed` and `run.operations()`. */
export type OperationKind = Exclude<Table[OperationType]["kind"], undefined>;
/** The commands of the operations that these carriers carry out, for switches that the compiler checks for completeness. */
export type CarriedOutBy<C extends Carrier> = Extract<OpeningCommand, { type: TypesWhere<{ by: C }> }>;
/** Operations that the host carries out; each is settled by a job. */
export type HostOperation = CarriedOutBy<"worker" | "activityWorker" | "otherRun" | "clock">;
/** Operations that a timer may end. */
type TimedOperation = Extract<OpeningCommand, { type: TypesWhere<{ timer: "own" | "timeout" }> }>;
/** Operations that a run can wait for. Those that consist of units are left out: the operations inside them say more. */
export type AwaitedCommand = Exclude<
  OpeningCommand,
  CarriedOutBy<"inline" | "record" | "history"> | Extract<OpeningCommand, { type: TypesWhere<{ units: "parts" }> }>
>;
type CommittingOperation = Extract<OpeningCommand, { type: TypesWhere<{ commits: true }> }>;

const ROWS: ReadonlyMap<string, OperationRow> = new Map(Object.entries(OPERATIONS));

/** The types of commands whose rows pass the test. Types from a later version have no row and are in no set. */
export function operationsWhere(passes: (row: OperationRow) => boolean): ReadonlySet<string> {
  return new Set([...ROWS].flatMap(([type, row]) => (passes(row) ? [type] : [])));
}
/** The operations that these carriers carry out. */
export function carriedOutBy(...carriers: readonly Carrier[]): ReadonlySet<string> {
  return operationsWhere(({ by }) => carriers.includes(by));
}

/** Operations that the host carries out. HOST_OR_INLINE_KINDS adds side effects, which some hosts carry out too. */
export const HOST_KINDS = carriedOutBy("worker", "activityWorker", "otherRun", "clock");
/** The operations that a host, or the turn itself, carries out. */
export const HOST_OR_INLINE_KINDS = carriedOutBy("worker", "activityWorker", "otherRun", "clock", "inline");
/** Operations that settle as soon as their timer fires. For the others a timer is queued like a message. */
export const CLOCK_KINDS = carriedOutBy("clock");
/** The operations that are attempted, and retried. */
export const HAS_ATTEMPTS = operationsWhere(({ hasAttempts }) => hasAttempts === true);
/** Operations that consist of units. */
export const HAS_PARTS = operationsWhere(({ units }) => units === "parts");
/** The operations that `run.operations()` lists. */
export const IS_LISTED = operationsWhere(({ isListed }) => isListed);
const AWAITED = operationsWhere(({ by, units }) => by !== "inline" && by !== "record" && by !== "history" && units !== "parts");
/** Whether a run can wait for the operation. */
export function isAwaited(command: OpeningCommand): command is AwaitedCommand {
  return AWAITED.has(command.type);
}
const USER_KINDS: ReadonlySet<string> = new Set([...ROWS.values()].flatMap(({ kind }) => kind ?? []));
/** The kinds of operations that users see. */
export const OPERATION_KINDS = [...USER_KINDS] as readonly OperationKind[];

/** Whether the value is a kind of operation that users see. */
export function isOperationKind(kind: unknown): kind is OperationKind {
  return typeof kind === "string" && USER_KINDS.has(kind);
}
/** The kind that users see, also for a call that was refused or whose outcome was reused. */
export function kindOf(record: OpeningCommand): string | undefined {
  return record.type === "refuse" || record.type === "reuse" ? record.kind : ROWS.get(record.type)?.kind;
}
/** The type in words. */
export function wordsOf(type: string): string {
  return ROWS.get(type)?.words ?? type;
}

/** Operations at whose commits replay may start (L3, R11). */
export const COMMITTING_KINDS = operationsWhere(({ commits }) => commits === true);
/** Whether the command opens a loop or receive, which commits its state. */
export function isCommitting(command: Command): command is CommittingOperation {
  return COMMITTING_KINDS.has(command.type);
}

const TIMED = operationsWhere(({ timer }) => timer !== undefined);
/** The time at which the host fires the timer of an operation that was opened at `time`. Undefined: it has no timer. */
export function dueOf(command: OpeningCommand, time: number): number | undefined {
  if (!TIMED.has(command.type)) return undefined;
  const timed = command as TimedOperation;
  if (timed.type === "sleep") return timed.until ?? time + (timed.duration ?? 0);
  return timed.timeout === undefined ? undefined : time + timed.timeout;
}
