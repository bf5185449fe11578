// The catalog of the errors that the engine and its stores raise beyond those of the core: codes, and what to do about each.
// Owns: what docs/errors.md says of them. The messages are written where they are raised, because they name files, runs and times.
// Invariants: a code never changes (programs match on it), and is listed once.

/** An error that a host raises beyond those of the core. */
export interface HostErrorEntry {
  /** Stable, for programs to match on. */
  readonly code: `HF_${string}`;
  /** Its class, if it has one. */
  readonly name?: string;
  /** Whether repeating the same call can help. */
  readonly retryable: boolean;
  /** When it is raised. */
  readonly summary: string;
  /** What to do about it. */
  readonly whatToDo: string;
}

/**
 * The errors that the engine raises, with code and advice. `docs/errors.md` is generated from it.
 * @example
 * ```ts
 * const entry = engineErrors.find(({ code }) => code === "HF_WAIT_TIMEOUT");
 * console.log(entry?.retryable); // true
 * ```
 */
export const engineErrors: readonly HostErrorEntry[] = [
  {
    code: "HF_WAIT_TIMEOUT",
    retryable: true,
    summary: "A result or a reply did not arrive within the given `timeout`.",
    whatToDo: "Ask again: it may still arrive. The run continues either way.",
  },
  {
    code: "HF_TEST_STUCK",
    retryable: false,
    summary: "In a test engine: the test awaits a result or a reply, and only a message from the test itself could still cause it.",
    whatToDo:
      "Send what the run is waiting for (the message names it) before you await the result, or pass the test engine what is missing.",
  },
  {
    code: "HF_UNUSED_STAND_IN",
    retryable: false,
    summary: "When a test engine closes: no step or activity of that name has run, so its replacement in `replace` was never used.",
    whatToDo: "Check the name, or remove the replacement.",
  },
  {
    code: "HF_ENGINE_CLOSED",
    retryable: false,
    summary: "The engine is closed or closing, or was closed while a call was waiting.",
    whatToDo: "Open another engine. Everything acknowledged before is durable.",
  },
  {
    code: "HF_START_FAILED",
    retryable: false,
    summary: "Some of the runs given to `startMany` could not be started, for different reasons. The others were started.",
    whatToDo: "See the `errors` of its `cause`, one for each run that was not started.",
  },
  {
    code: "HF_FLOATING_PROMISE",
    name: "FloatingPromiseWarning",
    retryable: false,
    summary: "A process warning, not an error: a promise of workflow code was rejected, and the code did not await it for a second.",
    whatToDo: "Await the promise, or catch its error: `detail` has the stack. The run continues either way.",
  },
  {
    code: "HF_UNKNOWN_MESSAGE",
    retryable: false,
    summary: "The workflow declares no signal or update of that name.",
    whatToDo: "Use a name that it declares under `signals` or `updates`.",
  },
  {
    code: "HF_NOT_RESUMABLE",
    retryable: false,
    summary: "`resume()` was called on a run that ended without failing, whose rollbacks have run, or whose deadline has passed.",
    whatToDo: "Start a new run if the work is still needed.",
  },
  {
    code: "HF_NONDETERMINISTIC_CALL",
    retryable: false,
    summary: 'The guard, set to `"error"`, caught a clock, randomness or I/O in workflow code. The run is blocked.',
    whatToDo: "Use what the message names instead: ctx.now(), ctx.random(), ctx.step.",
  },
  {
    code: "HF_TOO_MANY_RECOVERIES",
    retryable: false,
    summary: "The run was recovered many times without a commit: it seems to crash its workers. It is blocked.",
    whatToDo: "Fix what crashes the process, then call run.resume().",
  },
  {
    code: "HF_NO_TRANSACTIONS",
    retryable: false,
    summary: "`ctx.transaction` was called on a store without transactions.",
    whatToDo: "Use ctx.step, or a store that has them.",
  },
  {
    code: "HF_UNKNOWN_ACTIVITY",
    retryable: false,
    summary: "A worker claimed an activity that it does not have.",
    whatToDo: "Pass the activity to the workers of its queue.",
  },
  {
    code: "HF_WORKER_LOST",
    retryable: false,
    summary: "The cause of a failed step or activity: the worker of its last attempt never reported back.",
    whatToDo: "Find out what ended the process. Raise `maxAttempts` if workers often disappear.",
  },
  {
    code: "HF_CLAIM_LOST",
    retryable: false,
    summary:
      "The abort reason of a step's `signal`: its run was terminated, its deadline has passed, or another worker has claimed it. The step's result is discarded.",
    whatToDo:
      "Stop the step. If this happens often, the worker blocks its event loop for longer than its `lease`: raise the lease, or block the event loop less.",
  },
  {
    code: "HF_STEP_CANCELED",
    retryable: false,
    summary: "The abort reason of a step's `signal`: the workflow cancelled the step.",
    whatToDo: "Stop the step. Its result is discarded.",
  },
  {
    code: "HF_ATTEMPT_OVER",
    retryable: false,
    summary:
      "The abort reason of an activity's `signal`: its run has ended, its workflow cancelled it, or another worker has claimed it; the message says which. An exceeded limit is a StepTimeoutError instead.",
    whatToDo: "Stop the activity. Its result is discarded, and its slot is already free.",
  },
  {
    code: "HF_SHUTDOWN",
    retryable: false,
    summary: "The abort reason of a step's or activity's `signal`: its worker is stopping, and the grace period is over.",
    whatToDo: "Stop; another worker will retry it.",
  },
  {
    code: "HF_RUN_OVER",
    retryable: false,
    summary: "The abort reason of a step's `signal`: its run has ended.",
    whatToDo: "Stop the step. Its result is discarded.",
  },
];

/** The errors that stores raise, with code and advice. `docs/errors.md` is generated from it. */
export const storeErrors: readonly HostErrorEntry[] = [
  {
    code: "HF_STORE_FAILED",
    name: "StoreError",
    retryable: false,
    summary: "The storage failed in a way without a more specific code. Nothing of the call was written.",
    whatToDo: "See the message and `cause`.",
  },
  {
    code: "HF_STORE_REFUSED",
    name: "StoreRefusedError",
    retryable: false,
    summary: "The database refused the write: a value is too large, or a constraint or trigger failed. Nothing of it was written.",
    whatToDo:
      "Fix what the message names. A run that was blocked by it is retried automatically; `resume()` retries it at once. A step whose outcome was refused runs again and has one attempt less: if it has none left, the run fails with `HF_WORKER_LOST`.",
  },
  {
    code: "HF_STORE_CLOSED",
    name: "StoreClosedError",
    retryable: false,
    summary: "The store is closed, or not open yet.",
    whatToDo: "Call open() first, and make no calls after close().",
  },
  {
    code: "HF_STORE_BUSY",
    name: "StoreBusyError",
    retryable: true,
    summary: "Another connection held a lock for longer than the call waits.",
    whatToDo: "Find the process that keeps a transaction open, and end it.",
  },
  {
    code: "HF_STORE_CANNOT_OPEN",
    name: "StoreOpenError",
    retryable: false,
    summary: "The file or the database can't be opened.",
    whatToDo: "Check the url, and the permissions of the file and its folder.",
  },
  {
    code: "HF_STORE_FOREIGN",
    name: "StoreForeignError",
    retryable: false,
    summary: "The file or schema contains something that is not Holdfast's. It was not changed.",
    whatToDo: "Use another file or schema.",
  },
  {
    code: "HF_STORE_NEWER",
    name: "StoreVersionError",
    retryable: false,
    summary: "The data was written by a newer version of Holdfast. It was not changed.",
    whatToDo: "Update the Holdfast packages of this process.",
  },
  {
    code: "HF_STORE_SCHEMA",
    name: "StoreSchemaError",
    retryable: false,
    summary:
      "The schema has a known version but different content: it was made by a build between releases, or changed by hand. It was not changed.",
    whatToDo: "Use the version of the packages that made it, restore a backup, or use another file, schema or namespace.",
  },
  {
    code: "HF_STORE_CORRUPT",
    name: "StoreCorruptError",
    retryable: false,
    summary: "Rows can't be read because something else has written to them, or a SQLite file is damaged as a whole.",
    whatToDo: "Repair the rows or restore a backup, then call resume() on their runs. For a damaged file, restore a backup.",
  },
  {
    code: "HF_STORE_READ_ONLY",
    name: "StoreReadOnlyError",
    retryable: false,
    summary: "The file is not writable.",
    whatToDo: "Make the file and its folder writable for this process.",
  },
  {
    code: "HF_STORE_FULL",
    name: "StoreFullError",
    retryable: true,
    summary: "The disk is full. Nothing of the call was written.",
    whatToDo: "Free some space; the store then continues.",
  },
  {
    code: "HF_STORE_MOVED",
    name: "StoreMovedError",
    retryable: false,
    summary: "The file or schema under an open store was deleted or replaced. Nothing more is written.",
    whatToDo: "Stop the processes that use it, then restore it or start with what is there now.",
  },
  {
    code: "HF_STORE_TRANSACTION",
    retryable: false,
    summary:
      "The function of a transaction did something forbidden: it ended the transaction itself, changed its connection with a PRAGMA, or used it after its end.",
    whatToDo:
      "Leave BEGIN, COMMIT and ROLLBACK (and on SQLite PRAGMA) to the store, and use `tx` only inside the function. The step is not retried.",
  },
  {
    code: "HF_STORE_DENIED",
    retryable: false,
    summary: "The database user lacks a privilege that the store needs.",
    whatToDo: "Grant the privilege that the message names.",
  },
  {
    code: "HF_STORE_UNAVAILABLE",
    retryable: true,
    summary: "The database can't be reached, or the connection was lost.",
    whatToDo: "Workers retry automatically when the database is back. Retry your own call.",
  },
  {
    code: "HF_STORE_UNREACHABLE",
    retryable: true,
    summary: "In a simulation only: the network between a worker and its store is cut.",
    whatToDo: "Nothing: it is part of the simulation.",
  },
];
