// The catalog of errors that only the key-value host throws: codes, and what to do about each.
// Owns: their entries in docs/errors.md. The messages are written where the errors are thrown.
// Invariants: a code never changes (programs match on it), and is listed once.

import type { ErrorEntry } from "@holdfast/core";

/** `name` is the class of the error, if it has one. */
export type KvErrorEntry = Omit<ErrorEntry, "name"> & Partial<Pick<ErrorEntry, "name">>;

/** The errors that this host raises, with code and advice. `docs/errors.md` is generated from it. */
export const kvErrors: readonly KvErrorEntry[] = [
  {
    code: "HF_KV_RUN_LIVE",
    name: "RunLiveError",
    retryable: false,
    summary: "A second start on a driver that has a live run: a namespace has one executor at a time.",
    whatToDo: "Use the handle of the live run, call wake() on a handle from openWorkflow(..), or evict() the live run first.",
  },
  {
    code: "HF_KV_RUN_CLOSING",
    name: "RunClosingError",
    retryable: true,
    summary:
      "A message arrived while the run was ending, and whether the run has ended was not known within two seconds: its process may have been killed. The message was withdrawn.",
    whatToDo: "Send it again, with the same idempotencyKey if there is one.",
  },
  {
    code: "HF_KV_WRONG_NAMESPACE",
    name: "WrongNamespaceError",
    retryable: false,
    summary: "The driver's namespace belongs to another run, or to a run of another workflow. It was not changed.",
    whatToDo: "Pass the driver of that run, or use another id.",
  },
  {
    code: "HF_KV_WRITE_FAILED",
    name: "KvWriteError",
    retryable: true,
    summary: "The driver could not write a batch. The run stopped at its last batch.",
    whatToDo: "Fix the storage and run it again. `cause` is the driver's error.",
  },
  {
    code: "HF_KV_FORMAT",
    name: "KvFormatError",
    retryable: false,
    summary: "The stored data can't be read: it was written by a newer version, is damaged, or is not Holdfast's.",
    whatToDo: "Update @holdfast/kv, or check whether something else writes to this namespace.",
  },
  {
    code: "HF_KV_UNSUPPORTED",
    name: "UnsupportedOperationError",
    retryable: false,
    summary:
      "The workflow needs something that this host does not have: a transaction, an activity that was not passed, or another run without a `router`. It is blocked.",
    whatToDo: "Pass what the message names; the run then continues. Use ctx.step instead of a transaction.",
  },
  {
    code: "HF_KV_VERSION_NOT_SERVED",
    retryable: false,
    summary: "The run was started with a workflow version that this code does not serve. It is blocked.",
    whatToDo: "Run it with code of that version, or name the version in `serves`.",
  },
  {
    code: "HF_KV_NEEDS_NODE",
    retryable: false,
    summary: "`determinism` or `watchdog` was asked for in a runtime that is not Node.",
    whatToDo: "Leave out both there; use them where you test.",
  },
  {
    code: "HF_KV_NO_ROUTER",
    retryable: false,
    summary: "Logged: the run has a message for another run, such as its parent, and there is no `router` to deliver it.",
    whatToDo: "Pass a `router`. Until then delivery is retried with growing delays.",
  },
  {
    code: "HF_KV_NO_REASON",
    retryable: false,
    summary: "A run is stored as ended or blocked without an error that says why. Something else has written to its namespace.",
    whatToDo: "See its history().",
  },
  {
    code: "HF_KV_CANNOT_OPEN",
    retryable: false,
    summary: "The folder of a LevelDB can't be opened.",
    whatToDo: "Check whether another process has it open, and check the folder's permissions.",
  },
  {
    code: "HF_KV_NO_LEVELDB",
    retryable: false,
    summary: "`LevelStore` needs the package classic-level, which is not installed.",
    whatToDo: "npm install classic-level@3",
  },
  {
    code: "HF_EVICTED",
    retryable: false,
    summary: "The abort reason of a step's `signal`: evict() removed its run from this process.",
    whatToDo: "Stop the step. Its result is discarded, and the step runs again with the run.",
  },
];
