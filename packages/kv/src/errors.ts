// Errors of the key-value host that have no class in the core.
// Owns: the classes, their codes `HF_KV_…`, and their texts.
// Invariants: a call that throws one of these has written nothing; each message says what to do.

import { HoldfastError } from "@holdfast/core";

/** The stored data can't be read: it was written by a newer version, is damaged, or is not Holdfast's. */
export class KvFormatError extends HoldfastError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(message, { code: "HF_KV_FORMAT", cause: options.cause });
  }
}

/** The run is live on this driver already: a namespace has one executor at a time. */
export class RunLiveError extends HoldfastError {
  /** The id of the run. */
  readonly runId: string;
  constructor({ runId }: { readonly runId: string }) {
    super(
      `Run "${runId}" is already live on this driver: a namespace has one executor at a time.\n` +
        "Use the handle of the live run, call wake() on a handle from openWorkflow(..), or evict() the live run first.",
      { code: "HF_KV_RUN_LIVE" },
    );
    this.runId = runId;
  }
}

/** The run was about to end when the message arrived, and whether it has ended was not known in time. */
export class RunClosingError extends HoldfastError {
  /** The id of the run. */
  readonly runId: string;
  constructor({ runId }: { readonly runId: string }) {
    super(
      `Run "${runId}" was ending when the message arrived, and whether it has ended is not known yet. The message was withdrawn.\n` +
        "Send it again, with the same idempotencyKey if there is one: the run may have received it before it was withdrawn.",
      { code: "HF_KV_RUN_CLOSING", retryable: true },
    );
    this.runId = runId;
  }
}

/** The namespace belongs to another run, or to another workflow. */
export class WrongNamespaceError extends HoldfastError {
  constructor({ expected, found }: { readonly expected: string; readonly found: string }) {
    super(
      `This driver's namespace holds ${found}, not ${expected}.\nEach run has its own namespace: pass the driver of that run, or use another id.`,
      { code: "HF_KV_WRONG_NAMESPACE" },
    );
  }
}

/** The driver could not write a batch. The run stopped at its last batch. */
export class KvWriteError extends HoldfastError {
  constructor({ runId, cause }: { readonly runId: string; readonly cause: unknown }) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`A batch of run "${runId}" could not be written: ${why}\nThe run stopped at its last batch. Fix the storage and run it again.`, {
      code: "HF_KV_WRITE_FAILED",
      cause,
      retryable: true,
    });
  }
}

/** An operation that this host does not support, or not without an option that was not passed. The run is blocked, and unharmed. */
export class UnsupportedOperationError extends HoldfastError {
  /** The location of the operation. */
  readonly location: string;
  constructor({ location, what, advice }: { readonly location: string; readonly what: string; readonly advice: string }) {
    super(`${location}: the key-value host can't run ${what}.\n${advice}`, { code: "HF_KV_UNSUPPORTED" });
    this.location = location;
  }
}
