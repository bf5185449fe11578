// What SQLite's result codes mean here.
// Owns: one class for the errors of both libraries, and which typed error each result code becomes.
// Invariants: "busy" is distinguished from all other errors, since the store waits and does not report it; errors that are not SQLite's pass unchanged.

import { HoldfastError, InvalidInputError } from "@holdfast/core";
import {
  StoreCorruptError,
  StoreError,
  StoreForeignError,
  StoreFullError,
  StoreOpenError,
  StoreReadOnlyError,
  StoreRefusedError,
} from "../errors.ts";

const SQLITE = { BUSY: 5, LOCKED: 6, READONLY: 8, IOERR: 10, CORRUPT: 11, FULL: 13, CANTOPEN: 14, PROTOCOL: 15, NOTADB: 26 } as const;
const LOW_BYTE = 0xff;

const CONSTRAINT = 19;
/** Too large, a constraint or a trigger, a value of another type than its column: the write itself is refused. */
const REFUSALS: readonly number[] = [18, CONSTRAINT, 20];

/** An error of SQLite, whichever library brought it. Functions of transactions see these. */
export class SqliteFailure extends Error {
  override readonly name = "SqliteError";
  readonly code: string;
  /** Primary result code. */
  readonly result: number;
  constructor(message: string, result: number, cause: unknown) {
    super(message, { cause });
    this.result = result;
    const name = result === CONSTRAINT ? "CONSTRAINT" : Object.entries(SQLITE).find(([, code]) => code === result)?.[0];
    this.code = `SQLITE_${name ?? "ERROR"}`;
  }
}

/** The error itself if it is not SQLite's. */
export function sqliteFailure(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof SqliteFailure) return error;
  const { rawCode, errcode } = error as { rawCode?: unknown; errcode?: unknown };
  const code = typeof rawCode === "number" ? rawCode : errcode;
  if (typeof code === "number") return new SqliteFailure(error.message, code & LOW_BYTE, error);
  // libsql has no code for what fails while a file is opened; its message ends with it.
  const atOpen = /ConnectionFailed\(.*: (\d+)"\)$/.exec(error.message);
  return atOpen === null ? error : new SqliteFailure("unable to open database file", Number(atOpen[1]) & LOW_BYTE, error);
}

/** Another connection holds a lock: worth waiting for. */
export function isBusy(error: unknown): boolean {
  return (
    error instanceof SqliteFailure && (error.result === SQLITE.BUSY || error.result === SQLITE.LOCKED || error.result === SQLITE.PROTOCOL)
  );
}

/** The storage has failed, not the write: trying the parts one by one would not help. */
export function isStorageFault(error: unknown): boolean {
  const faults: readonly number[] = [SQLITE.READONLY, SQLITE.IOERR, SQLITE.CORRUPT, SQLITE.FULL, SQLITE.CANTOPEN, SQLITE.NOTADB];
  return error instanceof SqliteFailure && faults.includes(error.result);
}

/** The write itself is refused, and nothing else is wrong. */
export function isRefused(error: unknown): boolean {
  return error instanceof SqliteFailure && REFUSALS.includes(error.result);
}

/** For people. `where` names the file. */
export function storeError(error: unknown, where: string): unknown {
  if (!(error instanceof SqliteFailure)) return error;
  const { cause } = error;
  if (isRefused(error)) return new StoreRefusedError({ where, reason: error.message, cause });
  switch (error.result) {
    case SQLITE.FULL:
      return new StoreFullError({ where, cause });
    case SQLITE.CORRUPT:
      return new StoreCorruptError({ where, cause, isFile: true });
    case SQLITE.NOTADB:
      return new StoreForeignError({ where, reason: "the file is not a SQLite database.", cause });
    case SQLITE.READONLY:
      return new StoreReadOnlyError({ where, cause });
    case SQLITE.CANTOPEN:
      return new StoreOpenError({ where, reason: "SQLite can't open the file.", cause });
    default:
      return new StoreError(`${where} could not be used: ${error.message} (SQLite result code ${error.result}).`, {
        code: "HF_STORE_FAILED",
        cause,
        retryable: error.result === SQLITE.IOERR,
      });
  }
}

/** The same for reads without values of callers: what can't be decoded came from a row. */
export function isDamage(error: unknown): boolean {
  return isUnreadable(error) || error instanceof InvalidInputError;
}
/** What reading a row throws that something else, or the disk, has changed. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof SyntaxError || (error instanceof TypeError && !(error instanceof HoldfastError));
}
