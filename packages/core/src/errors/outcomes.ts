// Errors that workflow code throws and catches: how steps, activities, children, scopes and the run itself end.
// Owns the fields and wording of these classes; code, retryable and advice come from the catalog.
// Invariants: D8 (FatalError and RollbackError are never retried, RetryLaterError says when), C2 and C3 (every branch error is kept), K3, K7.

import { advise } from "../base/catalog.ts";
import { formatDuration } from "../base/formatDuration.ts";
import { declareError, HoldfastError } from "../base/holdfastError.ts";
import { because, count, preview } from "../base/text.ts";
import { type Duration, parseDuration } from "../values/duration.ts";

/** Throw from a step or activity: no more attempts. */
export class FatalError extends HoldfastError {
  static {
    declareError(this, "FatalError");
  }
  readonly data: unknown;
  constructor(message: string, options: { cause?: unknown; data?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.data = options.data;
  }
}

/** Throw anywhere in a workflow: fail and roll back. */
export class RollbackError extends HoldfastError {
  static {
    declareError(this, "RollbackError");
  }
  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, { cause: options.cause });
  }
}

/** Throw from a step or activity: the next attempt then, not by backoff. */
export class RetryLaterError extends HoldfastError {
  static {
    declareError(this, "RetryLaterError");
  }
  /** In milliseconds from the end of the attempt. */
  readonly after: number;
  constructor(message: string, options: { after: Duration; cause?: unknown }) {
    super(message, { cause: options?.cause });
    this.after = parseDuration(options?.after);
  }
}

export class StepFailedError extends HoldfastError {
  static {
    declareError(this, "StepFailedError");
  }
  readonly step: string;
  readonly attempts: number;
  constructor(details: { step: string; attempts: number; cause?: unknown }) {
    const { step, attempts, cause } = details;
    super(advise("StepFailedError", `step "${step}" failed after ${count(attempts, "attempt")}${because(cause)}`), { cause });
    this.step = step;
    this.attempts = attempts;
  }
}

/** D11: the limits of time that an activity may have. */
export type ActivityLimit = "startToClose" | "scheduleToClose" | "scheduleToStart" | "heartbeat";

function lateActivity(limit: ActivityLimit, activity: string, attempt: number, length: string): string {
  switch (limit) {
    case "startToClose":
      return `attempt ${attempt} of activity "${activity}" took longer than its startToClose of ${length}`;
    case "scheduleToClose":
      return `activity "${activity}" was not done within its scheduleToClose of ${length}, at attempt ${attempt}`;
    case "scheduleToStart":
      return `no worker began activity "${activity}" within its scheduleToStart of ${length}`;
    case "heartbeat":
      return `attempt ${attempt} of activity "${activity}" sent no heartbeat for ${length}, its heartbeat limit`;
  }
}
const LIMIT_ADVICE: Readonly<Record<ActivityLimit, string>> = {
  startToClose: "Raise its `startToClose`, or pass its `signal` to what it calls so that the call ends in time.",
  scheduleToClose: "Raise its `scheduleToClose`, or see in run.operations() what its attempts took so long for.",
  scheduleToStart: "Start a worker that has it on its queue, or more of them, or raise its `scheduleToStart`.",
  heartbeat: "Call info.heartbeat() more often than that, or raise its `heartbeat`.",
};

export class StepTimeoutError extends HoldfastError {
  static {
    declareError(this, "StepTimeoutError");
  }
  readonly step: string;
  /** In milliseconds. */
  readonly timeout: number;
  readonly attempt: number;
  /** Which of an activity's limits it was; undefined for the timeout of a step. */
  readonly limit: ActivityLimit | undefined;
  /** With `limit`, `step` is the name of an activity. */
  constructor(details: { step: string; timeout: number; attempt: number; limit?: ActivityLimit }) {
    const { step, timeout, attempt, limit } = details;
    const length = formatDuration(timeout);
    super(
      limit === undefined
        ? advise("StepTimeoutError", `attempt ${attempt} of step "${step}" took longer than its timeout of ${length}`)
        : advise("StepTimeoutError", lateActivity(limit, step, attempt, length), LIMIT_ADVICE[limit]),
    );
    this.step = step;
    this.timeout = timeout;
    this.attempt = attempt;
    this.limit = limit;
  }
}

export class ActivityFailedError extends HoldfastError {
  static {
    declareError(this, "ActivityFailedError");
  }
  readonly activity: string;
  readonly attempts: number;
  constructor(details: { activity: string; attempts: number; cause?: unknown }) {
    const { activity, attempts, cause } = details;
    super(advise("ActivityFailedError", `activity "${activity}" failed after ${count(attempts, "attempt")}${because(cause)}`), { cause });
    this.activity = activity;
    this.attempts = attempts;
  }
}

export class ChildFailedError extends HoldfastError {
  static {
    declareError(this, "ChildFailedError");
  }
  readonly childId: string;
  readonly workflow: string | undefined;
  constructor(details: { childId: string; workflow?: string; cause?: unknown }) {
    const { childId, workflow, cause } = details;
    const of = workflow === undefined ? "" : ` of workflow "${workflow}"`;
    super(advise("ChildFailedError", `child run "${childId}"${of} did not complete${because(cause)}`), { cause });
    this.childId = childId;
    this.workflow = workflow;
  }
}

/** Instead of the catalog's advice. */
const FINAL =
  "See `cause` and run.operations(). It can't be resumed, because its deadline has passed or its rollbacks have run: start another run.";

/** S2: hosts keep the error of the rollback with that of the run. */
function notUndone(cause: unknown): string {
  const { rollbackError } = (cause ?? {}) as { readonly rollbackError?: { readonly message?: unknown } };
  if (typeof rollbackError?.message !== "string") return "";
  const [first = ""] = rollbackError.message.split("\n");
  return `\nNot all of its steps were rolled back: ${first}; the steps before that one were not undone.`;
}

export class RunFailedError extends HoldfastError {
  static {
    declareError(this, "RunFailedError");
  }
  readonly runId: string;
  /** `resumable`: false where `run.resume()` would be refused (D10). */
  constructor(details: { runId: string; cause?: unknown; resumable?: boolean }) {
    const { runId, cause, resumable = true } = details;
    const what = `run "${runId}" failed${because(cause)}${notUndone(cause)}`;
    super(resumable ? advise("RunFailedError", what) : `${what}\n${FINAL}`, { cause });
    this.runId = runId;
  }
}

export class CanceledError extends HoldfastError {
  static {
    declareError(this, "CanceledError");
  }
  readonly reason: string | undefined;
  constructor(reason?: string) {
    super(advise("CanceledError", reason === undefined ? "canceled" : `canceled: ${reason}`));
    this.reason = reason;
  }
}

export class RunTerminatedError extends HoldfastError {
  static {
    declareError(this, "RunTerminatedError");
  }
  readonly runId: string;
  readonly reason: string | undefined;
  constructor(details: { runId: string; reason?: string }) {
    const { runId, reason } = details;
    super(advise("RunTerminatedError", `run "${runId}" was terminated${reason === undefined ? "" : `: ${reason}`}`));
    this.runId = runId;
    this.reason = reason;
  }
}

export class DeadlineExceededError extends HoldfastError {
  static {
    declareError(this, "DeadlineExceededError");
  }
  readonly runId: string;
  /** In milliseconds since 1970. */
  readonly deadline: number | undefined;
  constructor(details: { runId: string; deadline?: number }) {
    const { runId, deadline } = details;
    const when = deadline === undefined ? "" : ` of ${isoTime(deadline)}`;
    super(advise("DeadlineExceededError", `run "${runId}" did not end before its deadline${when}`));
    this.runId = runId;
    this.deadline = deadline;
  }
}

export class JoinError extends HoldfastError {
  static {
    declareError(this, "JoinError");
  }
  /** The name that the join was given. */
  readonly scope: string;
  /** By branch. */
  readonly errors: Readonly<Record<string, Error>>;
  constructor(details: { name: string; errors: Readonly<Record<string, Error>> }) {
    const failed = count(Object.keys(details.errors).length, "branch", "branches");
    super(advise("JoinError", `join "${details.name}" failed in ${failed}: ${listBranches(details.errors)}`));
    this.scope = details.name;
    this.errors = details.errors;
  }
}

export class RaceError extends HoldfastError {
  static {
    declareError(this, "RaceError");
  }
  /** The name that the race was given. */
  readonly scope: string;
  /** By branch. */
  readonly errors: Readonly<Record<string, Error>>;
  constructor(details: { name: string; errors: Readonly<Record<string, Error>> }) {
    super(advise("RaceError", `no branch of race "${details.name}" succeeded: ${listBranches(details.errors)}`));
    this.scope = details.name;
    this.errors = details.errors;
  }
}

function listBranches(errors: Readonly<Record<string, Error>>): string {
  return Object.entries(errors)
    .map(([branch, error]) => `${branch} (${preview(error)})`)
    .join(", ");
}

function isoTime(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}
