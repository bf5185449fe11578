// The catalog: every error that Holdfast raises, with its code, whether a retry helps, and what to do about it.
// Owns those facts. The classes take code, `retryable` and advice from here, and the docs page is generated from here: one source.
// Invariants: a name is a class name, a code never changes (programs match on it), and both are unique in the table.

/** One error of the catalog. */
export interface ErrorEntry {
  /** The class name, and the `name` of its instances. */
  readonly name: string;
  /** Stable, for programs to match on. */
  readonly code: `HF_${string}`;
  /** Whether repeating the same call can help. */
  readonly retryable: boolean;
  /** When it is raised. */
  readonly summary: string;
  /** The advice that closes the message. */
  readonly whatToDo: string;
}

/** The errors that any host may raise, with code, class and advice. `docs/errors.md` is generated from it. */
export const errorCatalog = [
  {
    name: "HoldfastError",
    code: "HF_ERROR",
    retryable: false,
    summary: "The class that all errors of Holdfast extend.",
    whatToDo: "Match on `code`, or on one of the classes below.",
  },

  // What a workflow throws, catches and ends with.
  {
    name: "FatalError",
    code: "HF_FATAL",
    retryable: false,
    summary: "Thrown by a step or activity when retrying is pointless.",
    whatToDo: "Fix what the message says. The step or activity is not retried.",
  },
  {
    name: "RollbackError",
    code: "HF_ROLLBACK",
    retryable: false,
    summary: "Thrown by a workflow to fail and to roll back its completed steps.",
    whatToDo: "Nothing: the rollbacks of completed steps run in reverse order.",
  },
  {
    name: "RetryLaterError",
    code: "HF_RETRY_LATER",
    retryable: true,
    summary: "Thrown by a step or activity to set the time of its next attempt, for example from a `Retry-After` header.",
    whatToDo: "Nothing: the next attempt starts at that time, if attempts are left and the run's deadline allows it.",
  },
  {
    name: "StepFailedError",
    code: "HF_STEP_FAILED",
    retryable: false,
    summary: "A step failed for good: all its attempts failed, or its error is not retryable.",
    whatToDo: "See `cause`. Catch it in the workflow to handle the failure, or fix the cause and call run.resume().",
  },
  {
    name: "StepTimeoutError",
    code: "HF_STEP_TIMEOUT",
    retryable: true,
    summary: "One attempt of a step took longer than its `timeout`, or an activity exceeded the limit that the message names.",
    whatToDo: "Raise the limit, or pass `signal` to the calls inside so that they end in time.",
  },
  {
    name: "ActivityFailedError",
    code: "HF_ACTIVITY_FAILED",
    retryable: false,
    summary: "An activity failed for good: all its attempts failed, it timed out, or its error is not retryable.",
    whatToDo: "See `cause`. Catch it in the workflow to handle the failure, or fix the cause and call run.resume().",
  },
  {
    name: "ChildFailedError",
    code: "HF_CHILD_FAILED",
    retryable: false,
    summary: "A child run failed, was canceled or was terminated.",
    whatToDo: "See `cause`. Catch it in the parent to handle the failure, or look at the child run by its id.",
  },
  {
    name: "RunFailedError",
    code: "HF_RUN_FAILED",
    retryable: false,
    summary: "The run whose result was asked for has failed.",
    whatToDo: "See `cause` and run.operations(). When the cause is fixed, run.resume() continues where the run stopped.",
  },
  {
    name: "CanceledError",
    code: "HF_CANCELED",
    retryable: false,
    summary: "The run, or the scope around this operation, was canceled.",
    whatToDo: "Let it propagate, or clean up in a `finally` block inside ctx.shield(..).",
  },
  {
    name: "RunTerminatedError",
    code: "HF_RUN_TERMINATED",
    retryable: false,
    summary: "The run was ended from outside, without running workflow code.",
    whatToDo: "Start a new run if the work is still needed. A terminated run can't be resumed.",
  },
  {
    name: "DeadlineExceededError",
    code: "HF_DEADLINE_EXCEEDED",
    retryable: false,
    summary: "The run did not end before its deadline.",
    whatToDo: "Start it again with a later `deadline`. run.operations() shows what took the time.",
  },
  {
    name: "JoinError",
    code: "HF_JOIN_FAILED",
    retryable: false,
    summary: "At least one branch of ctx.join failed. All branches have ended.",
    whatToDo: "See `errors`, by branch. Use ctx.parallel to get the outcomes as values, or ctx.try inside a branch.",
  },
  {
    name: "RaceError",
    code: "HF_RACE_FAILED",
    retryable: false,
    summary: "Every branch of ctx.race failed.",
    whatToDo: "See `errors`, by branch.",
  },

  // What a caller of a run gets.
  {
    name: "UpdateRejectedError",
    code: "HF_UPDATE_REJECTED",
    retryable: false,
    summary: "No open receive accepted the update, or its validator rejected it. Nothing was recorded.",
    whatToDo: "Send an update that the workflow accepts in its current state. Nothing has changed.",
  },
  {
    name: "UpdateFailedError",
    code: "HF_UPDATE_FAILED",
    retryable: false,
    summary: "The update was accepted and its handler threw.",
    whatToDo: "See `cause`. The run continues. The same update id returns the same outcome; a new one tries again.",
  },
  {
    name: "QueryFailedError",
    code: "HF_QUERY_FAILED",
    retryable: false,
    summary: "The workflow declares no such query, or the query threw.",
    whatToDo: "Use a name that the workflow declares under `queries`, and handle a published state that is undefined.",
  },
  {
    name: "ReceiveClosedError",
    code: "HF_RECEIVE_CLOSED",
    retryable: true,
    summary: "The update was accepted, but the receive closed before handling it.",
    whatToDo: "Send it again under a new id: a later receive may handle it.",
  },
  {
    name: "RunNotFoundError",
    code: "HF_RUN_NOT_FOUND",
    retryable: false,
    summary: "No run with that id exists in this store and namespace.",
    whatToDo: "Check the id, and check that this engine uses the store and namespace in which the run was started.",
  },
  {
    name: "RunAlreadyExistsError",
    code: "HF_RUN_ALREADY_EXISTS",
    retryable: false,
    summary: "A run with that id already exists.",
    whatToDo: 'Choose another id, or start with onConflict "use-existing" or "restart-if-closed".',
  },
  {
    name: "RunClosedError",
    code: "HF_RUN_CLOSED",
    retryable: false,
    summary: "The run has ended and accepts no more messages.",
    whatToDo: 'Start a new run, or the same id again with onConflict "restart-if-closed".',
  },
  {
    name: "RunOpenError",
    code: "HF_RUN_OPEN",
    retryable: false,
    summary: "The run is open, and only a closed run can be deleted.",
    whatToDo: "Wait for its end, or cancel or terminate it first.",
  },
  {
    name: "ScheduleNotFoundError",
    code: "HF_SCHEDULE_NOT_FOUND",
    retryable: false,
    summary: "No schedule with that id exists in this store and namespace.",
    whatToDo: "Check the id, or create the schedule with schedules.set().",
  },
  {
    name: "RunBlockedError",
    code: "HF_RUN_BLOCKED",
    retryable: true,
    summary: "The workers' code or codec can't advance the run. The run itself is unharmed.",
    whatToDo: "Fix the cause and deploy: each worker that starts retries the run, and run.resume() retries it at once.",
  },
  {
    name: "UnsupportedError",
    code: "HF_UNSUPPORTED",
    retryable: false,
    summary: "The engine that was opened does not have this feature. Nothing was written.",
    whatToDo: "Open an engine that has it; the page on hosts says which do.",
  },

  // What workflow code may not do.
  {
    name: "NondeterminismError",
    code: "HF_NONDETERMINISM",
    retryable: false,
    summary: "The code does something different from what the run's history recorded.",
    whatToDo:
      "Put the new path behind ctx.patched(id), put ctx.removed(name, kind) where an operation was removed, " +
      "or give the workflow a new version. If the code has not changed, it depends on something that is not recorded.",
  },
  {
    name: "IllegalCallError",
    code: "HF_ILLEGAL_CALL",
    retryable: false,
    summary: "An operation was called in a unit that does not allow it.",
    whatToDo: "Move the call to a unit that allows it; the table in section N of docs/semantics.md says which.",
  },
  {
    name: "IllegalReturnError",
    code: "HF_ILLEGAL_RETURN",
    retryable: false,
    summary: "A function returned a value that is not allowed there.",
    whatToDo: "Return what the message asks for.",
  },
  {
    name: "OutOfTurnError",
    code: "HF_OUT_OF_TURN",
    retryable: false,
    summary: "A ctx was used outside its turn.",
    whatToDo: "Use the ctx that the innermost function was given, never an outer one, and await every operation.",
  },
  {
    name: "ForeignAwaitError",
    code: "HF_FOREIGN_AWAIT",
    retryable: false,
    summary: "Workflow code awaited something that is not an operation: fetch, a timer, a file.",
    whatToDo: "If it has an effect or reads the outside world, wrap it in ctx.step. To wait, use ctx.sleep.",
  },
  {
    name: "TurnTimeoutError",
    code: "HF_TURN_TIMEOUT",
    retryable: true,
    summary: "A turn of workflow code took longer than `turnTimeout`.",
    whatToDo: "Move the computation into ctx.step, or raise the worker's `turnTimeout`.",
  },

  // What bad input gets.
  {
    name: "UnserializableValueError",
    code: "HF_UNSERIALIZABLE_VALUE",
    retryable: false,
    summary: "A value contains something that can't be stored, or the codec can't encode it.",
    whatToDo: "Pass or return plain data: leave that part out, or convert it to data first.",
  },
  {
    name: "InvalidInputError",
    code: "HF_INVALID_INPUT",
    retryable: false,
    summary: "An argument, option or payload is invalid, or a stored value can't be decoded. Nothing was written.",
    whatToDo: "Fix the value and retry.",
  },
  {
    name: "LimitExceededError",
    code: "HF_LIMIT_EXCEEDED",
    retryable: false,
    summary: "A payload, a history or another bounded size exceeds its limit.",
    whatToDo:
      "Store large data elsewhere and pass a reference, use ctx.loop or continueAsNew for long runs, or raise the limit in `limits`.",
  },
] as const satisfies readonly ErrorEntry[];

/** The names of the classes in the catalog. */
export type ErrorName = (typeof errorCatalog)[number]["name"];

const byName = new Map<string, ErrorEntry>(errorCatalog.map((entry) => [entry.name, entry]));
const byCode = new Map<string, ErrorEntry>(errorCatalog.map((entry) => [entry.code, entry]));

export function entryByName(name: string): ErrorEntry | undefined {
  return byName.get(name);
}

export function entryByCode(code: string): ErrorEntry | undefined {
  return byCode.get(code);
}

/** A message in two parts: what happened and where, then the advice on the next line: the catalog's, unless the caller has a better one. */
export function advise(name: ErrorName, whatHappened: string, advice = byName.get(name)?.whatToDo): string {
  return advice === undefined ? whatHappened : `${whatHappened}\n${advice}`;
}
