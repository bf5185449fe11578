// Looks at runs past the host that is tested: what the server still has to do for them, and what it has recorded.
// Owns: a connection to the server, which no test cuts.
// Invariants: it changes nothing but by `end`.

import type { History } from "@holdfast/core";
import { Connection, type HistoryEvent, Status } from "../../src/bridge.ts";
import { downloadHistory } from "../../src/history.ts";
import { PayloadCodecs } from "../../src/payloadCodecs.ts";
import { api } from "../../src/proto.ts";
import { SILENT } from "./support.ts";

const { EventType, PendingActivityState, PendingWorkflowTaskState, WorkflowExecutionStatus } = api.api.enums.v1;

/** What the server still has to do for a run. */
export interface Outstanding {
  /** Empty if only messages, time and the functions of steps can advance it. */
  readonly what: readonly string[];
  /** Ids of open children. */
  readonly children: readonly string[];
  /** The attempt of the task that a blocked run has failed; 0 if it is not blocked. The server tries again after 10 s or more. */
  readonly failedTask: number;
}
const NOTHING: Outstanding = { what: [], children: [], failedTask: 0 };

export class Look {
  readonly #connection: Connection;
  private constructor(connection: Connection) {
    this.#connection = connection;
  }
  static async at(address: string, namespace: string): Promise<Look> {
    return new Look(
      await Connection.open({
        address,
        namespace,
        tls: undefined,
        apiKey: undefined,
        payloadCodecs: new PayloadCodecs(undefined),
        logger: SILENT,
      }),
    );
  }
  close(): void {
    this.#connection.close();
  }

  /** @param alive The ids of the workers that are alive. */
  async outstanding(id: string, alive: ReadonlySet<string>): Promise<Outstanding> {
    const found = await this.#describe(id);
    if (found?.workflowExecutionInfo?.status !== WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING) return NOTHING;
    const what: string[] = [];
    let failedTask = 0;
    const { pendingWorkflowTask: task, pendingActivities = [], pendingChildren = [] } = found;
    if (task) {
      const isStarted = task.state === PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED;
      // Core leaves a task that fails for the second time to its timeout: the run is blocked.
      if (isStarted && (task.attempt ?? 1) > 1) failedTask = task.attempt ?? 1;
      else what.push(`task, attempt ${task.attempt}, ${isStarted ? "started" : "scheduled"}`);
    }
    // After a continue-as-new the server waits up to a second before it schedules the first task.
    const { execution, firstRunId, historyLength } = found.workflowExecutionInfo;
    if (!task && execution?.runId !== firstRunId && Number(historyLength ?? 0) < 3) what.push("first task of the next execution");
    for (const { activityId, state, scheduledTime, lastWorkerIdentity } of pendingActivities) {
      if (state === PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED) {
        if (Number(scheduledTime?.seconds ?? 0) * 1_000 <= Date.now()) what.push(`activity ${activityId}, scheduled`);
      } else if (state === PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED) what.push(`activity ${activityId}, canceled`);
      else if (!alive.has(lastWorkerIdentity ?? "")) what.push(`activity ${activityId}, lost with ${lastWorkerIdentity}`);
    }
    for (const { workflowId, runId } of pendingChildren) if (!runId) what.push(`start of child ${workflowId}`);
    return { what, children: pendingChildren.flatMap(({ workflowId }) => workflowId ?? []), failedTask };
  }

  /** The newest execution in the form that the suite reads: a turn for each completed task, with the messages that came with it. */
  async history(id: string): Promise<History> {
    const { events = [] } = await downloadHistory(this.#connection, id, "");
    const turns: { jobs: { type: string; id: string }[] }[] = [];
    let jobs: { type: string; id: string }[] = [];
    for (const event of events ?? []) {
      const job = jobOf(event);
      if (job !== undefined) jobs.push(job);
      if (event.eventType !== EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) continue;
      turns.push({ jobs });
      jobs = [];
    }
    // An update that was accepted is an event behind the task that accepted it.
    turns.at(-1)?.jobs.push(...jobs);
    return { turns } as unknown as History;
  }

  /** What is left of a test must not keep the server busy. */
  async end(id: string): Promise<void> {
    const { namespace, service } = this.#connection;
    await service
      .terminateWorkflowExecution({ namespace, workflowExecution: { workflowId: id }, reason: "The test is over." })
      .catch(() => {});
  }

  async #describe(workflowId: string) {
    const { namespace, service } = this.#connection;
    try {
      return await service.describeWorkflowExecution({ namespace, execution: { workflowId } });
    } catch (error) {
      if ((error as { code?: number }).code === Status.NOT_FOUND) return undefined;
      throw error;
    }
  }
}

function jobOf({
  eventType,
  workflowExecutionSignaledEventAttributes: signaled,
  workflowExecutionUpdateAcceptedEventAttributes: accepted,
}: HistoryEvent) {
  if (eventType === EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED) return { type: "signal", id: signaled?.signalName ?? "" };
  if (eventType === EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
    return { type: "update", id: accepted?.protocolInstanceId ?? "" };
  return undefined;
}
