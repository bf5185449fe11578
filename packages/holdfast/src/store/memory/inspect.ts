// What consoles read of the memory store.
// Owns: nothing; it only reads.
// Invariants: copies go out, never the thing itself. Of a chain the newest execution and the last few before it are kept.

import type { ExecutionRow, InspectStore, StoredAttemptRow, TurnQuery } from "../inspectPort.ts";
import type { RunQuery } from "../port.ts";
import type { WorkflowRow } from "../workerPort.ts";
import type { Runs } from "./runs.ts";
import { type PastExecution, rowOf } from "./state.ts";

export function inspectMemory(runs: Runs, workflows: ReadonlyMap<string, WorkflowRow>): InspectStore {
  /** The one that is asked for: the newest, unless a number is given. */
  const executionOf = (runId: string, execution: number | undefined): PastExecution | undefined =>
    execution === undefined ? executionsOf(runs, runId).at(-1) : executionsOf(runs, runId).find((one) => one.execution === execution);
  return {
    host: "memory",
    state: async () => ({ exists: true, schema: undefined }),
    async listRuns(query: RunQuery) {
      const { runs: found, cursor } = runs.searchIndex.list(query);
      return {
        runs: found.map((run) => {
          const { input: _input, output: _output, state: _state, seed: _seed, ...row } = rowOf(run);
          return row;
        }),
        cursor,
      };
    },
    async turnsOf(runId, { execution, after = -1, limit }: TurnQuery) {
      const turns = executionOf(runId, execution)?.history.filter(({ index }) => index > after) ?? [];
      return limit === undefined ? turns : turns.slice(0, limit);
    },
    attemptsOf: async (runId, execution): Promise<StoredAttemptRow[]> => {
      const rows = executionOf(runId, execution)?.attempts ?? [];
      return rows.toSorted((a, b) => a.seq - b.seq || a.number - b.number);
    },
    workersOf: async (runId, execution) => new Map(executionOf(runId, execution)?.workers),
    executionsOf: async (runId) => executionsOf(runs, runId).map(executionRow),
    messagesOf: async (runId) => (runs.get(runId)?.inbox ?? []).map((message) => ({ ...message, receivedAt: undefined })),
    workflows: async () => [...workflows.values()].toSorted(byName),
  };
}

function executionsOf(runs: Runs, runId: string): PastExecution[] {
  const run = runs.get(runId);
  if (run === undefined) return [];
  const { execution, workflow, version, input, history, workers } = run;
  const attempts = [...run.attempts, ...runs.tasks.attemptsOf(runId).map((row) => ({ ...row, task: true }))];
  return [...(run.past ?? []), { execution, workflow, version, input, history, workers, attempts }];
}
function executionRow({ execution, workflow, version, input, history }: PastExecution): ExecutionRow {
  const last = history.at(-1);
  return {
    ...{ execution, workflow, version, input },
    turns: history.length,
    firstTurnAt: history[0]?.time,
    lastTurnAt: last?.time,
    lastRecord: (last?.commands.at(-1) ?? last?.jobs.at(-1))?.type,
  };
}
/** By the order of their bytes, without a version first. */
function byName(a: WorkflowRow, b: WorkflowRow): number {
  return (
    Buffer.compare(Buffer.from(a.workflow), Buffer.from(b.workflow)) ||
    Buffer.compare(Buffer.from(a.version ?? ""), Buffer.from(b.version ?? ""))
  );
}
