// Collects all problems of a definition, so that one InvalidInputError reports them together.
// Owns: the checks that definitions share (names, time limits, retry policies, schemas, choices) and their error texts.
// Invariants: P9 (a name fits every store, within a limit that the error names); no check throws anything but InvalidInputError.

import { preview } from "../base/text.ts";
import type { Issue } from "../errors/index.ts";
import { InvalidInputError } from "../errors/index.ts";
import type { RetryPolicy } from "../values/index.ts";
import { parseDuration, validateRetry } from "../values/index.ts";

type Path = readonly PropertyKey[];

/** Limited because names and versions are stored with every run and repeated in locations and errors. */
const MAX_NAME_LENGTH = 255;
/** Control characters (Postgres rejects NUL in text) and unpaired surrogates (they have no UTF-8 form). */
const UNSTORABLE = /[\p{Cc}\p{Cs}]/u;

export class Findings {
  readonly #issues: Issue[] = [];

  add(path: Path, message: string): void {
    this.#issues.push({ path, message });
  }

  /** Runs a check that may throw an InvalidInputError, and adds its issues under `path`. */
  gather(path: Path, check: () => void): void {
    try {
      check();
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error;
      for (const issue of error.issues) this.add([...path, ...(issue.path ?? [])], issue.message);
    }
  }

  throwIfAny(what: string): void {
    if (this.#issues.length > 0) throw new InvalidInputError({ what, issues: this.#issues });
  }
}

export function checkName(findings: Findings, path: Path, name: unknown): void {
  if (typeof name !== "string") findings.add(path, `must be text, not ${preview(name)}`);
  else if (name.trim() === "") findings.add(path, "must not be empty");
  else if (name.length > MAX_NAME_LENGTH) findings.add(path, `must have at most ${MAX_NAME_LENGTH} characters, not ${name.length}`);
  else if (UNSTORABLE.test(name)) findings.add(path, `must not contain control characters or unpaired surrogates: ${preview(name)}`);
}

export function checkFunction(findings: Findings, path: Path, fn: unknown): void {
  if (typeof fn !== "function") findings.add(path, `must be a function, not ${preview(fn)}`);
}

export function checkRetry(findings: Findings, path: Path, retry: unknown): void {
  if (retry === undefined) return;
  findings.gather(path, () => validateRetry(retry));
}

/** A valid duration that is longer than 0. */
export function checkTimeLimit(findings: Findings, path: Path, limit: unknown): void {
  if (limit === undefined) return;
  findings.gather(path, () => {
    if (parseDuration(limit) === 0) findings.add(path, "must be longer than 0; leave it out for no limit");
  });
}

export function checkSchema(findings: Findings, path: Path, schema: unknown): void {
  if (schema === undefined || isStandardSchema(schema)) return;
  findings.add(path, `must be a Standard Schema (Zod, Valibot, ArkType …), not ${preview(schema)}`);
}

export function checkChoice(findings: Findings, path: Path, value: unknown, choices: readonly unknown[]): void {
  if (value === undefined || choices.includes(value)) return;
  findings.add(path, `must be ${choices.map(preview).join(" or ")}, not ${preview(value)}`);
}

export function isObject(x: unknown): x is object {
  return typeof x === "object" && x !== null && !Array.isArray(x);
}

export function freezeCopy<T extends object>(object: T): T {
  return Object.freeze({ ...object });
}

export function freezeRetry(retry: RetryPolicy): RetryPolicy {
  const { nonRetryable } = retry;
  return freezeCopy(typeof nonRetryable === "object" ? { ...retry, nonRetryable: Object.freeze([...nonRetryable]) } : retry);
}

function isStandardSchema(schema: unknown): boolean {
  // ArkType's schemas are functions.
  if ((typeof schema !== "object" && typeof schema !== "function") || schema === null || !("~standard" in schema)) return false;
  const standard = schema["~standard"];
  return typeof standard === "object" && standard !== null && "validate" in standard && typeof standard.validate === "function";
}
