// Errors that callers of a run get: from messages, queries, run handles, and hosts that lack a feature.
// Owns the fields and wording of these classes; code, retryable and advice come from the catalog.
// Invariants: M8, M9 (a rejected update leaves no trace in history), M10, M11, M12, R6, V4 (a blocked run is unharmed).

import { advise } from "../base/catalog.ts";
import { declareError, HoldfastError } from "../base/holdfastError.ts";
import { because } from "../base/text.ts";

/** No open receive accepted the update, or its validator rejected it. Nothing was recorded. */
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

/** The update was accepted and its handler threw. `cause` is the handler's error; the run continues. */
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

/** The workflow declares no such query, or the query threw. */
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

/** The update was accepted, but its receive closed before handling it. Send it again under a new id. */
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

/** No run with that id exists in this store and namespace. */
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

/** Replaces the catalog's advice: no `onConflict` helps if the id belongs to a run of another workflow (M3). */
const OTHER_WORKFLOW = "Choose another id, or use the workflow that this run belongs to.";

/** A run with that id already exists. */
export class RunAlreadyExistsError extends HoldfastError {
  static {
    declareError(this, "RunAlreadyExistsError");
  }
  /** The first of `runIds`. */
  readonly runId: string;
  /** All ids that already exist: for `startMany`, every conflicting id. */
  readonly runIds: readonly string[];
  /** Set if the existing run belongs to another workflow than the requested one: the name of that workflow (M3). */
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

/** The run has ended and accepts no more messages. `status` says how it ended. */
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

/** The workers' code or codec can't advance the run. The run itself is unharmed. */
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

/** This host does not support the feature. Nothing was written. */
export class UnsupportedError extends HoldfastError {
  static {
    declareError(this, "UnsupportedError");
  }
  /** The unsupported feature: "fork", "tx". */
  readonly feature: string;
  /** The host that lacks it: "Temporal". */
  readonly host: string;
  /** `instead`: advice as a full sentence. Default: the catalog's advice. */
  constructor(details: { feature: string; host: string; instead?: string }) {
    const { feature, host, instead } = details;
    super(advise("UnsupportedError", `${feature} is not supported on ${host}`, instead));
    this.feature = feature;
    this.host = host;
  }
}
