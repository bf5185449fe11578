// `holdfast.bulk`: the built-in workflow that does something to every run that matches a filter (B3).
// Owns: its code, and that every worker serves it, in a queue of its own.
// Invariants: B3: durable, cancellable, progress in its state; each run that matches and is older than it is acted on once. A page of runs is
// recorded before anything is done to them, and the loop commits after each page, so that the history stays short.

import {
  type AnyWorkflow,
  HoldfastError,
  Loop,
  type Payload,
  RunClosedError,
  RunNotFoundError,
  RunOpenError,
  type StepInfo,
  workflow,
} from "@holdfast/core";
import type { BulkAction, RunSelection, RunStart, SendAnswer, ServedWorkflows } from "../backend/port.ts";
import type { DeleteResult } from "../store/keepingPort.ts";
import type { AddressedMessage, ResumeResult, RunRow, SendResult, Store } from "../store/port.ts";

export const BULK_WORKFLOW = "holdfast.bulk";
const BULK_QUEUE = "holdfast";

export interface BulkInput {
  readonly selection: RunSelection;
  readonly action: BulkAction;
  /** Runs that were created before this moment, by the store's clock: the millisecond after the one in which the action was asked for. */
  readonly before: number;
}
interface Failure {
  readonly id: string;
  readonly code: string;
  readonly message: string;
}
interface Progress {
  readonly matched: number;
  readonly done: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly failures: readonly Failure[];
}
/** A run as it was found: a resumed run that has failed again is not resumed twice. */
interface Found {
  readonly id: string;
  readonly attempt: number;
}

/** What it uses of the engine that runs it. */
export interface BulkPorts {
  readonly store: Pick<Store, "list" | "get">;
  send(message: AddressedMessage): Promise<SendResult>;
  terminate(runId: string, reason: string | undefined): Promise<SendResult>;
  resume(runId: string): Promise<ResumeResult>;
  delete(runId: string): Promise<DeleteResult>;
}

const PAGE = 500;
const MOST_FAILURES = 100;
/** The store may be away for long. */
const PATIENT = { retry: { maxAttempts: 1_000, initialInterval: "1s", maxInterval: "1m" } } as const;
export const NO_PROGRESS: Progress = { matched: 0, done: 0, succeeded: 0, failed: 0, failures: [] };

export function bulkWorkflow(ports: BulkPorts): AnyWorkflow {
  return workflow(BULK_WORKFLOW, async (ctx, input: BulkInput) => {
    const runId = ctx.run.id;
    const options = { name: "pages", state: { cursor: "", progress: NO_PROGRESS }, commitInterval: 1, historyEvery: 1, historyKeep: 0 };
    return ctx.loop(options, async (page, { cursor, progress }) => {
      const found = await page.step("find", () => find(ports, runId, input, cursor), PATIENT);
      const matched = progress.matched + found.runs.length;
      page.publishState({ ...progress, matched });
      const acted = await page.step("act", (info) => act(ports, runId, input.action, found.runs, info), PATIENT);
      const next: Progress = {
        matched,
        done: progress.done + acted.succeeded + acted.failed,
        succeeded: progress.succeeded + acted.succeeded,
        failed: progress.failed + acted.failed,
        failures: [...progress.failures, ...acted.failures].slice(0, MOST_FAILURES),
      };
      page.publishState(next);
      return found.cursor === "" ? Loop.break(next) : Loop.continue({ cursor: found.cursor, progress: next });
    });
  }) as unknown as AnyWorkflow;
}

async function find({ store }: BulkPorts, bulkId: string, { selection, before }: BulkInput, cursor: string) {
  const until = Math.min(selection.until ?? before, before);
  const page = await store.list({ ...selection, until, limit: PAGE, ...(cursor !== "" && { cursor }) });
  // It may have been created in the same millisecond as the runs that it is for.
  const others = page.runs.filter(({ id }) => id !== bulkId);
  const runs: Found[] = others.map(({ id, attempt }: RunRow) => ({ id, attempt }));
  return { runs, cursor: page.cursor ?? "" };
}

/** All at once: the engine's batchers make few calls of them. */
async function act(ports: BulkPorts, bulkId: string, action: BulkAction, runs: readonly Found[], { attempt, signal }: StepInfo) {
  const isRepeated = attempt > 1;
  const outcomes = await Promise.all(
    runs.map(async (run): Promise<Failure | undefined> => {
      try {
        signal.throwIfAborted();
        await actOn(ports, bulkId, action, run, isRepeated);
        return undefined;
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code.startsWith("HF_STORE")) throw error;
        return { id: run.id, code: error.code, message: error.message.split("\n", 1)[0] ?? "" };
      }
    }),
  );
  const failures = outcomes.filter((one) => one !== undefined);
  return { succeeded: runs.length - failures.length, failed: failures.length, failures: failures.slice(0, MOST_FAILURES) };
}

/** `isRepeated`: an earlier attempt may have acted on it. */
async function actOn(
  ports: BulkPorts,
  bulkId: string,
  action: BulkAction,
  { id: runId, attempt }: Found,
  isRepeated: boolean,
): Promise<void> {
  const idempotencyKey = `${bulkId}/${runId}`;
  switch (action.do) {
    case "signal": {
      const job = { type: "signal", id: idempotencyKey, name: action.name, payload: action.payload } as const;
      return delivered(runId, await ports.send({ runId, message: { job, idempotencyKey } }));
    }
    case "cancel":
      return delivered(runId, await ports.send({ runId, message: { job: { type: "cancel", reason: action.reason }, idempotencyKey } }));
    case "terminate": {
      const answer = await ports.terminate(runId, action.reason);
      if (isRepeated && answer.status === "closed" && answer.runStatus === "terminated") return;
      return delivered(runId, answer);
    }
    case "resume": {
      if (isRepeated && (await ports.store.get([runId]))[0]?.attempt !== attempt) return;
      const answer = await ports.resume(runId);
      if (answer === "not-found") throw new RunNotFoundError({ runId });
      if (answer === "not-resumable")
        throw new HoldfastError(`Run ${runId} can't be resumed: it has not begun, or has ended in another way than by failing.`, {
          code: "HF_NOT_RESUMABLE",
        });
      return;
    }
    case "delete": {
      const answer = await ports.delete(runId);
      if (answer === "open") throw new RunOpenError({ runId });
      if (answer === "not-found" && !isRepeated) throw new RunNotFoundError({ runId });
      return;
    }
  }
}
function delivered(runId: string, answer: SendAnswer): void {
  if (answer.status === "not-found") throw new RunNotFoundError({ runId });
  if (answer.status === "closed") throw new RunClosedError({ runId, status: answer.runStatus });
}

export function bulkStart(id: string, input: Payload, seed: string): RunStart {
  return {
    ...{ id, workflow: BULK_WORKFLOW, version: undefined, queue: BULK_QUEUE, priority: 0, attributes: {}, onConflict: "reject" },
    ...{ input, isChecked: true, seed },
  };
}
/** Every worker that claims runs serves it, besides what it was given: one that only has activities claims none. */
export function servingBulk(workflows: ServedWorkflows, bulk: AnyWorkflow): ServedWorkflows {
  if (workflows.all.length === 0) return workflows;
  return {
    all: workflows.all,
    serves: [...workflows.serves, { workflow: BULK_WORKFLOW, versions: [undefined], queue: BULK_QUEUE }],
    find: (name, version) => (name === BULK_WORKFLOW ? bulk : workflows.find(name, version)),
  };
}
/** Where runs of this workflow are taken from by a worker of `queue`. */
export function queueOf(workflow: string, queue: string): string {
  return workflow === BULK_WORKFLOW ? BULK_QUEUE : queue;
}
