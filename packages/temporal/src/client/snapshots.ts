// `RunSnapshot`: a run as Temporal describes it.
// Owns: the status of open runs.
// Invariants: M11 (reading needs no worker), P11 (statuses), V4 (a blocked run says why).

import type { Payload, RunStatus, SerializedError } from "@holdfast/core";
import type { RunSnapshot } from "holdfast/backend";
import { readMemo } from "../memo.ts";
import { queueOf, STEP_TYPE } from "../names.ts";
import { api, msIfSet } from "../proto.ts";
import { scheduledBy } from "../scheduledBy.ts";
import type { Blocking } from "./blocking.ts";
import { closedStatus, endIn } from "./ends.ts";
import { type Description, type Executions, executionIn, isOpen, type PendingActivity, statusIn } from "./executions.ts";
import { unlessDeleted } from "./serviceErrors.ts";
import type { ClientSettings } from "./settings.ts";

const { PendingActivityState } = api.api.enums.v1;

/** What a run in progress has of an end. */
interface Standing {
  readonly status: RunStatus;
  readonly output?: Payload | undefined;
  readonly error?: SerializedError | undefined;
  readonly resumable?: boolean | undefined;
}

export class Snapshots {
  readonly #settings: ClientSettings;
  readonly #executions: Executions;
  readonly #blocking: Blocking;

  constructor(settings: ClientSettings, executions: Executions, blocking: Blocking) {
    this.#settings = settings;
    this.#executions = executions;
    this.#blocking = blocking;
  }
  async of(runId: string): Promise<RunSnapshot | undefined> {
    const description = await this.#executions.describe(runId);
    return description === undefined ? undefined : unlessDeleted(this.from(description));
  }
  from(description: Description): Promise<RunSnapshot> {
    return this.#read(description, this.#standing(description));
  }
  /** A row of a list, which does not have what tells open runs apart: they are running, or roll back. */
  listed(row: Description): Promise<RunSnapshot> {
    const { isRollingBack } = readMemo(row.workflowExecutionInfo?.memo?.fields);
    const standing: Standing = { status: isRollingBack === true ? "rolling_back" : "running" };
    return this.#read(row, isOpen(row) ? Promise.resolve(standing) : this.#standing(row), true);
  }
  async #read(description: Description, standingOf: Promise<Standing>, isListed = false): Promise<RunSnapshot> {
    const [started, standing] = await Promise.all([this.#executions.started(executionIn(description)), standingOf]);
    const createdAt = await this.#executions.chainBegan(description, started);
    const { workflowExecutionInfo: info } = description;
    const { header } = started;
    const { state, attributes = {} } = readMemo(info?.memo?.fields);
    const { deadline, deadlineAt = deadline === undefined ? undefined : createdAt + deadline } = header;
    const begins = msIfSet(info?.executionTime) ?? createdAt;
    const isPending = standing.status === "pending";
    const parentId = info?.parentExecution?.workflowId ?? header.parentId;
    return {
      id: executionIn(description).workflowId,
      workflow: info?.type?.name ?? "",
      version: header.version,
      status: standing.status,
      queue: queueOf(info?.taskQueue ?? "", this.#settings.queue),
      ...scheduledBy(header, info?.searchAttributes?.indexedFields),
      key: header.workKey,
      priority: header.priority ?? 0,
      input: started.input,
      output: standing.output,
      error: standing.error,
      resumable: standing.resumable,
      state: state === undefined ? undefined : this.#settings.payloads.fromTemporal(state),
      execution: header.execution ?? 1,
      attempt: started.attempt,
      parent: parentId === undefined ? undefined : { runId: parentId },
      attributes,
      createdAt,
      startedAt: !isPending && (isListed || hasBegun(description)) ? begins : undefined,
      availableAt: isPending ? begins : undefined,
      deadlineAt,
      finishedAt: isOpen(description) ? undefined : msIfSet(info?.closeTime),
      workerId: isOpen(description) ? workerOf(description) : undefined,
      historyLength: Number(info?.historyLength ?? 0),
    };
  }
  /** The status, and what belongs to it. */
  async #standing(description: Description): Promise<Standing> {
    const execution = executionIn(description);
    if (!isOpen(description)) {
      const end = endIn(await this.#executions.closing(execution), execution.workflowId, this.#settings);
      return { ...end, status: closedStatus(statusIn(description)) ?? end.status };
    }
    return (await this.#blocking.find(description)) ?? { status: openStatus(description) };
  }
}

/** A worker has computed a turn of this execution, or of one before it. */
function hasBegun({ workflowExecutionInfo: info }: Description): boolean {
  return isSet(info?.mostRecentWorkerVersionStamp) || (info?.firstRunId ?? "") !== (info?.execution?.runId ?? "");
}
function isSet(value: object | null | undefined): boolean {
  return value !== null && value !== undefined;
}

function openStatus(description: Description): RunStatus {
  const { workflowExecutionInfo: info, pendingWorkflowTask: task, pendingActivities } = description;
  if (readMemo(info?.memo?.fields).isRollingBack === true) return "rolling_back";
  if (!hasBegun(description)) return "pending";
  if (isSet(task) || (pendingActivities ?? []).some(isUnderWay)) return "running";
  return "sleeping";
}
/** A step that runs, or that a worker may take now. Activities of users are waited for like timers. */
function isUnderWay({ activityType, state, nextAttemptScheduleTime }: PendingActivity): boolean {
  if (activityType?.name !== STEP_TYPE) return false;
  if (state === PendingActivityState.PENDING_ACTIVITY_STATE_STARTED) return true;
  const next = msIfSet(nextAttemptScheduleTime);
  return next === undefined || next <= Date.now();
}
function workerOf({ pendingActivities }: Description): string | undefined {
  const step = (pendingActivities ?? []).find(
    ({ state, activityType }) => activityType?.name === STEP_TYPE && state === PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
  );
  return step?.lastWorkerIdentity ?? undefined;
}
