// Starts runs.
// Owns: the request of a start, and what a start does if the id is taken.
// Invariants: M3 (ids and keys), M8 (messages of a start are in the first activation), P10 (restart-if-closed is the next execution).

import { randomUUID } from "node:crypto";
import { HoldfastError, UnsupportedError } from "@holdfast/core";
import type { Message, RunStart, SignalJob, StartAnswer, UpdateJob } from "holdfast/backend";
import { headerOf, type RecordedSettings, type StartHeader } from "../headers.ts";
import { memoFields } from "../memo.ts";
import { keyedId, priorityFields, taskQueueOf } from "../names.ts";
import type { TemporalPayload } from "../payloads.ts";
import { api, durationOf, type temporal } from "../proto.ts";
import { scheduledFields } from "../scheduledBy.ts";
import { closedStatus } from "./ends.ts";
import { type Description, type Executions, executionIn, type Started, statusIn } from "./executions.ts";
import { inParallel } from "./parallel.ts";
import type { SearchAttributes } from "./searchAttributes.ts";
import { called, isAlreadyStarted } from "./serviceErrors.ts";
import { type ClientSettings, HOST } from "./settings.ts";
import type { Signals } from "./signals.ts";
import type { Updates } from "./updates.ts";

type StartRequest = temporal.api.workflowservice.v1.IStartWorkflowExecutionRequest;
/** The fields that a start and the action of a schedule have in common. */
type ExecutionStart = Pick<
  temporal.api.workflow.v1.INewWorkflowExecutionInfo & StartRequest,
  "workflowId" | "workflowType" | "taskQueue" | "input" | "memo" | "header" | "searchAttributes" | "retryPolicy" | "priority"
>;
type ScheduleAction = temporal.api.schedule.v1.IScheduleAction;
type RetryPolicy = temporal.api.common.v1.IRetryPolicy;

const { WorkflowIdReusePolicy: Reuse, WorkflowIdConflictPolicy: Conflict } = api.api.enums.v1;

/** Starts of one call that are under way at the same time. */
const AT_ONCE = 50;
/** How often a start is repeated that another client's starts and ends overtake. */
const MOST_TRIES = 20;

export class Starts {
  readonly #settings: ClientSettings;
  readonly #executions: Executions;
  readonly #searchAttributes: SearchAttributes;
  readonly #signals: Signals;
  readonly #updates: Updates;

  constructor(
    settings: ClientSettings,
    parts: {
      readonly executions: Executions;
      readonly searchAttributes: SearchAttributes;
      readonly signals: Signals;
      readonly updates: Updates;
    },
  ) {
    this.#settings = settings;
    this.#executions = parts.executions;
    this.#searchAttributes = parts.searchAttributes;
    this.#signals = parts.signals;
    this.#updates = parts.updates;
  }

  create(starts: readonly RunStart[]): Promise<StartAnswer[]> {
    return inParallel(starts, AT_ONCE, (start) => this.#answer(start));
  }
  async #answer(start: RunStart): Promise<StartAnswer> {
    try {
      return await this.#start(start);
    } catch (error) {
      return { status: "failed", error };
    }
  }
  async #start(given: RunStart): Promise<StartAnswer> {
    refuseUnsupported(given);
    const { idempotencyKey: key } = given;
    const isKeyed = key !== undefined && given.isIdGenerated === true;
    const start: RunStart = isKeyed ? { ...given, id: keyedId(given.workflow, key) } : given;
    const fields = await this.#fieldsOf(start);
    let previous: Started | undefined;
    for (let tries = 1; ; tries++) {
      if (await this.#isStarted(start, fields, previous)) return { status: "created", id: start.id };
      const existing = await this.#executions.describe(start.id);
      if (existing !== undefined) {
        const answer = await this.#existing(start, existing, isKeyed);
        if (answer !== undefined) return answer;
        previous = await this.#executions.started(executionIn(existing));
      }
      if (tries === MOST_TRIES) throw unstableId(start.id);
    }
  }
  /** What is there decides. Undefined: the run has closed and is to be started again. */
  async #existing(start: RunStart, existing: Description, isKeyed: boolean): Promise<StartAnswer | undefined> {
    const { id } = start;
    const workflow = existing.workflowExecutionInfo?.type?.name ?? "";
    const closed = closedStatus(statusIn(existing));
    const conflict: StartAnswer = { status: "conflict", id, runStatus: closed ?? "running", workflow };
    if (workflow !== start.workflow) return conflict;
    if (isKeyed || (await this.#isSameStart(start, existing))) return { status: "existing", id };
    if (start.onConflict === "reject") return conflict;
    if (closed !== undefined && start.onConflict === "restart-if-closed") return undefined;
    const messages = start.messages ?? [];
    if (messages.length === 0) return { status: "existing", id };
    if (closed !== undefined) return conflict;
    return (await this.#deliver(start, messages)) ? { status: "existing", id } : conflict;
  }
  /** M3: the run was started with the same key. */
  async #isSameStart({ idempotencyKey: key }: RunStart, existing: Description): Promise<boolean> {
    if (key === undefined) return false;
    const { header } = await this.#executions.started(executionIn(existing));
    return header.key === key;
  }
  /** To a run that exists. False if it has closed. */
  async #deliver({ id }: RunStart, messages: readonly Message<SignalJob | UpdateJob>[]): Promise<boolean> {
    for (const message of messages) {
      const { job } = message;
      const sent =
        job.type === "signal" ? await this.#signals.send(id, { ...message, job }) : await this.#updates.offer(id, { ...message, job });
      if (sent !== "sent") return false;
    }
    return true;
  }

  // ── the request ──

  /** False if the id is taken. `previous`: the closed execution that this start follows. */
  async #isStarted(start: RunStart, fields: Record<string, TemporalPayload>, previous: Started | undefined): Promise<boolean> {
    const header = startHeaderOf(start, previous);
    const request = this.#request(start, header, fields, previous);
    const update = (start.messages ?? []).find((message): message is Message<UpdateJob> => message.job.type === "update");
    try {
      const runId = await (update === undefined ? this.#startAlone(request) : this.#updates.startWith(request, update));
      if (runId === undefined) return false;
      this.#executions.remember(runId, { input: start.input, header, at: undefined, attempt: 1 });
      return true;
    } catch (error) {
      if (isAlreadyStarted(error)) return false;
      throw error;
    }
  }
  async #startAlone(request: StartRequest): Promise<string> {
    const { runId } = await called("start", this.#settings.connection.service.startWorkflowExecution(request));
    return runId ?? "";
  }
  #request(
    start: RunStart,
    header: StartHeader,
    indexedFields: Record<string, TemporalPayload>,
    previous: Started | undefined,
  ): StartRequest {
    const { connection, identity } = this.#settings;
    const delay = start.delay ?? (start.startAt === undefined ? 0 : start.startAt - Date.now());
    return {
      namespace: connection.namespace,
      ...this.#executionOf(start, header, indexedFields),
      identity,
      requestId: randomUUID(),
      workflowIdReusePolicy:
        previous === undefined ? Reuse.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE : Reuse.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
      workflowIdConflictPolicy: Conflict.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
      ...(delay > 0 && { workflowStartDelay: durationOf(delay) }),
    };
  }
  /** What an execution is started with, by this client or by a schedule of the server. */
  #executionOf(start: RunStart, header: StartHeader, indexedFields: Record<string, TemporalPayload>): ExecutionStart {
    const { payloads, queue } = this.#settings;
    return {
      workflowId: start.id,
      workflowType: { name: start.workflow },
      taskQueue: { name: taskQueueOf(start.queue, queue) },
      input: { payloads: [payloads.toTemporal(start.input)] },
      memo: { fields: memoFields({ attributes: start.attributes }) },
      header: { fields: headerOf(header) },
      ...(Object.keys(indexedFields).length > 0 && { searchAttributes: { indexedFields } }),
      ...(start.retry !== undefined && { retryPolicy: retryPolicyOf(start.retry) }),
      ...priorityFields(start),
    };
  }
  async #fieldsOf({ attributes, schedule, tick }: RunStart): Promise<Record<string, TemporalPayload>> {
    const by = { ...(schedule !== undefined && { schedule }), ...(tick !== undefined && { tick }) };
    return { ...(await this.#searchAttributes.fields(attributes)), ...scheduledFields(by) };
  }
  /** The action of a schedule. The server adds which schedule and which tick it is. */
  async actionOf(start: RunStart, settings: RecordedSettings): Promise<ScheduleAction> {
    refuseUnsupported(start);
    const fields = await this.#searchAttributes.fields(start.attributes);
    return { startWorkflow: this.#executionOf(start, { ...startHeaderOf(start, undefined), settings }, fields) };
  }
}

function startHeaderOf(start: RunStart, previous: Started | undefined): StartHeader {
  const { version, isChecked, deadline, retry, idempotencyKey: key, key: workKey, priority, schedule, messages = [] } = start;
  // K7: every attempt of the run gets this header. A deadline that counts from the start would restart with each.
  const { deadlineAt = deadline === undefined || retry === undefined ? undefined : Date.now() + deadline } = start;
  const signals = messages.flatMap(({ job }) => (job.type === "signal" ? [{ id: job.id, name: job.name, payload: job.payload }] : []));
  return {
    ...(version !== undefined && { version }),
    ...(!isChecked && { isUnchecked: true }),
    ...(deadline !== undefined && deadlineAt === undefined && { deadline }),
    ...(deadlineAt !== undefined && { deadlineAt }),
    ...(key !== undefined && { key }),
    ...(priority !== 0 && { priority }),
    ...(workKey !== undefined && { workKey }),
    ...(schedule !== undefined && { schedule }),
    ...(signals.length > 0 && { signals }),
    ...(previous !== undefined && { execution: (previous.header.execution ?? 1) + 1 }),
  };
}

function retryPolicyOf(retry: NonNullable<RunStart["retry"]>): RetryPolicy {
  const { maxAttempts, initialInterval, backoff, maxInterval, nonRetryable = [] } = retry;
  return {
    maximumAttempts: Number.isFinite(maxAttempts) ? maxAttempts : 0,
    initialInterval: durationOf(Math.max(1, initialInterval)),
    backoffCoefficient: Math.max(1, backoff),
    ...(Number.isFinite(maxInterval) && { maximumInterval: durationOf(Math.max(1, initialInterval, maxInterval)) }),
    nonRetryableErrorTypes: [...nonRetryable],
  };
}

/** An option is never ignored. */
function refuseUnsupported({ after, onConflict, retention, delay = 0, startAt = 0, messages = [] }: RunStart): void {
  const refuse = (feature: string, instead: string): never => {
    throw new UnsupportedError({ feature, host: HOST, instead });
  };
  if (after !== undefined) refuse("after", "Start the run when the other one has closed, or start both as children of one run.");
  refuseRetention(retention);
  if ((delay > 0 || startAt > Date.now()) && messages.some(({ job }) => job.type === "update"))
    refuse("updateWithStart with delay or startAt", "Start the run, and send it the update with acceptWithin.");
  if (onConflict === "replace" || onConflict === "debounce")
    refuse(`onConflict "${onConflict}"`, "Signal the run that exists, or open the engine on SQLite or PostgreSQL.");
}

export function refuseRetention(retention: unknown): void {
  if (retention === undefined) return;
  const instead = "Leave it out, and set the retention of the Temporal namespace, or call run.delete().";
  throw new UnsupportedError({ feature: "retention of a workflow", host: HOST, instead });
}
export function refuseTx(what: string, tx: unknown): void {
  if (tx === undefined) return;
  const instead = `Call ${what} after your transaction has committed, with an id or an idempotencyKey, so that it can be repeated safely.`;
  throw new UnsupportedError({ feature: "tx", host: HOST, instead });
}

function unstableId(id: string): HoldfastError {
  return new HoldfastError(`Run "${id}" was started and closed by others again and again.`, {
    code: "HF_TEMPORAL_UNAVAILABLE",
    retryable: true,
  });
}
