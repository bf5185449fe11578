// Errors as problem documents (RFC 9457), and both as exit codes of the command line.
// Owns: which error has which HTTP status and which exit code.
// Invariants: every reply that is not a success is a problem document with a `code`; a ConsoleError has the same fields on both clients.

import { type ErrorEntry, errorCatalog, HoldfastError, InvalidInputError } from "@holdfast/core";

/** One thing that is wrong with a request. */
export interface Issue {
  /** What is wrong, in words. */
  readonly message: string;
  /** Where in the request it is. */
  readonly path?: readonly (string | number)[];
}
/** An error as a problem document (RFC 9457), `application/problem+json`. */
export interface Problem {
  /** A URI that names the kind of problem. */
  readonly type: string;
  /** The kind of problem, in words. */
  readonly title: string;
  /** The HTTP status. */
  readonly status: number;
  /** What happened, in words. */
  readonly detail: string;
  /** The stable code, for programs to match on. */
  readonly code: string;
  /** Whether repeating the same call can succeed. */
  readonly retryable: boolean;
  /** What to do about it. */
  readonly advice: string | null;
  /** What is wrong with the request, one entry per problem. */
  readonly issues: readonly Issue[];
}

interface Kind {
  readonly status: number;
  readonly title: string;
  readonly advice?: string;
}
const CLOSED = "The run is closed";
const UNAVAILABLE = "The store is not available";
/** Codes that have a status of their own. A code that is not here is 500. */
const KINDS: Readonly<Record<string, Kind>> = {
  HF_INVALID_INPUT: { status: 400, title: "Invalid input" },
  HF_UNSERIALIZABLE_VALUE: { status: 400, title: "The value can't be stored" },
  HF_UNKNOWN_MESSAGE: { status: 400, title: "Unknown message" },
  HF_UNAUTHORIZED: {
    status: 401,
    title: "A token is needed",
    advice: "Send a valid token: `Authorization: Bearer …`, or --token on the command line.",
  },
  HF_FORBIDDEN: { status: 403, title: "Forbidden", advice: "Use a token with a higher role, or a server that is not read-only." },
  HF_HOST_REFUSED: {
    status: 403,
    title: "Host refused",
    advice: "Call the server by a name that it knows, or add the name to `allowedHosts`.",
  },
  HF_ORIGIN_REFUSED: { status: 403, title: "Origin refused", advice: "Only pages of this server may call it from a browser." },
  HF_NOT_FOUND: { status: 404, title: "Not found" },
  HF_RUN_NOT_FOUND: { status: 404, title: "Run not found" },
  HF_SCHEDULE_NOT_FOUND: { status: 404, title: "Schedule not found" },
  HF_METHOD_NOT_ALLOWED: { status: 405, title: "Method not allowed" },
  HF_RUN_CLOSED: { status: 409, title: CLOSED },
  HF_RUN_OPEN: { status: 409, title: "The run is open" },
  HF_RUN_ALREADY_EXISTS: { status: 409, title: "The run already exists" },
  HF_NOT_RESUMABLE: { status: 409, title: "The run can't be resumed", advice: "Start a new run if the work is still needed." },
  HF_RUN_BLOCKED: { status: 409, title: "The run is blocked" },
  HF_NO_CODE: {
    status: 409,
    title: "The code is not here",
    advice: "Start `holdfast dev`, or `holdfast dashboard` where the workflows are, or ask the process that has them.",
  },
  HF_LIMIT_EXCEEDED: { status: 413, title: "Too large" },
  HF_UPDATE_REJECTED: { status: 422, title: "The update was rejected" },
  HF_UPDATE_FAILED: { status: 422, title: "The update failed" },
  HF_QUERY_FAILED: { status: 422, title: "The query failed" },
  HF_RECEIVE_CLOSED: { status: 422, title: "The update was not handled" },
  HF_TOO_MANY_STREAMS: { status: 429, title: "Too many event streams", advice: "Close other tabs or clients, then try again." },
  HF_UNSUPPORTED: { status: 501, title: "Not supported" },
  HF_STORE_UNAVAILABLE: { status: 503, title: UNAVAILABLE },
  HF_STORE_UNREACHABLE: { status: 503, title: UNAVAILABLE },
  HF_STORE_BUSY: { status: 503, title: UNAVAILABLE },
  HF_STORE_FULL: { status: 503, title: UNAVAILABLE },
  HF_STORE_CLOSED: { status: 503, title: UNAVAILABLE },
  HF_STORE_CANNOT_OPEN: { status: 503, title: UNAVAILABLE },
  HF_STORE_MOVED: { status: 503, title: UNAVAILABLE },
  HF_STORE_READ_ONLY: { status: 503, title: UNAVAILABLE },
  HF_STORE_DENIED: { status: 503, title: UNAVAILABLE },
  HF_STORE_CORRUPT: { status: 503, title: UNAVAILABLE },
  HF_STORE_FOREIGN: { status: 503, title: UNAVAILABLE },
  HF_STORE_NEWER: { status: 503, title: UNAVAILABLE },
  HF_STORE_SCHEMA: { status: 503, title: UNAVAILABLE },
  HF_STORE_FAILED: { status: 503, title: UNAVAILABLE },
  HF_TEMPORAL_UNAVAILABLE: { status: 503, title: UNAVAILABLE },
  HF_ENGINE_CLOSED: { status: 503, title: "The engine is closed" },
  HF_UNREACHABLE: { status: 503, title: "The server can't be reached", advice: "Check the address and that the server runs." },
  HF_PORT_TAKEN: {
    status: 503,
    title: "The port is taken",
    advice: "Choose another port, or leave out the port to get the next free one.",
  },
  HF_WAIT_TIMEOUT: { status: 504, title: "The wait is over", advice: "Ask again: it may still end. The run continues either way." },
};
const CATALOG = new Map<string, ErrorEntry>(errorCatalog.map((entry) => [entry.code, entry]));
const RETRYABLE = new Set(["HF_TOO_MANY_STREAMS", "HF_UNREACHABLE", "HF_WAIT_TIMEOUT"]);
/** Their messages quote errors of user code. */
const QUOTES_USERS = new Set(["HF_UPDATE_REJECTED", "HF_UPDATE_FAILED", "HF_QUERY_FAILED", "HF_RECEIVE_CLOSED", "HF_RUN_BLOCKED"]);

/** Every code that has a status of its own: its `code`, HTTP `status`, `title` and the `exitCode` of the command line. */
export const consoleErrors: readonly {
  /** The stable code, for programs to match on. */
  readonly code: string;
  /** The HTTP status. */
  readonly status: number;
  /** The kind of problem, in words. */
  readonly title: string;
  /** The exit code of the command line. */
  readonly exitCode: number;
}[] = Object.entries(KINDS).map(([code, { status, title }]) => ({
  /** The stable code, for programs to match on. */
  code,
  /** The HTTP status. */
  status,
  /** The kind of problem, in words. */
  title,
  /** The exit code of the command line. */
  exitCode: exitCodeOf(status),
}));

/** Exit codes of the command line: 1 failed, 3 not found, 4 refused, 7 timed out. Commands use 2 for their own arguments. */
export function exitCodeOf(status: number): number {
  switch (status) {
    case 404:
      return 3;
    case 504:
      return 7;
    case 501:
      return 4;
    default:
      return status === 429 || status >= 500 ? 1 : 4;
  }
}

/** What a client throws: an error of the API, with the fields of its problem document. */
export class ConsoleError extends Error {
  override readonly name = "ConsoleError";
  /** The stable code, for programs to match on. */
  readonly code: string;
  /** The HTTP status. */
  readonly status: number;
  /** The kind of problem, in words. */
  readonly title: string;
  /** What happened, in words. */
  readonly detail: string;
  /** Whether repeating the same call can succeed. */
  readonly retryable: boolean;
  /** What to do about it. */
  readonly advice: string | null;
  /** What is wrong with the request, one entry per problem. */
  readonly issues: readonly Issue[];
  /** The exit code of the command line. */
  readonly exitCode: number;

  constructor(problem: Problem, options: { readonly cause?: unknown } = {}) {
    super(problem.detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = problem.code;
    this.status = problem.status;
    this.title = problem.title;
    this.detail = problem.detail;
    this.retryable = problem.retryable;
    this.advice = problem.advice;
    this.issues = problem.issues;
    this.exitCode = exitCodeOf(problem.status);
  }
  /** The document that was, or would be, sent over HTTP. */
  toProblem(): Problem {
    const { code, status, title, detail, retryable, advice, issues } = this;
    return { type: `urn:holdfast:${code}`, title, status, detail, code, retryable, advice, issues };
  }
}

/** An error of the console itself. */
export function refusal(code: keyof typeof KINDS & string, detail: string, issues: readonly Issue[] = [], cause?: unknown): ConsoleError {
  return new ConsoleError(problemFor(code, detail, undefined, issues), { cause });
}

/** Any error as a ConsoleError. `isValueless`: texts of user code are left out, because the caller may not see values. */
export function consoleError(error: unknown, isValueless = false): ConsoleError {
  if (error instanceof ConsoleError) return error;
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  const [first = "", ...rest] = message.split("\n");
  const quotes = isValueless && (QUOTES_USERS.has(code) || !(code in KINDS));
  const problem = problemFor(code, quotes ? undefined : first, rest.join("\n") || undefined, issuesOf(error), retryableOf(error));
  return new ConsoleError(problem, { cause: error });
}
/** Of errors that are not from Holdfast. What the catalog advises for it is for code that catches errors. */
const OTHER = "HF_ERROR";

/** The code of the error, or HF_ERROR. */
function codeOf(error: unknown): string {
  const code = typeof error === "object" && error !== null ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" && code.startsWith("HF_") ? code : OTHER;
}
function retryableOf(error: unknown): boolean | undefined {
  return error instanceof HoldfastError ? error.retryable : undefined;
}
function issuesOf(error: unknown): readonly Issue[] {
  if (!(error instanceof InvalidInputError)) return [];
  return error.issues.map(({ message, path }) => (path === undefined ? { message } : { message, path: path.map(keyOf) }));
}
function keyOf(key: PropertyKey): string | number {
  return typeof key === "symbol" ? String(key) : key;
}
function problemFor(
  code: string,
  detail: string | undefined,
  advice: string | undefined,
  issues: readonly Issue[] = [],
  retryable?: boolean,
): Problem {
  const entry = CATALOG.get(code);
  const kind = KINDS[code];
  const { status, title } = kind ?? { status: 500, title: "The request failed" };
  return {
    type: `urn:holdfast:${code}`,
    title,
    status,
    detail: detail ?? title,
    code,
    retryable: retryable ?? entry?.retryable ?? RETRYABLE.has(code),
    advice: advice ?? kind?.advice ?? (code === OTHER ? null : (entry?.whatToDo ?? null)),
    issues,
  };
}

/** A problem document that a server sent. Undefined if it is none. */
export function problemOf(body: unknown): Problem | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const { type, title, status, detail, code, retryable, advice, issues } = body as Record<string, unknown>;
  if (typeof code !== "string" || typeof status !== "number") return undefined;
  return {
    type: typeof type === "string" ? type : `urn:holdfast:${code}`,
    title: typeof title === "string" ? title : code,
    status,
    detail: typeof detail === "string" ? detail : code,
    code,
    retryable: retryable === true,
    advice: typeof advice === "string" ? advice : null,
    issues: Array.isArray(issues) ? (issues as readonly Issue[]) : [],
  };
}
