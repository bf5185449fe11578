// The history of a run: its operations, its portable form, and what it waits for.
// Owns: how much of a history is read.
// Invariants: D12, Y5 (a portable history is what Temporal's own tools write, and can be replayed), P11.

import { type History, type OperationInfo, payloadToJson } from "@holdfast/core";
import { isoTime } from "@holdfast/host";
import type { Reason, RunDescription, RunSnapshot } from "holdfast/backend";
import { queueOf } from "../names.ts";
import { api, msIfSet } from "../proto.ts";
import { type Description, type Executions, executionIn, isOpen } from "./executions.ts";
import { OperationLog } from "./operationLog.ts";
import { hasPollers } from "./pollers.ts";
import { reasonsOf } from "./reasons.ts";
import { unlessDeleted } from "./serviceErrors.ts";
import type { ClientSettings } from "./settings.ts";
import type { Snapshots } from "./snapshots.ts";

const { PendingWorkflowTaskState } = api.api.enums.v1;

/** A longer history is not read for a description, which then lists only what Temporal describes as pending. */
const MOST_EVENTS = 5_000;
/** How long a task waits before the description says whether any worker asks for tasks of its queue, in milliseconds. */
const TAKEN_WITHIN = 1_000;

export class Histories {
  readonly #settings: ClientSettings;
  readonly #executions: Executions;
  readonly #snapshots: Snapshots;

  constructor(settings: ClientSettings, executions: Executions, snapshots: Snapshots) {
    this.#settings = settings;
    this.#executions = executions;
    this.#snapshots = snapshots;
  }

  async portable(run: RunSnapshot): Promise<History> {
    const events = [];
    for await (const event of this.#executions.events({ workflowId: run.id, runId: "" })) events.push(event);
    const { default: common } = await import("@temporalio/common/lib/proto-utils.js"); // seldom needed, and slow to load
    const { events: turns } = JSON.parse(common.historyToJSON(api.api.history.v1.History.fromObject({ events }))) as {
      readonly events: readonly unknown[];
    };
    const { id, workflow, version, input, status } = run;
    return { format: "temporal-history/1", run: { id, workflow, version, input: payloadToJson(input), status }, turns };
  }
  async operations({ id }: RunSnapshot): Promise<OperationInfo[]> {
    const description = await this.#executions.describe(id);
    if (description === undefined) return [];
    const log = await this.#log(description);
    return log.list(isOpen(description) ? undefined : (msIfSet(description.workflowExecutionInfo?.closeTime) ?? 0));
  }
  /** Why it does not advance; undefined if there is no such run. */
  async why(runId: string): Promise<readonly Reason[] | undefined> {
    const description = await this.#executions.describe(runId);
    if (description === undefined) return undefined;
    const run = await unlessDeleted(this.#snapshots.from(description));
    if (run === undefined) return undefined;
    const isShort = run.finishedAt === undefined && run.historyLength <= MOST_EVENTS;
    return reasonsOf(run, description, isShort ? await this.#log(description) : undefined, this.#settings);
  }
  async #log(description: Description): Promise<OperationLog> {
    const log = new OperationLog(this.#settings.payloads);
    for await (const event of this.#executions.events(executionIn(description))) log.add(event);
    log.addPending(description.pendingActivities ?? []);
    return log;
  }

  // ── descriptions ──

  async describe(runId: string): Promise<RunDescription | undefined> {
    const description = await this.#executions.describe(runId);
    if (description === undefined) return undefined;
    const run = await unlessDeleted(this.#snapshots.from(description));
    if (run === undefined) return undefined;
    if (run.finishedAt !== undefined) return { ...run, waitingFor: [] };
    if (run.status === "blocked")
      return { ...run, waitingFor: [`corrected code, which the server tries within 10 minutes (${run.error?.name ?? "Error"})`] };
    if (run.startedAt === undefined) return { ...run, waitingFor: await this.#begins(run, description) };
    if (run.historyLength > MOST_EVENTS) return { ...run, waitingFor: pendingWords(description) };
    const log = await this.#log(description);
    const words = [...(await this.#taken(description)), ...retryWords(run, description), ...log.waitingFor()];
    return {
      ...run,
      error: run.error ?? log.lastFailure(),
      availableAt: run.availableAt ?? log.nextAt(),
      waitingFor: words.length === 0 ? ["a signal or update"] : words,
    };
  }
  /** For a run that no worker has begun. */
  async #begins({ availableAt = 0 }: RunSnapshot, description: Description): Promise<string[]> {
    return availableAt > Date.now() ? [`start at ${isoTime(availableAt)}`] : this.#taken(description);
  }
  /** Whether a task waits for a worker. */
  async #taken({ pendingWorkflowTask: task, workflowExecutionInfo: info }: Description): Promise<string[]> {
    if (task?.state !== PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED) return [];
    if (Date.now() - (msIfSet(task.scheduledTime) ?? 0) < TAKEN_WITHIN) return [];
    const name = info?.taskQueue ?? "";
    const queue = queueOf(name, this.#settings.queue);
    return [(await hasPollers(this.#settings, name, "runs")) ? "a free worker" : `no worker asks for tasks of queue "${queue}"`];
  }
}

/** Temporal's retry of the run as a whole. */
function retryWords({ attempt }: RunSnapshot, { workflowExecutionInfo: info }: Description): string[] {
  const begins = msIfSet(info?.executionTime) ?? 0;
  return attempt > 1 && begins > Date.now() ? [`another attempt at ${isoTime(begins)}`] : [];
}
/** Without the history: the ids of activities are their locations. */
function pendingWords({ pendingActivities, pendingChildren }: Description): string[] {
  const words = [
    ...(pendingActivities ?? []).map(({ activityId }) => activityId ?? ""),
    ...(pendingChildren ?? []).map(({ workflowId }) => `child ${workflowId}`),
  ];
  return words.length === 0 ? ["a timer, a signal or an update"] : words;
}
