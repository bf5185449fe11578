// The catalog of the errors that the engine and its stores raise beyond those of the core: codes, and what to do about each.
// Owns: what docs/errors.md says of them. Their wording is where they are raised, since it names files, runs and times.
// Invariants: a code is stable for ever (people match on it), and stands here once.

export interface HostErrorEntry {
  /** Stable, for programs to match on. */
  readonly code: `HF_${string}`;
  /** Its class, where it has one of its own. */
  readonly name?: string;
  /** Would trying the same thing again help? */
  readonly retryable: boolean;
  readonly summary: string;
  readonly whatToDo: string;
}

export const engineErrors: readonly HostErrorEntry[] = [
  {
    code: "HF_WAIT_TIMEOUT",
    retryable: true,
    summary: "A result or a reply did not come within the `timeout` that was given.",
    whatToDo: "Ask again: it may still come. The run goes on either way.",
  },
  {
    code: "HF_TEST_STUCK",
    retryable: false,
    summary:
      "In a test engine: a result or a reply is waited for, and nothing is left that could bring it on but a message of the test itself.",
    whatToDo: "Send what the run waits for (the message names it) before you await the result, or give the test engine what is missing.",
  },
  {
    code: "HF_UNUSED_STAND_IN",
    retryable: false,
    summary: "In a test engine that is closed: no step or activity of that name has run, so its stand-in in `replace` was never used.",
    whatToDo: "Check the name, or leave the stand-in out.",
  },
  {
    code: "HF_ENGINE_CLOSED",
    retryable: false,
    summary: "The engine was closed, or is closing, or was closed while something waited for it.",
    whatToDo: "Open another engine. What was acknowledged before is durable.",
  },
  {
    code: "HF_START_FAILED",
    retryable: false,
    summary: "Some of the runs that `startMany` was given could not be started, for different reasons. The others are.",
    whatToDo: "See the `errors` of its `cause`, one for each that was not.",
  },
  {
    code: "HF_FLOATING_PROMISE",
    name: "FloatingPromiseWarning",
    retryable: false,
    summary:
      "A warning of the process, not an error: a promise of workflow code was rejected by an error of that code, and for a second nobody awaited it.",
    whatToDo: "Await the promise, or catch its error: `detail` has the stack. The run goes on either way.",
  },
  {
    code: "HF_UNKNOWN_MESSAGE",
    retryable: false,
    summary: "The workflow declares no signal or update of that name.",
    whatToDo: "Send one that it declares under `signals` or `updates`.",
  },
  {
    code: "HF_NOT_RESUMABLE",
    retryable: false,
    summary: "`resume()` on a run that has ended and did not fail, whose rollbacks have run, or whose deadline has passed.",
    whatToDo: "Start a new run if the work is still wanted.",
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
    summary: "The run was taken over many times without a commit: it seems to kill its workers. It is blocked.",
    whatToDo: "Mend what ends the process, then call run.resume().",
  },
  {
    code: "HF_NO_TRANSACTIONS",
    retryable: false,
    summary: "`ctx.transaction` on a store that has no transactions to offer.",
    whatToDo: "Use ctx.step, or a store that has them.",
  },
  {
    code: "HF_UNKNOWN_ACTIVITY",
    retryable: false,
    summary: "A worker was given an activity that it does not have.",
    whatToDo: "Pass the activity to the workers of its queue.",
  },
  {
    code: "HF_WORKER_LOST",
    retryable: false,
    summary: "The cause of a failed step or activity: the worker that made its last attempt did not come back.",
    whatToDo: "See what ended the process. Raise `maxAttempts` if workers may come and go.",
  },
  {
    code: "HF_CLAIM_LOST",
    retryable: false,
    summary:
      "The reason that a step's `signal` carries: its run was terminated, its deadline has passed, or another worker has it. What the step returns is dropped.",
    whatToDo: "Stop. If others have it often, the worker stands still for longer than its `lease`: raise it, or block the event loop less.",
  },
  {
    code: "HF_STEP_CANCELED",
    retryable: false,
    summary: "The reason that a step's `signal` carries: the workflow gave it up.",
    whatToDo: "Stop; what the step returns is dropped.",
  },
  {
    code: "HF_ATTEMPT_OVER",
    retryable: false,
    summary:
      "The reason that an activity's `signal` carries: its run is over, its workflow gave it up, or another worker has it; the message says which. One of its own limits is told as a StepTimeoutError.",
    whatToDo: "Stop; its answer is dropped, and its slot is free already.",
  },
  {
    code: "HF_SHUTDOWN",
    retryable: false,
    summary: "The reason that the `signal` of a step or activity carries: its worker stops, and the grace period is over.",
    whatToDo: "Stop; another worker tries it again.",
  },
  {
    code: "HF_RUN_OVER",
    retryable: false,
    summary: "The reason that a step's `signal` carries: its run has ended.",
    whatToDo: "Stop; what the step returns is dropped.",
  },
];

export const storeErrors: readonly HostErrorEntry[] = [
  {
    code: "HF_STORE_FAILED",
    name: "StoreError",
    retryable: false,
    summary: "The storage failed in a way that has no code of its own. Nothing of the call was written.",
    whatToDo: "See the message and `cause`.",
  },
  {
    code: "HF_STORE_REFUSED",
    name: "StoreRefusedError",
    retryable: false,
    summary:
      "The database won't have what was to be written: a value that is too large, a constraint, a trigger. Nothing of it was written.",
    whatToDo:
      "Mend what the message names. A run that was blocked by it goes on by itself; `resume()` makes it go on at once. A step whose outcome was refused runs again with it, and has one attempt less: a run whose step has none left fails with `HF_WORKER_LOST`.",
  },
  {
    code: "HF_STORE_CLOSED",
    name: "StoreClosedError",
    retryable: false,
    summary: "The store was closed, or not opened yet.",
    whatToDo: "Call open() first, and nothing after close().",
  },
  {
    code: "HF_STORE_BUSY",
    name: "StoreBusyError",
    retryable: true,
    summary: "Somebody else held what had to be written for longer than a call waits.",
    whatToDo: "Look for a process that keeps a transaction open and end it.",
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
    summary: "It holds something else than what Holdfast keeps. It was left as it is.",
    whatToDo: "Name another file or schema.",
  },
  {
    code: "HF_STORE_NEWER",
    name: "StoreVersionError",
    retryable: false,
    summary: "It was written by a newer version of Holdfast. It was left as it is.",
    whatToDo: "Update the packages of this process.",
  },
  {
    code: "HF_STORE_SCHEMA",
    name: "StoreSchemaError",
    retryable: false,
    summary:
      "Its schema has a version that this Holdfast knows, but another text: it was made by a build between releases, or changed by hand. It was left as it is.",
    whatToDo: "Use the version of the packages that made it, restore a backup, or name another file, schema or namespace.",
  },
  {
    code: "HF_STORE_CORRUPT",
    name: "StoreCorruptError",
    retryable: false,
    summary: "Rows can't be read: something else has written to them. Or a file of SQLite is damaged as a whole.",
    whatToDo: "Mend the rows or restore a backup, then call resume() on the runs that they belong to; of a file, restore a backup.",
  },
  {
    code: "HF_STORE_READ_ONLY",
    name: "StoreReadOnlyError",
    retryable: false,
    summary: "The file can't be written to.",
    whatToDo: "Make it and its folder writable for this process.",
  },
  {
    code: "HF_STORE_FULL",
    name: "StoreFullError",
    retryable: true,
    summary: "There is no room left. Nothing of the call was written.",
    whatToDo: "Free some space: the store works on once there is.",
  },
  {
    code: "HF_STORE_MOVED",
    name: "StoreMovedError",
    retryable: false,
    summary: "What an open store is on was deleted or replaced. Nothing more is written.",
    whatToDo: "Stop the processes that use it; then put it back, or begin with what is there now.",
  },
  {
    code: "HF_STORE_TRANSACTION",
    retryable: false,
    summary:
      "The function of a transaction did what it must not: it ended the transaction itself, changed its connection with a PRAGMA, or used it after its end.",
    whatToDo:
      "Leave BEGIN, COMMIT and ROLLBACK to the store, and on SQLite PRAGMA as well; use `tx` only inside the function. The step is not tried again.",
  },
  {
    code: "HF_STORE_DENIED",
    retryable: false,
    summary: "The database user may not do what the store needs.",
    whatToDo: "Grant it what the message names.",
  },
  {
    code: "HF_STORE_UNAVAILABLE",
    retryable: true,
    summary: "The database can't be reached, or broke off.",
    whatToDo: "Nothing, if it comes back: workers try again by themselves. A call of yours may be made again.",
  },
  {
    code: "HF_STORE_UNREACHABLE",
    retryable: true,
    summary: "In a simulation only: the network between a worker and its store is cut.",
    whatToDo: "Nothing: it is part of what is simulated.",
  },
];
