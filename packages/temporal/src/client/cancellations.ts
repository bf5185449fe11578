// Cancels, terminates and deletes runs.
// Owns: these requests, and what they answer for closed runs.
// Invariants: K1 (the reason reaches the workflow), K6 (a terminated run ends at once), E1 (reasons are sealed with the codec).

import { randomUUID } from "node:crypto";
import { sealed } from "@holdfast/core";
import type { SendAnswer } from "holdfast/backend";
import { isImpossible } from "../names.ts";
import { closedStatus } from "./ends.ts";
import { type Description, type Executions, executionIn, isOpen, statusIn } from "./executions.ts";
import { absenceOf, called } from "./serviceErrors.ts";
import type { ClientSettings } from "./settings.ts";

export class Cancellations {
  readonly #settings: ClientSettings;
  readonly #executions: Executions;

  constructor(settings: ClientSettings, executions: Executions) {
    this.#settings = settings;
    this.#executions = executions;
  }
  /**
   * The server answers a request for a closed run as one for an open run, so the run is looked at before and after. `known`: the answer of
   * the look before, if there was one.
   */
  async cancel(runId: string, reason: string | undefined, known?: Description): Promise<SendAnswer> {
    const before = known ?? (await this.#executions.describe(runId));
    const refusal = refusalOf(before);
    if (refusal !== undefined) return refusal;
    const { connection, identity } = this.#settings;
    const { service, namespace } = connection;
    try {
      const request = {
        namespace,
        workflowExecution: { workflowId: runId },
        identity,
        requestId: randomUUID(),
        reason: this.#sealed(reason),
      };
      await called("cancel", service.requestCancelWorkflowExecution(request));
    } catch (error) {
      if (absenceOf(error) === undefined) throw error;
    }
    const after = await this.#executions.describe(runId);
    const isDelivered = after?.workflowExtendedInfo?.cancelRequested === true;
    return isDelivered ? { status: "sent" } : (refusalOf(after) ?? { status: "sent" });
  }
  async terminate(runId: string, reason: string | undefined): Promise<SendAnswer> {
    if (isImpossible(runId)) return { status: "not-found" };
    const { connection, identity } = this.#settings;
    const { service, namespace } = connection;
    try {
      const request = { namespace, workflowExecution: { workflowId: runId }, identity, reason: this.#sealed(reason) };
      await called("terminate", service.terminateWorkflowExecution(request));
      return { status: "sent" };
    } catch (error) {
      const absence = absenceOf(error);
      if (absence === undefined) throw error;
      return closedAnswer(absence === "not-found" ? undefined : await this.#executions.describe(runId));
    }
  }
  /** The server deletes it in the background: it may be found for a moment longer. */
  async delete(runId: string): Promise<"deleted" | "not-found" | "open"> {
    const description = await this.#executions.describe(runId);
    if (description === undefined) return "not-found";
    if (isOpen(description)) return "open";
    const { service, namespace } = this.#settings.connection;
    try {
      await called("delete", service.deleteWorkflowExecution({ namespace, workflowExecution: executionIn(description) }));
      return "deleted";
    } catch (error) {
      if (absenceOf(error) === undefined) throw error;
      return "not-found";
    }
  }
  #sealed(reason: string | undefined): string {
    return reason === undefined ? "" : sealed({ reason }, this.#settings.codec).reason;
  }
}

/** Why a message can't be delivered. Undefined if the run is open. */
export function refusalOf(description: Description | undefined): SendAnswer | undefined {
  if (description !== undefined && isOpen(description)) return undefined;
  const answer = closedAnswer(description);
  return answer.status === "closed" && answer.runStatus === "canceled" ? { status: "duplicate" } : answer;
}
export function closedAnswer(description: Description | undefined): Extract<SendAnswer, { status: "closed" | "not-found" }> {
  if (description === undefined) return { status: "not-found" };
  return { status: "closed", runStatus: closedStatus(statusIn(description)) ?? "running" };
}
