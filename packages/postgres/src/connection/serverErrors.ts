// What errors of PostgreSQL and of its connections mean here.
// Owns: which errors are worth another try, and which typed error each code becomes.
// Invariants: errors that are neither the server's nor the connection's pass unchanged.

import { HoldfastError, InvalidInputError } from "@holdfast/core";
import { StoreError, StoreFullError, StoreRefusedError } from "holdfast/store";
import { DatabaseError } from "pg";

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : "";
}

/** serialization_failure, deadlock_detected, lock_not_available: another transaction holds a lock. */
const CONTENDED: ReadonlySet<string> = new Set(["40001", "40P01", "55P03"]);

export function isContended(error: unknown): boolean {
  return CONTENDED.has(codeOf(error));
}
/** It has waited for a lock as long as it may; NOWAIT fails at once. */
export function isHeldUp(error: unknown): boolean {
  return codeOf(error) === "55P03" && (error as { readonly routine?: unknown }).routine === "ProcessInterrupts";
}

/** invalid_sql_statement_name, duplicate_prepared_statement: it is another session than before. */
export function isNameLost(error: unknown): boolean {
  return codeOf(error) === "26000" || codeOf(error) === "42P05";
}

const UNAVAILABLE = "HF_STORE_UNAVAILABLE";
/** read_only_sql_transaction: the server is not the primary any more. */
const READ_ONLY = "25006";
const LOST: ReadonlySet<string> = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "ECONNABORTED", "EAI_AGAIN", "ENOENT"],
  // admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout; database_dropped is not one of them; too_many_connections.
  ...["57P01", "57P02", "57P03", "57P05", "53300", "08000", "08001", "08003", "08004", "08006", "08P01", READ_ONLY],
  // idle_in_transaction_session_timeout, transaction_timeout: sessions that the server has ended.
  ...["25P03", "25P04"],
]);
/** The server ends the session with these severities, whatever the error. */
const LAST_WORDS: ReadonlySet<unknown> = new Set(["FATAL", "PANIC"]);
/** Connections that are not allowed: invalid_authorization_specification, invalid_password, invalid_catalog_name, insufficient_privilege, database_dropped. */
const UNWELCOME: ReadonlySet<string> = new Set(["28000", "28P01", "3D000", "42501", "57P04"]);
/** pg says some of these by their message alone. */
const LOST_MESSAGE =
  /Connection terminated|Client (?:has encountered a connection error|was closed)|timeout exceeded when trying to connect|timeout expired|Query read timeout|server closed/i;

const TOO_MANY = "53300";
/** FATAL, of servers and poolers that have other codes for it: too many connections of a role or database, of clients, of a pool. */
const FULL_MESSAGE =
  /too many (?:clients|connections)|no more connections allowed|connection slots are reserved|max client|max_client_conn/i;

/** There is a server, and it has no connection left for us. */
export function isFull(error: unknown): boolean {
  if (codeOf(error) === TOO_MANY) return true;
  if (!(error instanceof DatabaseError) || !LAST_WORDS.has(error.severity)) return false;
  return codeOf(error) === "53400" || FULL_MESSAGE.test(error.message);
}

/** The connection is gone, or can't be made just now, or can't be used any more: the call may or may not have been carried out. */
export function isLost(error: unknown): boolean {
  if (error instanceof StoreError) return false;
  const code = codeOf(error);
  if (LOST.has(code)) return true;
  if (!(error instanceof Error)) return false;
  if (LAST_WORDS.has((error as { severity?: unknown }).severity)) return !UNWELCOME.has(code);
  return error instanceof NoAnswer || LOST_MESSAGE.test(error.message);
}
/** The server has said what is wrong with a statement, and has taken all of it back. */
export function isAnswer(error: unknown): boolean {
  return error instanceof DatabaseError && !isLost(error);
}
/** After a failover all other connections may be to the same server. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === READ_ONLY;
}
/** A name that was known once and is not known for a moment, while it is given to another server. */
export function isNameless(error: unknown): boolean {
  return codeOf(error) === "ENOTFOUND";
}

/** A call that ended without an answer: it may have been carried out, or may still be. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof StoreError && error.code === UNAVAILABLE;
}

/** admin_shutdown, crash_shutdown, cannot_connect_now: the server says that it is not available now. */
const THERE: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03"]);

/** There is a server, and it will be available soon. */
export function isThere(error: unknown): boolean {
  return THERE.has(codeOf(error)) || isFull(error);
}

/** No answer came in time. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

/** By our own limit, or by one that the url has given to the driver (`query_timeout`): the server may still carry it out. */
export function isSilence(error: unknown): boolean {
  return error instanceof NoAnswer || (error instanceof Error && error.message === "Query read timeout");
}

/** The error of reading a row that something else has written to. */
export function isDamage(error: unknown): boolean {
  return (
    error instanceof SyntaxError || error instanceof InvalidInputError || (error instanceof TypeError && !(error instanceof HoldfastError))
  );
}

/**
 * The values or rows are at fault: cardinality violations, data exceptions, integrity constraints, check options, program limits, errors that
 * triggers raise; and configuration_limit_exceeded.
 */
const REFUSED = /^(?:21|22|23|44|54|P0)[0-9A-Z]{3}$|^53400$/;

/** What the functions of the schema raise, as codes. */
const MEANWHILE: ReadonlyMap<string, string> = new Map([
  ["run-created", "another call has created the run meanwhile"],
  ["run-restarted", "another call has restarted the run meanwhile"],
  ["key-used", "another call has used the idempotency key meanwhile"],
]);

/** For people. `where` names the server, database and schema. */
export function storeError(error: unknown, where: string): unknown {
  if (error instanceof StoreError || !(error instanceof Error)) return error;
  const code = codeOf(error);
  if (isLost(error)) return unavailable(error, where);
  if (isContended(error)) {
    return new StoreError(
      `${where} was busy: other transactions held the same runs for too long (${MEANWHILE.get(error.message) ?? error.message}).\nLook for transactions that stay open: SELECT * FROM pg_stat_activity WHERE state = 'idle in transaction'.`,
      { code: "HF_STORE_BUSY", cause: error, retryable: true, fault: "busy" },
    );
  }
  if (REFUSED.test(code)) return new StoreRefusedError({ where, reason: `${error.message} (SQLSTATE ${code})`, cause: error });
  switch (code) {
    case "53100":
      return new StoreFullError({ where, cause: error });
    case "28P01":
    case "28000":
    case "3D000":
    case "ENOTFOUND":
      return new StoreError(
        `${where} can't be opened: ${error.message}.\nCheck the host, the user, the password and the database in the url.`,
        {
          code: "HF_STORE_CANNOT_OPEN",
          cause: error,
        },
      );
    case "42501":
      return new StoreError(
        `${where} can't be used: ${error.message}.\nThe role needs all privileges on the schema and everything in it.`,
        {
          code: "HF_STORE_DENIED",
          cause: error,
        },
      );
    case "3F000":
    case "42P01":
    case "42883":
      return new StoreError(
        `${where} does not exist any more: ${error.message}.\nThe schema was dropped or changed under an open engine: restart this process.`,
        {
          code: "HF_STORE_MOVED",
          cause: error,
        },
      );
    default:
      return /^[0-9A-Z]{5}$/.test(code)
        ? new StoreError(`${where} could not be used: ${error.message} (SQLSTATE ${code}).`, { code: "HF_STORE_FAILED", cause: error })
        : error;
  }
}

export function allInUse(connections: number, patience: number, where: string): StoreError {
  return new StoreError(
    `All ${connections} connections to ${where} for transactions of steps were in use for ${patience / 1_000} s.\nAllow more ("?connections=…" in the url), or make their functions shorter.`,
    { code: "HF_STORE_BUSY", retryable: true },
  );
}

export function unavailable(cause: unknown, where: string): StoreError {
  if (isFull(cause)) {
    return new StoreError(
      `${where} has no connection left: ${cause instanceof Error ? cause.message : String(cause)}.\n` +
        'Give each process fewer ("?connections=…" in the url), or raise max_connections of the server. Nothing of this call was written, unless its connection was lost before that.',
      { code: UNAVAILABLE, cause, retryable: true },
    );
  }
  return new StoreError(
    `${where} can't be reached: ${cause instanceof Error ? cause.message || cause.name : String(cause)}.\n` +
      `Check that the server runs and accepts connections${isReadOnly(cause) ? ", and that it is the primary" : ""}. The last call may or may not have been written; repeating it is safe.`,
    { code: UNAVAILABLE, cause, retryable: true },
  );
}
