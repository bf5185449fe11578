// The catalog of the errors that the key-value host raises beyond those that all hosts share: codes, and what to do about each.
// Owns: what docs/errors.md says of them. Their wording is where they are raised.
// Invariants: a code is stable for ever (people match on it), and stands here once.

import type { ErrorEntry } from "@holdfast/core";

/** `name` is its class, where it has one of its own. */
export type KvErrorEntry = Omit<ErrorEntry, "name"> & Partial<Pick<ErrorEntry, "name">>;

export const kvErrors: readonly KvErrorEntry[] = [
  {
    code: "HF_KV_RUN_LIVE",
    name: "RunLiveError",
    retryable: false,
    summary: "A second start on a driver that has a live run: a namespace has one executor at a time (H1).",
    whatToDo: "Use the handle of the live one, call wake() on a handle of openWorkflow(..), or evict() it first.",
  },
  {
    code: "HF_KV_RUN_CLOSING",
    name: "RunClosingError",
    retryable: true,
    summary:
      "The run was about to end when a message came, and within two seconds it did not become known whether it has: its process may have been killed. The message was withdrawn (H5).",
    whatToDo: "Send it again, with the same idempotencyKey if there is one.",
  },
  {
    code: "HF_KV_WRONG_NAMESPACE",
    name: "WrongNamespaceError",
    retryable: false,
    summary: "The namespace of the driver belongs to another run, or to a run of another workflow. It was left as it is.",
    whatToDo: "Give the driver of that run, or another id.",
  },
  {
    code: "HF_KV_WRITE_FAILED",
    name: "KvWriteError",
    retryable: true,
    summary: "The driver could not write a batch. The run has stopped as its last batch left it.",
    whatToDo: "Mend the storage and run it again. See `cause` for what the driver said.",
  },
  {
    code: "HF_KV_FORMAT",
    name: "KvFormatError",
    retryable: false,
    summary: "What is stored can't be read: it was written by a newer version, is damaged, or is not Holdfast's.",
    whatToDo: "Update @holdfast/kv, or look whether something else writes to this namespace.",
  },
  {
    code: "HF_KV_UNSUPPORTED",
    name: "UnsupportedOperationError",
    retryable: false,
    summary:
      "The workflow does what this host can't: a transaction, an activity that was not passed, or another run without a `router`. It is blocked.",
    whatToDo: "Pass what the message names; the run goes on then. For a transaction use ctx.step.",
  },
  {
    code: "HF_KV_VERSION_NOT_SERVED",
    retryable: false,
    summary: "The run was started with a version of its workflow that the code at hand does not serve (V2). It is blocked.",
    whatToDo: "Run it with code of that version, or name the version in `serves`.",
  },
  {
    code: "HF_KV_NO_ROUTER",
    retryable: false,
    summary: "Logged: the run has word for another run, as for its parent, and there is no `router` to hand it to.",
    whatToDo: "Pass a `router`. Until then it is tried again, after growing waits.",
  },
  {
    code: "HF_KV_NO_REASON",
    retryable: false,
    summary: "A run is stored as ended or blocked, without an error that says why. Something else has written to its namespace.",
    whatToDo: "See its history().",
  },
  {
    code: "HF_KV_CANNOT_OPEN",
    retryable: false,
    summary: "The folder of a LevelDB can't be opened.",
    whatToDo: "Look whether another process has it open, and at the permissions of the folder.",
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
    summary: "The reason that a step's `signal` carries: evict() has taken its run out of this process.",
    whatToDo: "Stop; what the step returns is dropped. Whoever runs it next tries it again.",
  },
];
