// Sends updates and waits for their outcomes.
// Owns: the request of an update, and when it is sent again.
// Invariants: M10 (a repeated update with the same id gets the same outcome: the server finds it by its id within an execution, the worker
// across executions), M8 (`acceptWithin`: a rejected update is sent again until the time is over), V4 (blocked runs).

import { NOT_ACCEPTED_IN_TIME, serializeError, UpdateRejectedError } from "@holdfast/core";
import { blockedError, type Message, type UpdateAnswer, type UpdateJob, type UpdateOutcome } from "holdfast/backend";
import { adviseHere } from "../advice.ts";
import { Status, statusOf } from "../bridge.ts";
import { fromFailure, isEarly } from "../failures.ts";
import { headerOf } from "../headers.ts";
import { executionFull, isFull } from "../messageLimits.ts";
import { boundedId } from "../names.ts";
import { api, type temporal } from "../proto.ts";
import type { Blocking } from "./blocking.ts";
import { closedStatus } from "./ends.ts";
import { type Description, type Executions, isOpen, statusIn } from "./executions.ts";
import { absenceOf, called, callerError, isAlreadyStarted, isPassing } from "./serviceErrors.ts";
import type { ClientSettings } from "./settings.ts";
import { Backoff, settledWithin, type Waiting } from "./waiting.ts";

type StartRequest = temporal.api.workflowservice.v1.IStartWorkflowExecutionRequest;
type UpdateRequest = temporal.api.workflowservice.v1.IUpdateWorkflowExecutionRequest;
type Outcome = temporal.api.update.v1.IOutcome;

const { UpdateWorkflowExecutionLifecycleStage: Stage } = api.api.enums.v1;
/** The server's failure of an accepted update whose execution has ended. */
const ENDED_BEFORE = "AcceptedUpdateCompletedWorkflow";
/** How long a start waits for the answer to its update before it looks for the run, in milliseconds. */
const ANSWERED_WITHIN = 250;
/** How long an update waits for the run to go on in a new execution, once the present one gets no more updates, in milliseconds. */
const RENEWED_WITHIN = 10_000;

export class Updates {
  readonly #settings: ClientSettings;
  readonly #executions: Executions;
  readonly #blocking: Blocking;

  constructor(settings: ClientSettings, executions: Executions, blocking: Blocking) {
    this.#settings = settings;
    this.#executions = executions;
    this.#blocking = blocking;
  }

  // ── with a start ──

  /**
   * Starts a run with an update in its first activation, without waiting for the outcome. Resolves with Temporal's id of the execution, or
   * with undefined if another start has created the run. Rejects as a start does.
   */
  async startWith(request: StartRequest, update: Message<UpdateJob>): Promise<string | undefined> {
    const { connection } = this.#settings;
    const { workflowId } = request;
    const updateWorkflow = this.#request(workflowId ?? "", update, Stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED);
    const operations = [{ startWorkflow: request }, { updateWorkflow }];
    const call = connection.longPolls.executeMultiOperation({ namespace: connection.namespace, operations });
    try {
      // The server answers once a worker has accepted the update, which may take long: the run exists before.
      while (!(await settledWithin(call, ANSWERED_WITHIN))) {
        const description = await this.#executions.describe(workflowId ?? "");
        if (description !== undefined) return startedBy(request, description);
      }
      const { responses } = await call;
      const started = responses?.[0]?.startWorkflow;
      return started?.started === true ? (started.runId ?? undefined) : undefined;
    } catch (error) {
      if (isAlreadyStarted(error)) throw error;
      const description = await this.#executions.describe(workflowId ?? "").catch(() => undefined);
      const runId = description === undefined ? undefined : startedBy(request, description);
      if (runId === undefined) throw callerError("start", error);
      return runId; // the update failed, and is sent again
    }
  }
  /** Sends an update to an existing run, without waiting for the outcome. */
  async offer(runId: string, update: Message<UpdateJob>): Promise<"sent" | "not-found" | "closed"> {
    const request = this.#request(runId, update, Stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED);
    const call = this.#settings.connection.longPolls.updateWorkflowExecution(request);
    try {
      if (await settledWithin(call, ANSWERED_WITHIN)) await called("update", call);
      return "sent";
    } catch (error) {
      const absence = absenceOf(error);
      if (absence !== undefined) return absence;
      if (isLost(error) || isPassing(error)) return "sent"; // it is sent again under the same id
      throw error;
    }
  }

  // ── with an outcome ──

  /** Until the outcome is known. Rejects with RunBlockedError if the run is blocked meanwhile (V4). */
  outcome(runId: string, message: Message<UpdateJob>, waiting: Waiting): Promise<UpdateAnswer> {
    const blocked = this.#blocking.watch(runId, waiting).then((end) => {
      throw adviseHere(blockedError(end));
    });
    return Promise.race([this.#outcome(runId, message, waiting), blocked]);
  }
  async #outcome(runId: string, update: Message<UpdateJob>, waiting: Waiting): Promise<UpdateAnswer> {
    const { job, acceptWithin } = update;
    const acceptUntil = acceptWithin === undefined ? undefined : performance.now() + acceptWithin;
    const backoff = new Backoff(waiting);
    let fullSince: number | undefined;
    for (;;) {
      const answer = await this.#attempt(runId, update);
      if (answer === "full") {
        fullSince ??= performance.now();
        if (performance.now() - fullSince >= RENEWED_WITHIN) throw executionFull("updates");
        await backoff.pause();
      } else if (answer !== "again") {
        if (answer.status !== "rejected" || !isEarly(answer.error) || acceptUntil === undefined) return answer;
        const left = acceptUntil - performance.now();
        if (left <= 0) return notAcceptedInTime(job);
        await backoff.pause(left);
      } else await backoff.pause();
      waiting.throwIfOver();
    }
  }
  /** "again": the answer is not there yet, or was lost. "full": this execution gets no more updates. */
  async #attempt(runId: string, update: Message<UpdateJob>): Promise<UpdateAnswer | "again" | "full"> {
    const request = this.#request(runId, update, Stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED);
    let outcome: Outcome | null | undefined;
    try {
      ({ outcome } = await this.#settings.connection.longPolls.updateWorkflowExecution(request));
    } catch (error) {
      if (absenceOf(error) !== undefined) return this.#absent(runId);
      if (isFull(error)) return "full";
      if (isLost(error) || isPassing(error)) return "again";
      throw callerError("update", error);
    }
    if (outcome === null || outcome === undefined) return "again";
    if (outcome.failure?.applicationFailureInfo?.type === ENDED_BEFORE && outcome.failure.source === "Server") return this.#absent(runId);
    return this.#read(outcome);
  }
  #read({ success, failure }: Outcome): UpdateOutcome {
    const { payloads, codec } = this.#settings;
    if (failure === null || failure === undefined) return { status: "completed", value: payloads.first(success?.payloads) };
    const error = adviseHere(fromFailure(failure, codec));
    return { status: error.name === "UpdateRejectedError" ? "rejected" : "failed", error };
  }
  /**
   * The execution has ended, or the server has lost the update with it, which it reports in the same way as an unknown run. If the run goes
   * on in another execution, that one answers.
   */
  async #absent(runId: string): Promise<UpdateAnswer | "again"> {
    const description = await this.#executions.describe(runId);
    if (description === undefined) return { status: "not-found" };
    const runStatus = closedStatus(statusIn(description));
    return isOpen(description) || runStatus === undefined ? "again" : { status: "closed", runStatus };
  }

  #request(runId: string, { job, idempotencyKey: key }: Message<UpdateJob>, lifecycleStage: number): UpdateRequest {
    const { connection, payloads, identity } = this.#settings;
    const { id, name } = job;
    const args = { payloads: [payloads.toTemporal(job.input)] };
    const input = { name, args, ...(key !== undefined && { header: { fields: headerOf({ key }) } }) };
    return {
      namespace: connection.namespace,
      workflowExecution: { workflowId: runId },
      waitPolicy: { lifecycleStage },
      request: { meta: { updateId: boundedId(id), identity }, input },
    };
  }
}

/** Temporal's id of the execution, if this request has started it. */
function startedBy({ requestId }: StartRequest, { workflowExtendedInfo, workflowExecutionInfo }: Description): string | undefined {
  if (!Object.hasOwn(workflowExtendedInfo?.requestIdInfos ?? {}, requestId ?? "")) return undefined;
  return workflowExecutionInfo?.execution?.runId ?? undefined;
}
/** The task with which the worker answered was refused by the server, or has failed: the update is offered again. */
function isLost(error: unknown): boolean {
  return statusOf(error) === Status.FAILED_PRECONDITION;
}
function notAcceptedInTime({ name }: UpdateJob): UpdateOutcome {
  return { status: "rejected", error: serializeError(new UpdateRejectedError({ update: name, reason: NOT_ACCEPTED_IN_TIME })) };
}
