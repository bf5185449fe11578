// What callers see of a run: its status, its operations with their attempts, its portable history.
// Owns: only the types. Hosts produce the values; `history/` writes and reads the turns inside a History.
// Invariants: P11 (statuses), D12 (attempts), Y5 (a History is plain JSON and needs no store).
import type { SerializedError } from "../errors/index.ts";
import type { OperationKind } from "../protocol/index.ts";

export type RunStatus =
  | "pending"
  | "running"
  | "sleeping"
  | "blocked"
  | "rolling_back"
  | "completed"
  | "failed"
  | "canceled"
  | "terminated"
  | "continued";

export interface RunInfo {
  id: string;
  workflow: string;
  version: string | undefined;
  status: RunStatus;
  queue: string;
  priority: number;
  input: unknown;
  output: unknown;
  error: SerializedError | undefined;
  /** What an open run waits for: "step charge (attempt 3 at …)", "signal approve", "timer until …", "no worker serves order@2". */
  waitingFor: readonly string[];
  /** The number of this execution in the chain of its id, from 1. */
  execution: number;
  attempt: number;
  parentId: string | undefined;
  attributes: Record<string, string | number | boolean>;
  createdAt: Date;
  startedAt: Date | undefined;
  availableAt: Date | undefined;
  deadlineAt: Date | undefined;
  finishedAt: Date | undefined;
  workerId: string | undefined;
  historyLength: number;
}

export interface OperationInfo {
  location: string;
  unit: string;
  kind: OperationKind;
  name: string;
  status: "scheduled" | "running" | "waiting" | "completed" | "failed" | "canceled" | "abandoned";
  /** Set for activities and children. */
  input: unknown;
  output: unknown;
  error: SerializedError | undefined;
  attempts: readonly {
    number: number;
    status: "running" | "completed" | "failed" | "lost";
    error: SerializedError | undefined;
    startedAt: Date;
    endedAt: Date | undefined;
    workerId: string;
  }[];
  scheduledAt: Date;
  endedAt: Date | undefined;
  /** For a child: its run id. */
  childId: string | undefined;
}

/** The portable history of a run: `JSON.stringify(await run.history())` is the input of `replay` and `holdfast replay`. */
export interface History {
  readonly format: "holdfast-history/1";
  readonly run: { id: string; workflow: string; version: string | undefined; input: unknown; status: RunStatus };
  readonly turns: readonly unknown[];
}
