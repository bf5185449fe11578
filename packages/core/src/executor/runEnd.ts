// Ends an execution: chooses the terminal command from the outcome of the root, cancellation and the deadline, after any rollbacks.
// Owns: the choice of the one terminal command (P1), and which late messages could change it (D9).
// Invariants: P1, D9 (late messages), P10 (continuation), K3 (cancellation), K7 (expiry), S1 S3 (rollbacks first), D8 D10 (retry of the
// run).

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { read } from "../base/text.ts";
import {
  CanceledError,
  FatalError,
  IllegalReturnError,
  isError,
  isInstance,
  JoinError,
  RaceError,
  RollbackError,
  reviveRecorded,
  serializeError,
} from "../errors/index.ts";
import type { AnyWorkflow } from "../model/index.ts";
import type {
  CanceledCommand,
  ContinueAsNewCommand,
  EndWants,
  ExpireJob,
  FailCommand,
  Job,
  Payload,
  TerminalCommand,
} from "../protocol/index.ts";
import { askedWait, isRetryable, Random, type RetryPolicy, retryDelay } from "../values/index.ts";
import { ContinueAsNewToken } from "./continuation.ts";
import type { Execution } from "./execution.ts";
import { settled } from "./inputs.ts";
import { partsOf } from "./resume/failureCauses.ts";
import type { UnitOutcome } from "./unit.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export function rootEnded(execution: Execution, outcome: UnitOutcome): void {
  execution.rootOutcome = undefined;
  const { cancelRequested: canceled, continuation } = execution;
  if (outcome.ok && continuation !== undefined && outcome.value !== continuation) {
    execution.violate(
      new IllegalReturnError(
        "ctx.continueAsNew(input) was called but its result was not returned: write `return ctx.continueAsNew(input)`.",
      ),
    );
    return;
  }
  if (canceled !== undefined && !settlesItself(execution, outcome)) return endCanceled(execution, canceled, outcome);
  if (!outcome.ok) return endFailed(execution, outcome.error);
  const overLimit = execution.matcher?.overLimit("fail");
  if (overLimit !== undefined) return endFailed(execution, overLimit);
  if (isInstance(outcome.value, ContinueAsNewToken)) return endContinued(execution, outcome.value);
  let value: Payload;
  try {
    value = execution.encode(outcome.value, "the output of the workflow");
  } catch (error) {
    return endFailed(execution, error);
  }
  close(execution, { type: "complete", value });
}

/** The validated output of the workflow. A schema that awaits a foreign promise is caught like workflow code (X8). */
export async function validatedOutput(workflow: AnyWorkflow, schema: StandardSchemaV1, output: unknown): Promise<unknown> {
  return settled(`the output of workflow ${workflow.name}`, await schema["~standard"].validate(output));
}

/**
 * Whether a cooperative workflow decides its own outcome despite the cancellation, because it did not let the CanceledError through (K3).
 * False if it had returned `continueAsNew` before the cancellation: neither it nor the next execution would see the cancellation (K1).
 */
function settlesItself(execution: Execution, outcome: UnitOutcome): boolean {
  if (execution.cancelUnheard && outcome.ok && isInstance(outcome.value, ContinueAsNewToken)) return false;
  return execution.workflow.options.cancellation === "cooperative" && (outcome.ok || !isInstance(outcome.error, CanceledError));
}

function endCanceled(execution: Execution, canceled: CanceledError, outcome: UnitOutcome): void {
  const command: Mutable<CanceledCommand> = { type: "canceled" };
  const reason = execution.cancelReason;
  if (reason !== undefined) command.reason = reason;
  if (!outcome.ok) {
    if (outcome.error !== canceled) command.error = serializeError(outcome.error);
  } else if (!isInstance(outcome.value, ContinueAsNewToken)) {
    try {
      command.value = execution.encode(outcome.value, "the output of the workflow");
    } catch (error) {
      command.error = serializeError(error);
    }
  }
  if (execution.workflow.options.rollbackOnCancel !== true || execution.saga.empty) return close(execution, command);
  execution.saga.run(canceled, (undone) => {
    if (!undone.ok)
      close(execution, { type: "fail", error: serializeError(canceled), rollbackError: serializeError(undone.error), rolledBack: true });
    else close(execution, command);
  });
}

function endFailed(execution: Execution, error: unknown): void {
  const command: Mutable<FailCommand> = { type: "fail", error: serializeError(error) };
  const causes = [...execution.failureCauses.causesOf(error)].sort((a, b) => a - b);
  if (causes.length > 0) command.causes = causes;
  const retryAfter = runRetry(execution, error);
  if (retryAfter !== undefined) {
    command.retryAfter = retryAfter;
    return close(execution, command);
  }
  undoAndFail(execution, error, command);
}

function undoAndFail(execution: Execution, error: unknown, command: Mutable<FailCommand>): void {
  if (execution.saga.empty) return close(execution, command);
  execution.saga.run(error, (undone) => {
    command.rolledBack = true;
    if (!undone.ok) command.rollbackError = serializeError(undone.error);
    close(execution, command);
  });
}

/** Milliseconds until the run as a whole is retried; undefined if it has failed for good. */
function runRetry(execution: Execution, error: unknown): number | undefined {
  const policy = execution.start?.retry;
  const attempt = execution.matcher?.voided?.attempt ?? execution.attempt;
  if (policy === undefined || attempt >= policy.maxAttempts) return undefined;
  // The stored policy can only have names; a predicate comes from the definition.
  const own = execution.workflow.options.retry?.nonRetryable;
  const nonRetryable = policy.nonRetryable ?? (typeof own === "function" ? own : undefined);
  if (isFinal(error, nonRetryable === undefined ? undefined : { nonRetryable })) return undefined;
  return askedWait(error) ?? retryDelay(policy, attempt, new Random(execution.seed, `~retry/${attempt}`).next());
}
/** Whether the error, thrown by the workflow or by an operation in it, rules out a retry of the run (D8). */
function isFinal(error: unknown, policy: RetryPolicy | undefined, depth = 0): boolean {
  if (!isError(error) || depth > 16) return false;
  const isFinalToo = (inner: unknown) => isFinal(inner, policy, depth + 1);
  if (isInstance(error, JoinError)) return partsOf(error).some(isFinalToo);
  if (isInstance(error, RaceError)) return partsOf(error).every(isFinalToo);
  if (isInstance(error, FatalError) || isInstance(error, RollbackError)) return true;
  return !isRetryable(error, policy) || isFinalToo(read(error, "cause"));
}

function endContinued(execution: Execution, token: ContinueAsNewToken): void {
  let input: Payload;
  try {
    input = execution.encode(token.continueAsNew, "the input of the next execution");
  } catch (error) {
    return endFailed(execution, error);
  }
  const command: Mutable<ContinueAsNewCommand> = { type: "continueAsNew", input };
  if (token.version !== undefined) command.version = token.version;
  const signals = execution.mailbox.signals.map(({ id, name, payload }) => ({ id, name, payload }));
  if (signals.length > 0) command.signals = signals;
  close(execution, command);
}

/** Cancels a resumed attempt that already failed in replay by its own code: the cancellation takes precedence (K3). */
export function cancelAttempt(execution: Execution, canceled: CanceledError): void {
  execution.hasFailed = false;
  execution.closed = false;
  endCanceled(execution, canceled, { ok: false, error: canceled });
}

/** Ends a run whose deadline has passed: all workflow code stops without notice; only rollbacks run (K7). */
export function expire(execution: Execution, job: ExpireJob): void {
  if (execution.closed || execution.expired) return;
  execution.expired = true;
  const error = reviveRecorded(job.error);
  if (execution.root?.over === true && execution.rootOutcome === undefined) return; // its rollbacks are running already
  execution.rootOutcome = undefined;
  execution.abandonUnits();
  undoAndFail(execution, error, { type: "fail", error: job.error });
}

/** Which messages would have changed the end of the run if they had arrived in time (D9, K1). */
export function endWants(execution: Execution, jobs: readonly Job[]): EndWants | undefined {
  const end = execution.commands.at(-1);
  const isEnd = end?.type === "complete" || end?.type === "fail" || end?.type === "canceled";
  if (!isEnd || execution.expired) return undefined; // K7: messages don't matter after a deadline
  const wants: Mutable<EndWants> = {};
  const isRolledBack = end.type === "fail" && end.rolledBack === true;
  if (execution.cancelRequested === undefined && !isRolledBack) wants.heedsCancel = true;
  const { unmet, signals } = execution.mailbox;
  if (unmet.size === 0) return wants;
  const left = new Map(signals.map(({ id, name }) => [id, name]));
  const leftNames = new Set(left.values());
  const stillWanted = [...unmet].filter((name) => !leftNames.has(name));
  const overtaken = jobs.flatMap((job) => (job.type === "signal" && left.has(job.id) && unmet.has(job.name) ? [job.name] : []));
  if (stillWanted.length > 0) wants.stillWanted = stillWanted.sort();
  if (overtaken.length > 0) wants.overtaken = [...new Set(overtaken)].sort();
  return wants;
}

function close(execution: Execution, command: TerminalCommand): void {
  execution.emit(command);
  execution.closed = true;
  execution.hasFailed = command.type === "fail" && command.rolledBack !== true;
}
