// Job: the kinds of operations, as users name them: in `ctx.removed` and in what `run.operations()` lists.
// Owns: the list, for types and for checks at run time.
// Invariants: V3 (what can be recorded and taken out has a kind), D12 (what is listed has one).

export type OperationKind =
  | "step"
  | "transaction"
  | "activity"
  | "child"
  | "signalRun"
  | "cancelRun"
  | "sleep"
  | "signal"
  | "condition"
  | "ivar"
  | "parallel"
  | "join"
  | "race"
  | "loop"
  | "try"
  | "shield"
  | "receive"
  | "sideEffect"
  | "patch"
  | "rollbackCheckpoint"
  | "attributes";

/** Written as an object, so that the compiler misses a kind that is not in it. */
const KINDS: Readonly<Record<OperationKind, true>> = {
  step: true,
  transaction: true,
  activity: true,
  child: true,
  signalRun: true,
  cancelRun: true,
  sleep: true,
  signal: true,
  condition: true,
  ivar: true,
  parallel: true,
  join: true,
  race: true,
  loop: true,
  try: true,
  shield: true,
  receive: true,
  sideEffect: true,
  patch: true,
  rollbackCheckpoint: true,
  attributes: true,
};
export const OPERATION_KINDS = Object.keys(KINDS) as readonly OperationKind[];

export function isOperationKind(kind: unknown): kind is OperationKind {
  return typeof kind === "string" && Object.hasOwn(KINDS, kind);
}
