// What users hand over, checked: ids, names, moments, numbers, filters.
// Owns: the wording of what is refused.
// Invariants: bad input is an InvalidInputError that names the option, raised before anything is written.

import {
  type AnyWorkflow,
  InvalidInputError,
  parseDuration,
  type RetryPolicy,
  type RunStatus,
  resolveRetry,
  type StoredRetryPolicy,
  type StoredRunRetry,
  validateRetry,
} from "@holdfast/core";
import { isWorkflow } from "./host/definitions.ts";
import type { Determinism } from "./host/guard.ts";
import type { NewRun, RunQuery } from "./store/port.ts";
import type { RunFilter, WorkerOptions } from "./surface.ts";

const STATUSES: ReadonlySet<string> = new Set<RunStatus>([
  "pending",
  "running",
  "sleeping",
  "blocked",
  "rolling_back",
  "completed",
  "failed",
  "canceled",
  "terminated",
  "continued",
]);

export function invalid(what: string, message: string, path?: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [path === undefined ? { message } : { message, path: [path] }] });
}

// ── of starts ──

export function checkedWorkflow(workflow: unknown): AnyWorkflow | string {
  if (isWorkflow(workflow) || (typeof workflow === "string" && workflow !== "")) return workflow;
  throw invalid("start", "Give a workflow, or the name of one.", "workflow");
}
export function checkedId(id: string | undefined): string | undefined {
  if (id === undefined) return undefined;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (typeof id !== "string" || id === "" || id.length > 512 || /[\u0000-\u001f\u007f]/.test(id)) {
    throw invalid("start", "An id is text of 1 to 512 characters without control characters.", "id");
  }
  return id;
}
/** Text that is not empty, or nothing. */
export function checkedText(what: string, key: string, text: string | undefined): string | undefined {
  if (text === undefined || (typeof text === "string" && text !== "")) return text;
  throw invalid(what, `${key} must be text that is not empty, not ${JSON.stringify(text)}.`, key);
}
export function checkedConflict(onConflict: NewRun["onConflict"] = "reject"): NewRun["onConflict"] {
  if (["reject", "use-existing", "restart-if-closed"].includes(onConflict)) return onConflict;
  throw invalid("start", `onConflict is "reject", "use-existing" or "restart-if-closed", not ${String(onConflict)}.`, "onConflict");
}
export function checkedPriority(priority = 0): number {
  if (!Number.isInteger(priority) || Math.abs(priority) > 1_000_000)
    throw invalid("start", `priority is a whole number, not ${priority}.`, "priority");
  return priority;
}
export function moment(what: string, key: string, date: Date): number {
  const time = date instanceof Date ? date.getTime() : Number.NaN;
  if (Number.isNaN(time)) throw invalid(what, `${key} is not a valid Date.`, key);
  return time;
}
export function checkedAttributes(attributes: Record<string, string | number | boolean> = {}): Record<string, string | number | boolean> {
  for (const [key, value] of Object.entries(attributes)) {
    if (!["string", "number", "boolean"].includes(typeof value) || Number.isNaN(value))
      throw invalid("start", `attribute "${key}" must be text, a number or a boolean.`, key);
  }
  return { ...attributes };
}
export function storedRunRetry(retry: RetryPolicy | StoredRetryPolicy | undefined): StoredRunRetry | undefined {
  if (retry === undefined) return undefined;
  validateRetry(retry);
  const { nonRetryable } = retry;
  const resolved = resolveRetry(retry, "run");
  return Array.isArray(nonRetryable) ? { ...resolved, nonRetryable: nonRetryable as readonly string[] } : resolved;
}

// ── of workers ──

export function wholeNumber(options: WorkerOptions, key: "concurrency" | "activityConcurrency" | "cachedRuns", fallback: number): number {
  const value = options[key] ?? fallback;
  const least = key === "cachedRuns" ? 0 : 1;
  if (!Number.isInteger(value) || value < least)
    throw invalid("worker", `${key} is a whole number of at least ${least}, not ${value}.`, key);
  return value;
}
export function checkedLease(lease: WorkerOptions["lease"]): number {
  const ms = parseDuration(lease ?? "30s");
  if (ms < 1) throw invalid("worker", "lease must be longer than nothing.", "lease");
  return ms;
}
export function checkedDeterminism(mode: WorkerOptions["determinism"]): Determinism {
  if (mode === undefined) return process.env["NODE_ENV"] === "production" ? "off" : "warn";
  if (!["off", "warn", "error"].includes(mode))
    throw invalid("worker", `determinism is "off", "warn" or "error", not ${String(mode)}.`, "determinism");
  return mode;
}
export function checkedStopOn(stopOn: WorkerOptions["stopOn"] = []): readonly ("SIGTERM" | "SIGINT")[] {
  for (const signal of stopOn) {
    if (signal !== "SIGTERM" && signal !== "SIGINT")
      throw invalid("worker", `stopOn takes "SIGTERM" and "SIGINT", not ${String(signal)}.`, "stopOn");
  }
  return stopOn;
}

// ── of lists ──

export function checkedLimit(limit = 100): number {
  if (!Number.isInteger(limit) || limit < 1 || limit > 1_000) throw invalid("list", "limit is a whole number from 1 to 1,000.", "limit");
  return limit;
}
export function queryOf(filter: RunFilter): Omit<RunQuery, "limit" | "cursor"> {
  const status = filter.status === undefined ? undefined : typeof filter.status === "string" ? [filter.status] : filter.status;
  for (const one of status ?? []) if (!STATUSES.has(one)) throw invalid("list", `There is no status "${one}".`, "status");
  return {
    status,
    workflow: filter.workflow,
    queue: filter.queue,
    parentId: filter.parentId,
    attributes: filter.attributes,
    since: filter.since === undefined ? undefined : moment("list", "since", filter.since),
    until: filter.until === undefined ? undefined : moment("list", "until", filter.until),
  };
}
