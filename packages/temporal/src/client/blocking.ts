// Finds out whether runs are blocked.
// Owns: how often a run that is waited for is looked at.
// Invariants: V4 (a blocked run says why); a run whose task the server refused because of a new message is not blocked.

import type { RunEnd } from "holdfast/backend";
import { adviseHere } from "../advice.ts";
import type { HistoryEvent } from "../bridge.ts";
import { fromFailure } from "../failures.ts";
import { api } from "../proto.ts";
import { type Description, type Executions, executionIn, isOpen } from "./executions.ts";
import type { ClientSettings } from "./settings.ts";
import type { Waiting } from "./waiting.ts";

const { EventType, WorkflowTaskFailedCause } = api.api.enums.v1;

const TASK_ENDS: ReadonlySet<number> = new Set([
  EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
  EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
  EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
]);
/** When a run that is waited for is looked at: soon, then every 5 s. In milliseconds after the look before. */
const LOOKS = [300, 700, 2_000, 5_000] as const;

/** The server has refused the task for reasons of its own, above all because a message came meanwhile: the next one goes through. */
const PASSING: ReadonlySet<number> = new Set([
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_UPDATE,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FAILOVER_CLOSE_COMMAND,
  WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
]);

/** Started, task scheduled, task started: no task has ended before these. */
const FIRST_EVENTS = 3;
/** The server restarts the count of attempts when a message comes between them, so the count alone is not enough. */
const mayBeRepeated = ({ pendingWorkflowTask: task, workflowExecutionInfo: info }: Description): boolean =>
  task !== null && task !== undefined && ((task.attempt ?? 1) > 1 || Number(info?.historyLength ?? 0) > FIRST_EVENTS);

export class Blocking {
  readonly #settings: ClientSettings;
  readonly #executions: Executions;

  constructor(settings: ClientSettings, executions: Executions) {
    this.#settings = settings;
    this.#executions = executions;
  }
  /** Undefined if the run is not blocked. One more call if a task is under way that may be a repeated one. */
  async find(description: Description): Promise<(RunEnd & { readonly status: "blocked" }) | undefined> {
    if (!isOpen(description) || !mayBeRepeated(description)) return undefined;
    const last = (await this.#lastTask(description))?.workflowTaskFailedEventAttributes;
    if (last === null || last === undefined) return undefined;
    if (PASSING.has(last.cause ?? 0)) return undefined;
    const id = description.workflowExecutionInfo?.execution?.workflowId ?? "";
    return { id, status: "blocked", output: undefined, error: adviseHere(fromFailure(last.failure, this.#settings.codec)) };
  }
  /** The event with which the last task ended. Messages may have come since. */
  async #lastTask(description: Description): Promise<HistoryEvent | undefined> {
    for await (const event of this.#executions.newest(executionIn(description))) if (TASK_ENDS.has(event.eventType ?? 0)) return event;
    return undefined;
  }
  /** Settles only once the run is blocked. */
  async watch(runId: string, waiting: Waiting): Promise<RunEnd> {
    for (let look = 0; ; look++) {
      await waiting.sleep(LOOKS[look] ?? LOOKS[LOOKS.length - 1] ?? 0);
      waiting.throwIfOver();
      const blocked = await this.#look(runId).catch(() => undefined); // the call that it accompanies reports what is wrong
      if (blocked !== undefined) return blocked;
    }
  }
  async #look(runId: string): Promise<RunEnd | undefined> {
    const description = await this.#executions.describe(runId);
    return description === undefined ? undefined : this.find(description);
  }
}
