// Errors of storage: what keeps a store from reading or writing, and what to do about it.
// Owns: the classes, their codes `HF_STORE_…`, and their wording.
// Invariants: nothing of a call that ends in one of these was written, but for what `written` holds; `retryable` says whether the same
// call may succeed later.

import { HoldfastError } from "@holdfast/core";

export interface StoreErrorDetails {
  readonly code: `HF_STORE_${string}`;
  readonly cause?: unknown;
  readonly retryable?: boolean;
  readonly written?: readonly unknown[] | undefined;
  readonly isOfOne?: boolean;
}

/** `where` names the file, or whatever the store is on. */
interface Details {
  readonly where: string;
  readonly cause?: unknown;
}

/** A condition of the storage that is none of those below. */
export class StoreError extends HoldfastError {
  readonly #written: readonly unknown[];
  readonly #isOfOne: boolean;
  constructor(message: string, details: StoreErrorDetails = { code: "HF_STORE_FAILED" }) {
    const { code, cause, retryable = false, written = [], isOfOne = false } = details;
    super(message, { code, cause, retryable });
    this.#written = written;
    this.#isOfOne = isOfOne;
  }
  /** Of a batch, one item or few have to wait for somebody's lock: the others can be written without them, at once. */
  get isOfOne(): boolean {
    return this.#isOfOne;
  }
  /**
   * Of a call that was carried out in several parts, some of which succeeded: the answers to their items, by their places in the call.
   * Undefined where an item was not written; empty if none was. Those must not be written again.
   */
  get written(): readonly unknown[] {
    return this.#written;
  }
}

/** The same error, of a call of which these items were written all the same. */
export function partlyWritten(error: unknown, written: readonly unknown[]): unknown {
  if (!(error instanceof StoreError) || written.length + error.written.length === 0) return error;
  const { message, code, cause, retryable, isOfOne } = error;
  return new StoreError(message, { code: code as StoreErrorDetails["code"], cause, retryable, written, isOfOne });
}

/**
 * The store has looked at what it was given, and won't have it: it will say so again. Of a batch one item may be at fault, and the others
 * are written without it. None of it: a server that is away, a lock, a full disk, an answer that was lost.
 */
export function isRefusal(error: unknown): error is StoreError {
  return error instanceof StoreError && (error.code === "HF_STORE_REFUSED" || error.code === "HF_STORE_CORRUPT");
}

/** A value, a row or a rule of the database stands against what was to be written. */
export class StoreRefusedError extends StoreError {
  constructor({ where, reason, cause }: Details & { readonly reason: string }) {
    super(
      `${where} refused what was to be written: ${reason}. Nothing of it was.\n` +
        "Look for a value that is too large, and for constraints and triggers of yours on the tables of Holdfast; once that is mended, call resume() on the run if it is blocked.",
      { code: "HF_STORE_REFUSED", cause },
    );
  }
}

/** The store was closed, or not opened yet. */
export class StoreClosedError extends StoreError {
  constructor({ where }: Details) {
    super(`The store ${where} is not open.\nCall open() first, and nothing after close().`, { code: "HF_STORE_CLOSED" });
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

/** The file, or the folder that it should be in, can't be opened. */
export class StoreOpenError extends StoreError {
  constructor({ where, reason, cause }: Details & { readonly reason: string }) {
    super(`${where} can't be opened: ${reason}\nCheck the path and the permissions of the file and its folder.`, {
      code: "HF_STORE_CANNOT_OPEN",
      cause,
    });
  }
}

/** It holds something else than a Holdfast database. */
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
  readonly found: number;
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

/** Of a version that this Holdfast knows, but not as it makes it: of a build between releases, or changed by hand. */
export class StoreSchemaError extends StoreError {
  /** `found` and `expected`: what tells them apart. `instead`: how to do without what is there. */
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

/** Rows that are none of ours, in whatever store; or a whole file of SQLite that it can't make sense of. */
export class StoreCorruptError extends StoreError {
  constructor({ where, cause, isFile = false }: Details & { readonly isFile?: boolean }) {
    super(
      isFile
        ? `${where} is damaged.\nStop every process that uses it and restore a backup, or save what can be read with "sqlite3 <file> .recover".`
        : `${where} has rows that can't be read: something else has written to them.\nMend them, or restore a backup; then call resume() on the runs that they belong to.`,
      { code: "HF_STORE_CORRUPT", cause },
    );
  }
}

export class StoreReadOnlyError extends StoreError {
  constructor({ where, cause }: Details) {
    super(`${where} can't be written to.\nMake the file and its folder writable for this process.`, {
      code: "HF_STORE_READ_ONLY",
      cause,
    });
  }
}

export class StoreFullError extends StoreError {
  constructor({ where, cause }: Details) {
    super(
      `There is no room left for ${where}. Nothing of this call was written.\nFree some space on the disk; the store works on once there is.`,
      {
        code: "HF_STORE_FULL",
        cause,
        retryable: true,
      },
    );
  }
}

/** The file under an open store is gone, or is another one. */
export class StoreMovedError extends StoreError {
  constructor({ where, what }: Details & { readonly what: "deleted" | "replaced" }) {
    super(
      `${where} was ${what} while it was open. Nothing more is written: it would be lost.\n` +
        "Stop the processes that use it; then put the file back, or begin with what is there now.",
      { code: "HF_STORE_MOVED" },
    );
  }
}
