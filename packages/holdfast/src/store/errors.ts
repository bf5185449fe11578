// Errors of storage: why a store can't read or write, and what to do about it.
// Owns: the classes, their codes `HF_STORE_…`, and their texts.
// Invariants: nothing of a call that ends in one of these was written, unless the store could not be reached to find out
// (HF_STORE_UNAVAILABLE); `fault` says what that means for the items of a batch; `retryable` says whether the same call may succeed later.

import { HoldfastError } from "@holdfast/core";

/**
 * Why a call with several items was not carried out. "refused": an item is at fault, and the others can be written without it; the same
 * item is refused again. "busy": another transaction holds a lock that an item needs, and the others can be written without it.
 * "unavailable": it is not about the items, so that all of them fail: a server that is away, a full disk, a file that is locked.
 */
export type StoreFault = "refused" | "busy" | "unavailable";

/** The properties of a `StoreError`. */
export interface StoreErrorDetails {
  /** The stable code. */
  readonly code: `HF_STORE_${string}`;
  /** The error of the database. */
  readonly cause?: unknown;
  /** Whether repeating the same call can succeed. */
  readonly retryable?: boolean;
  /**
   * What the error means for the other items of a batch.
   * @defaultValue `"refused"` for HF_STORE_REFUSED and HF_STORE_CORRUPT, otherwise `"unavailable"`
   */
  readonly fault?: StoreFault;
}

/** `where` names the file or the database. */
interface Details {
  readonly where: string;
  readonly cause?: unknown;
}

/** A condition of the storage that has no class below. */
export class StoreError extends HoldfastError {
  readonly #fault: StoreFault;
  constructor(message: string, details: StoreErrorDetails = { code: "HF_STORE_FAILED" }) {
    const { code, cause, retryable = false } = details;
    super(message, { code, cause, retryable });
    const isRefused = code === "HF_STORE_REFUSED" || code === "HF_STORE_CORRUPT";
    this.#fault = details.fault ?? (isRefused ? "refused" : "unavailable");
  }
  /** What the error means for the other items of a batch. */
  get fault(): StoreFault {
    return this.#fault;
  }
}

/** What a call that rejected with this error means for its items. Errors that are not from a store mean "unavailable". */
export function faultOf(error: unknown): StoreFault {
  return error instanceof StoreError ? error.fault : "unavailable";
}

/** Whether the store refused the item itself: repeating the call would not help. */
export function isRefusal(error: unknown): error is StoreError {
  return faultOf(error) === "refused";
}

/** A value, a row or a rule of the database prevents the write. */
export class StoreRefusedError extends StoreError {
  constructor({ where, reason, cause }: Details & { readonly reason: string }) {
    super(
      `${where} refused the write: ${reason}. Nothing was written.\n` +
        "Check for a value that is too large, and for your own constraints and triggers on the tables of Holdfast. Once that is fixed, call resume() on the run if it is blocked.",
      { code: "HF_STORE_REFUSED", cause },
    );
  }
}

/** The store was closed, or not opened yet. */
export class StoreClosedError extends StoreError {
  constructor({ where }: Details) {
    super(`The store ${where} is not open.\nCall open() first, and no method after close().`, { code: "HF_STORE_CLOSED" });
  }
}

/** Another process held the write lock for longer than we wait. */
export class StoreBusyError extends StoreError {
  constructor({ where, seconds, cause }: Details & { readonly seconds: number }) {
    super(
      `${where} was locked by another connection for ${seconds} s.\n` +
        "Look for a process that keeps a transaction open on the file (a shell in the middle of BEGIN, a backup, a long migration) and end it.",
      { code: "HF_STORE_BUSY", cause, retryable: true },
    );
  }
}

/** Another transaction held a lock that an item of a batch needs for longer than the batcher waits. */
export class StoreLockedError extends StoreError {
  constructor({ seconds, cause }: { readonly seconds: number; readonly cause?: unknown }) {
    super(
      `Another transaction held a lock on the run, or on the same idempotency key, for ${seconds} s. Nothing was written.\n` +
        "Look for transactions that stay open and end them, on PostgreSQL with: SELECT * FROM pg_stat_activity WHERE state = 'idle in transaction'.",
      { code: "HF_STORE_BUSY", cause, retryable: true },
    );
  }
}

/** The file, or the folder that it should be in, can't be opened. */
export class StoreOpenError extends StoreError {
  constructor({ where, reason, cause }: Details & { readonly reason: string }) {
    super(`${where} can't be opened: ${reason}\nCheck the path and the permissions of the file and its folder.`, {
      code: "HF_STORE_CANNOT_OPEN",
      cause,
    });
  }
}

/** It holds something other than a Holdfast database. */
export class StoreForeignError extends StoreError {
  constructor({ where, reason, cause }: Details & { readonly reason: string }) {
    super(`${where} is not a database of Holdfast: ${reason}\nName another file; this one was left as it is.`, {
      code: "HF_STORE_FOREIGN",
      cause,
    });
  }
}

/** Written by a newer Holdfast than this one. */
export class StoreVersionError extends StoreError {
  /** The version of the schema that the store has. */
  readonly found: number;
  /** The version of the schema that this code knows. */
  readonly known: number;
  constructor({ where, found, known }: Details & { readonly found: number; readonly known: number }) {
    super(
      `${where} has schema version ${found}; this Holdfast knows versions up to ${known}.\n` +
        "Update the holdfast package of this process, or name another file; this one was left as it is.",
      { code: "HF_STORE_NEWER" },
    );
    this.found = found;
    this.known = known;
  }
}

/** The schema has a version that this Holdfast knows, but differs from it: a build between releases made it, or it was changed by hand. */
export class StoreSchemaError extends StoreError {
  /** `found` and `expected`: how they differ. `instead`: how to continue without this store. */
  constructor({ where, version, found, expected, instead }: Details & SchemaDetails) {
    super(
      `${where} has schema version ${version}, but not as this Holdfast makes it: found ${found}, expected ${expected}. It was left as it is.\n` +
        `Use the version of the packages that made it, restore a backup, or ${instead}.`,
      { code: "HF_STORE_SCHEMA" },
    );
  }
}
interface SchemaDetails {
  readonly version: number;
  readonly found: string;
  readonly expected: string;
  readonly instead: string;
}

/** Rows that something else has written to, in any store; or a file that SQLite can't read. */
export class StoreCorruptError extends StoreError {
  constructor({ where, cause, isFile = false }: Details & { readonly isFile?: boolean }) {
    super(
      isFile
        ? `${where} is damaged.\nStop every process that uses it and restore a backup, or save what can be read with "sqlite3 <file> .recover".`
        : `${where} has rows that can't be read: something else has written to them.\nFix them or restore a backup, then call resume() on the runs that they belong to.`,
      { code: "HF_STORE_CORRUPT", cause },
    );
  }
}

/** The store can't be written to. */
export class StoreReadOnlyError extends StoreError {
  constructor({ where, cause }: Details) {
    super(`${where} can't be written to.\nMake the file and its folder writable for this process.`, {
      code: "HF_STORE_READ_ONLY",
      cause,
    });
  }
}

/** The disk, or the quota of the store, is full. */
export class StoreFullError extends StoreError {
  constructor({ where, cause }: Details) {
    super(`The disk of ${where} is full. Nothing of this call was written.\nFree some space on the disk; the store then continues.`, {
      code: "HF_STORE_FULL",
      cause,
      retryable: true,
    });
  }
}

/** The file of an open store was deleted or replaced. */
export class StoreMovedError extends StoreError {
  constructor({ where, what }: Details & { readonly what: "deleted" | "replaced" }) {
    super(
      `${where} was ${what} while it was open. Nothing more is written: it would be lost.\n` +
        "Stop the processes that use it; then restore the file, or start with the one that is there now.",
      { code: "HF_STORE_MOVED" },
    );
  }
}
