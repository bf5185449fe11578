// The end of a run as the command that reports it to the server.
// Owns: which result, failure or details it has, and whether the server may retry the run.
// Invariants: K3 (a canceled run keeps its value and its error), K7 (no attempt of the run begins after its deadline).

import { type Codec, isRetryable, payloadToJson, reviveError, type SerializedError, sealed } from "@holdfast/core";
import type { RunEnd } from "@holdfast/host";
import { adviseHere } from "../advice.ts";
import type { ActivationJob, CoreCommand } from "../bridge.ts";
import { toFailure } from "../failures.ts";
import { jsonPayload, type Payloads } from "../payloads.ts";
import { msIfSet } from "../proto.ts";

type InitializeWorkflow = NonNullable<ActivationJob["initializeWorkflow"]>;

export function endCommand(
  end: RunEnd,
  { payloads, codec }: { readonly payloads: Payloads; readonly codec: Codec },
  nonRetryable: (error: SerializedError) => boolean,
): CoreCommand {
  switch (end.status) {
    case "completed":
      return { completeWorkflowExecution: { result: payloads.toTemporal(end.value) } };
    case "failed":
      return { failWorkflowExecution: { failure: toFailure(adviseHere(end.error), codec, { nonRetryable: nonRetryable(end.error) }) } };
    case "canceled": {
      const { reason, value, error } = end;
      const details = { ...sealed({ reason, error }, codec), ...(value !== undefined && { value: payloadToJson(value) }) };
      return { cancelWorkflowExecution: { details: { payloads: [jsonPayload(details)] } } };
    }
  }
}

/** Milliseconds between the beginnings of two attempts of a run, at least: the server delays the second one, whatever the policy says. */
const SHORTEST_ATTEMPT = 1_000;
/** The server's longest delay, if a policy has none, as a multiple of the first. */
const LONGEST_OVER_FIRST = 100;

/** Whether the server must not try the run again as a whole: the error says so, or the attempt would begin after the deadline (K7). */
export function isFinal(
  error: SerializedError,
  time: number,
  { retryPolicy: retry, attempt }: Pick<InitializeWorkflow, "retryPolicy" | "attempt">,
  { begunAt, deadlineAt }: { readonly begunAt: number; readonly deadlineAt: number | undefined },
): boolean {
  if (!retry) return false;
  if (!isRetryable(reviveError(error), undefined)) return true;
  const first = msIfSet(retry.initialInterval) ?? 0;
  const longest = msIfSet(retry.maximumInterval) || first * LONGEST_OVER_FIRST;
  const delay = Math.min(first * (retry.backoffCoefficient ?? 1) ** ((attempt ?? 1) - 1), longest);
  return deadlineAt !== undefined && Math.max(time + delay, begunAt + SHORTEST_ATTEMPT) >= deadlineAt;
}
