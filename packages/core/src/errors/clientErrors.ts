// Errors that a caller of a run gets: from messages, from queries, from handles to runs, and from hosts that lack a feature.
// Owns the fields and wording of these classes; code, retryable and advice come from the catalog.
// Invariants: M8, M9 (rejected: nothing entered history), M10, M11, M12, R6, V4 (a blocked run is unharmed).

import { advise } from "../base/catalog.ts";
import { declareError, HoldfastError } from "../base/holdfastError.ts";
import { because } from "../base/text.ts";

export class UpdateRejectedError extends HoldfastError {
  static {
    declareError(this, "UpdateRejectedError");
  }
  readonly update: string;
  readonly reason: string;
  constructor(details: { update: string; reason: string; cause?: unknown }) {
    const { update, reason, cause } = details;
    super(advise("UpdateRejectedError", `update "${update}" was rejected: ${reason}`), { cause });
    this.update = update;
    this.reason = reason;
  }
}

export class UpdateFailedError extends HoldfastError {
  static {
    declareError(this, "UpdateFailedError");
  }
  readonly update: string;
  constructor(details: { update: string; cause?: unknown }) {
    const { update, cause } = details;
    super(advise("UpdateFailedError", `the handler of update "${update}" failed${because(cause)}`), { cause });
    this.update = update;
  }
}

export class QueryFailedError extends HoldfastError {
  static {
    declareError(this, "QueryFailedError");
  }
  readonly query: string;
  readonly reason: string;
  constructor(details: { query: string; reason: string; cause?: unknown }) {
    const { query, reason, cause } = details;
    super(advise("QueryFailedError", `query "${query}" failed: ${reason}`), { cause });
    this.query = query;
    this.reason = reason;
  }
}

export class ReceiveClosedError extends HoldfastError {
  static {
    declareError(this, "ReceiveClosedError");
  }
  readonly update: string;
  constructor(details: { update: string }) {
    super(advise("ReceiveClosedError", `update "${details.update}" was accepted, but the receive closed before it was dispatched`));
    this.update = details.update;
  }
}

export class RunNotFoundError extends HoldfastError {
  static {
    declareError(this, "RunNotFoundError");
  }
  readonly runId: string;
  constructor(details: { runId: string }) {
    super(advise("RunNotFoundError", `there is no run "${details.runId}"`));
    this.runId = details.runId;
  }
}

/** Instead of the catalog's advice: no `onConflict` helps there (M3). */
const OTHER_WORKFLOW = "Choose another id, or name the workflow that the run is of.";

export class RunAlreadyExistsError extends HoldfastError {
  static {
    declareError(this, "RunAlreadyExistsError");
  }
  /** The first of them. */
  readonly runId: string;
  /** The ids that are taken: of `startMany` all of them, also when it is one. */
  readonly runIds: readonly string[];
  /** Of a run of another workflow than the one that was asked for: its workflow (M3). */
  declare readonly workflow?: string;
  constructor(details: { runId: string; runIds?: readonly string[]; workflow?: string | undefined }) {
    const { runId, runIds = [runId], workflow } = details;
    const what =
      runIds.length === 1 ? `run "${runIds[0]}" already exists` : `runs ${runIds.map((id) => `"${id}"`).join(", ")} already exist`;
    super(
      workflow === undefined
        ? advise("RunAlreadyExistsError", what)
        : advise("RunAlreadyExistsError", `${what}: it is a run of workflow "${workflow}"`, OTHER_WORKFLOW),
    );
    this.runId = runId;
    this.runIds = runIds;
    if (workflow !== undefined) this.workflow = workflow;
  }
}

export class RunClosedError extends HoldfastError {
  static {
    declareError(this, "RunClosedError");
  }
  readonly runId: string;
  readonly status: string;
  constructor(details: { runId: string; status: string }) {
    const { runId, status } = details;
    super(advise("RunClosedError", `run "${runId}" is closed (${status})`));
    this.runId = runId;
    this.status = status;
  }
}

export class RunBlockedError extends HoldfastError {
  static {
    declareError(this, "RunBlockedError");
  }
  readonly runId: string;
  readonly reason: string;
  constructor(details: { runId: string; reason: string; cause?: unknown }) {
    const { runId, reason, cause } = details;
    super(advise("RunBlockedError", `run "${runId}" is blocked: ${reason}`), { cause });
    this.runId = runId;
    this.reason = reason;
  }
}

export class UnsupportedError extends HoldfastError {
  static {
    declareError(this, "UnsupportedError");
  }
  /** What was asked for: "fork", "tx". */
  readonly feature: string;
  /** Where it was asked for: "Temporal". */
  readonly host: string;
  /** `instead`: what to do there, as a sentence. Default: the catalog's advice. */
  constructor(details: { feature: string; host: string; instead?: string }) {
    const { feature, host, instead } = details;
    super(advise("UnsupportedError", `${feature} is not supported on ${host}`, instead));
    this.feature = feature;
    this.host = host;
  }
}
