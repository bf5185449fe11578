// Errors of the command line: what is printed, and the exit code.
// Owns: both.
// Invariants: with JSON an error is one line, a problem document; for people it says what to do; text of users is escaped.

import { UsageError } from "../config/errors.ts";
import type { Colours } from "../terminal/colours.ts";
import { printable, printableJson, printableLines } from "../terminal/escape.ts";
import { Interruption } from "../terminal/io.ts";

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  refused: 4,
  notCompleted: 5,
  found: 6,
  timedOut: 7,
  interrupted: 130,
} as const;

/** A problem document, as the HTTP API sends it. */
interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly retryable: boolean;
  readonly advice: string | null;
  readonly issues: readonly { readonly message: string; readonly path?: readonly PropertyKey[] }[];
}

/** The arguments or the config are wrong. */
export function usage(detail: string, advice = ""): UsageError {
  return new UsageError(advice === "" ? detail : `${detail}\n${advice}`);
}

interface FailureDetails {
  readonly code: string;
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly advice?: string;
  readonly retryable?: boolean;
  readonly exitCode: number;
}

/** A failure that the command itself finds. */
export class CommandFailure extends Error {
  readonly code: string;
  readonly exitCode: number;
  readonly problem: Problem;
  constructor({ code, status, title, detail, advice = "", retryable = false, exitCode }: FailureDetails) {
    super(detail);
    this.name = "CommandFailure";
    this.code = code;
    this.exitCode = exitCode;
    this.problem = problem({ code, status, title, detail, advice: advice === "" ? null : advice, retryable });
  }
}

function problem(given: Pick<Problem, "code" | "status" | "title" | "detail" | "advice"> & Partial<Problem>): Problem {
  const { code, status, title, detail, retryable = false, advice, issues = [] } = given;
  return { type: `urn:holdfast:${code}`, title, status, detail, code, retryable, advice, issues };
}

export function unsupported(detail: string, advice?: string): CommandFailure {
  return new CommandFailure({
    code: "HF_UNSUPPORTED",
    status: 501,
    title: "Not supported",
    detail,
    ...(advice !== undefined && { advice }),
    exitCode: EXIT.refused,
  });
}

export function timedOut(detail: string, advice = "Wait longer: --timeout 5m."): CommandFailure {
  return new CommandFailure({
    code: "HF_WAIT_TIMEOUT",
    status: 504,
    title: "The wait is over",
    detail,
    advice,
    retryable: true,
    exitCode: EXIT.timedOut,
  });
}

interface Report {
  readonly exitCode: number;
  readonly problem: Problem;
}

async function reportOf(error: unknown): Promise<Report> {
  if (error instanceof CommandFailure) return error;
  if (error instanceof Interruption) {
    return {
      exitCode: EXIT.interrupted,
      problem: problem({ code: "HF_INTERRUPTED", status: 499, title: "Interrupted", detail: error.message, advice: null }),
    };
  }
  if (error instanceof UsageError) {
    const [detail = "", ...rest] = error.message.split("\n");
    const advice = rest.length === 0 ? null : rest.join("\n");
    return { exitCode: error.exitCode, problem: problem({ code: error.code, status: 400, title: "Wrong usage", detail, advice }) };
  }
  // Loaded here: most calls end without an error, and those that only show help should load nothing.
  const { consoleError } = await import("../api/problem.ts");
  const known = consoleError(error);
  return { exitCode: known.exitCode, problem: known.toProblem() };
}

/** What happened, and what to do, for commands that go on after an error. */
export async function textOf(error: unknown): Promise<string> {
  const { detail, advice } = (await reportOf(error)).problem;
  return advice === null || advice === "" ? detail : `${detail}\n${advice}`;
}

export interface FailureStyle {
  readonly json: boolean;
  readonly verbose: boolean;
  readonly colours: Colours;
}

/** What to write on standard error, and the exit code. */
export async function failureOf(error: unknown, { json, verbose, colours }: FailureStyle): Promise<{ text: string; exitCode: number }> {
  const { exitCode, problem: document } = await reportOf(error);
  if (json) return { text: `${printableJson(JSON.stringify(document))}\n`, exitCode };
  const lines = [`${colours.red("error:")} ${printableLines(document.detail)}`];
  for (const { message, path = [] } of document.issues) {
    // The message of an InvalidInputError lists them already.
    if (!document.detail.includes(message))
      lines.push(`  ${printable(path.map(String).join("."))}${path.length > 0 ? ": " : ""}${printable(message)}`);
  }
  if (document.advice !== null && document.advice !== "") lines.push(printableLines(document.advice));
  if (verbose) {
    lines.push(colours.dim(`${document.code} (${document.title})`));
    if (error instanceof Error && error.stack !== undefined) lines.push(colours.dim(printableLines(error.stack)));
  }
  return { text: `${lines.join("\n")}\n`, exitCode };
}
