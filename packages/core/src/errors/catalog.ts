// The catalog: every error that Holdfast raises, with its code, whether trying again helps, and what to do about it.
// Owns those facts. The classes take code, `retryable` and advice from here, and the docs page is generated from here: one source.
// Invariants: a name is a class name, a code is stable for ever (people match on it), and both are unique in the table.

export interface ErrorEntry {
  /** The class name, and the `name` of its instances. */
  readonly name: string;
  /** Stable, for programs to match on. */
  readonly code: `HF_${string}`;
  /** Would trying the same thing again help? */
  readonly retryable: boolean;
  /** When it is raised. */
  readonly summary: string;
  /** The advice that closes the message. */
  readonly whatToDo: string;
}

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
    summary: "Thrown by a step or activity that no further attempt can mend.",
    whatToDo: "Mend what the message says; the step or activity is not tried again.",
  },
  {
    name: "RollbackError",
    code: "HF_ROLLBACK",
    retryable: false,
    summary: "Thrown by a workflow to fail and to roll back its completed steps.",
    whatToDo: "Nothing more: the rollbacks of completed steps run in reverse order.",
  },
  {
    name: "RetryLaterError",
    code: "HF_RETRY_LATER",
    retryable: true,
    summary: "Thrown by a step or activity that is to be tried again after a given time, such as what a `Retry-After` header says.",
    whatToDo: "Nothing more: the next attempt comes then, as long as there are attempts left and the deadline of the run allows it.",
  },
  {
    name: "StepFailedError",
    code: "HF_STEP_FAILED",
    retryable: false,
    summary: "A step failed for good: its attempts are used up, or its error is not to be retried.",
    whatToDo: "See `cause`. Catch it in the workflow to go another way, or mend the cause and call run.resume().",
  },
  {
    name: "StepTimeoutError",
    code: "HF_STEP_TIMEOUT",
    retryable: true,
    summary: "One attempt of a step took longer than its `timeout`, or an activity than the limit that the message names.",
    whatToDo: "Raise the limit, or pass the `signal` to what it calls so that the call ends in time.",
  },
  {
    name: "ActivityFailedError",
    code: "HF_ACTIVITY_FAILED",
    retryable: false,
    summary: "An activity failed for good: attempts used up, timed out, or its error is not to be retried.",
    whatToDo: "See `cause`. Catch it in the workflow to go another way, or mend the cause and call run.resume().",
  },
  {
    name: "ChildFailedError",
    code: "HF_CHILD_FAILED",
    retryable: false,
    summary: "A child run failed, was canceled or was terminated.",
    whatToDo: "See `cause`. Catch it in the parent to go another way, or look at the child run under its id.",
  },
  {
    name: "RunFailedError",
    code: "HF_RUN_FAILED",
    retryable: false,
    summary: "The run whose result was asked for has failed.",
    whatToDo: "See `cause` and run.operations(). Once the cause is mended, run.resume() goes on from where it stopped.",
  },
  {
    name: "CanceledError",
    code: "HF_CANCELED",
    retryable: false,
    summary: "The run, or the scope around this operation, was canceled.",
    whatToDo: "Let it pass, or clean up in a `finally` inside ctx.shield(..).",
  },
  {
    name: "RunTerminatedError",
    code: "HF_RUN_TERMINATED",
    retryable: false,
    summary: "The run was ended from outside, running no workflow code.",
    whatToDo: "Start a new run if the work is still wanted; a terminated one does not resume.",
  },
  {
    name: "DeadlineExceededError",
    code: "HF_DEADLINE_EXCEEDED",
    retryable: false,
    summary: "The run did not end before its deadline.",
    whatToDo: "Start it again with a later `deadline`, or see in run.operations() what took the time.",
  },
  {
    name: "JoinError",
    code: "HF_JOIN_FAILED",
    retryable: false,
    summary: "At least one branch of ctx.join failed; all of them have ended.",
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
    summary: "No open receive accepted the update, or its validator refused it. Nothing entered history.",
    whatToDo: "Send an update that the workflow accepts in the state it is in; nothing has changed.",
  },
  {
    name: "UpdateFailedError",
    code: "HF_UPDATE_FAILED",
    retryable: false,
    summary: "The update was accepted and its handler threw.",
    whatToDo: "See `cause`. The run goes on; the same update id gives the same outcome, a new one tries again.",
  },
  {
    name: "QueryFailedError",
    code: "HF_QUERY_FAILED",
    retryable: false,
    summary: "The workflow declares no such query, or the query threw.",
    whatToDo: "Query by a name that the workflow declares under `queries`, and mind that the published state may be undefined.",
  },
  {
    name: "ReceiveClosedError",
    code: "HF_RECEIVE_CLOSED",
    retryable: true,
    summary: "The update was accepted, but the receive closed before its turn came.",
    whatToDo: "Send it again under a new id: a later receive may take it.",
  },
  {
    name: "RunNotFoundError",
    code: "HF_RUN_NOT_FOUND",
    retryable: false,
    summary: "There is no run of that id in this store and namespace.",
    whatToDo: "Check the id, and that this engine is open on the store and namespace where the run was started.",
  },
  {
    name: "RunAlreadyExistsError",
    code: "HF_RUN_ALREADY_EXISTS",
    retryable: false,
    summary: "A run of that id exists.",
    whatToDo: 'Choose another id, or start with onConflict "use-existing" or "restart-if-closed".',
  },
  {
    name: "RunClosedError",
    code: "HF_RUN_CLOSED",
    retryable: false,
    summary: "The run has ended and takes no more messages.",
    whatToDo: 'Start a new run, or the same id again with onConflict "restart-if-closed".',
  },
  {
    name: "RunBlockedError",
    code: "HF_RUN_BLOCKED",
    retryable: true,
    summary: "The code, or the codec, that the workers have can't advance the run. The run itself is unharmed.",
    whatToDo: "Deploy code that fits the run: each worker that starts tries it again, and run.resume() does so at once.",
  },

  // What workflow code may not do.
  {
    name: "NondeterminismError",
    code: "HF_NONDETERMINISM",
    retryable: false,
    summary: "The code does something else than what the history of the run recorded.",
    whatToDo:
      "Put the new path behind ctx.patched(id), put ctx.removed(name, kind) where an operation was taken out, " +
      "or give the workflow a new version. If nothing was changed, the code depends on something that is not recorded.",
  },
  {
    name: "IllegalCallError",
    code: "HF_ILLEGAL_CALL",
    retryable: false,
    summary: "An operation was called in a unit that does not offer it.",
    whatToDo: "Move the call to a unit that offers it; the table of section N in the semantics says which.",
  },
  {
    name: "IllegalReturnError",
    code: "HF_ILLEGAL_RETURN",
    retryable: false,
    summary: "A function returned something that its caller can't take.",
    whatToDo: "Return what the message asks for.",
  },
  {
    name: "OutOfTurnError",
    code: "HF_OUT_OF_TURN",
    retryable: false,
    summary: "A ctx was used while its unit had not the turn.",
    whatToDo: "Use the ctx that the innermost function was given, never one from outside it, and await every operation.",
  },
  {
    name: "ForeignAwaitError",
    code: "HF_FOREIGN_AWAIT",
    retryable: false,
    summary: "Workflow code awaited something that is not an operation: fetch, a timer, a file.",
    whatToDo: "If it has an effect or reads the outside world, wrap it in ctx.step; to wait, use ctx.sleep.",
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
    summary: "A value that has to be stored holds something that can't be, or the codec can't encode it.",
    whatToDo: "Return or pass plain data: leave that part out, or turn it into data first.",
  },
  {
    name: "InvalidInputError",
    code: "HF_INVALID_INPUT",
    retryable: false,
    summary: "An argument, option or payload is not what it has to be, or a stored value can't be decoded. Nothing was written.",
    whatToDo: "Mend the value and call again.",
  },
  {
    name: "LimitExceededError",
    code: "HF_LIMIT_EXCEEDED",
    retryable: false,
    summary: "A payload, a history or something else that is bounded grew past its limit.",
    whatToDo:
      "Store large data elsewhere and pass a reference, use ctx.loop or continueAsNew for long runs, or raise the limit in `limits`.",
  },
] as const satisfies readonly ErrorEntry[];

export type ErrorName = (typeof errorCatalog)[number]["name"];

const byName = new Map<string, ErrorEntry>(errorCatalog.map((entry) => [entry.name, entry]));
const byCode = new Map<string, ErrorEntry>(errorCatalog.map((entry) => [entry.code, entry]));

export function entryByName(name: string): ErrorEntry | undefined {
  return byName.get(name);
}

export function entryByCode(code: string): ErrorEntry | undefined {
  return byCode.get(code);
}

/** A message in two parts: what happened and where, then the advice on a line of its own: the catalog's, unless one fits better. */
export function advise(name: ErrorName, whatHappened: string, advice = byName.get(name)?.whatToDo): string {
  return advice === undefined ? whatHappened : `${whatHappened}\n${advice}`;
}
