// Checks filters of `list` and `count`.
// Owns: the texts of these errors.
// Invariants: an invalid filter is an InvalidInputError that names the field; nothing is ignored.

import { attributeProblem, checkedText, type RunStatus } from "@holdfast/core";
import type { AttributeTest, RunSelection, Scalar } from "../backend/port.ts";
import { invalid, kindOf, moment, shown } from "./options.ts";
import type { RunCounts, RunFilter } from "./types.ts";

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
/** Of a list in a filter: each entry is looked up. */
const MOST_VALUES = 1_000;

export function checkedLimit(limit = 100): number {
  if (!Number.isInteger(limit) || limit < 1 || limit > 1_000)
    throw invalid("list", "limit must be a whole number from 1 to 1,000.", "limit");
  return limit;
}
const MOST_COUNTED = 10_000;
/** Undefined: as many as stores count. */
export function checkedCountLimit({ limit, cursor }: RunFilter): number | undefined {
  if (cursor !== undefined) throw invalid("count", "cursor is for lists: all runs that match are counted.", "cursor");
  if (limit !== undefined && (!Number.isInteger(limit) || limit < 1 || limit > MOST_COUNTED))
    throw invalid("count", "limit must be a whole number from 1 to 10,000.", "limit");
  return limit;
}
export function cappedAt(limit: number | undefined, counts: RunCounts): RunCounts {
  if (limit === undefined) return counts;
  const statuses = Object.keys(counts).filter((status): status is RunStatus => status !== "capped");
  const isOver = (status: RunStatus): boolean => counts[status] > limit || counts.capped.includes(status);
  const capped = Object.fromEntries(statuses.map((status) => [status, Math.min(counts[status], limit)])) as Record<RunStatus, number>;
  return { ...counts, ...capped, capped: statuses.filter(isOver) };
}
export function queryOf(filter: RunFilter): RunSelection {
  return {
    status: checkedStatus(filter.status),
    workflow: checkedWorkflow(filter.workflow),
    version: checkedText("list", "version", filter.version),
    queue: checkedText("list", "queue", filter.queue),
    key: checkedText("list", "key", filter.key),
    schedule: checkedText("list", "schedule", filter.schedule),
    parentId: checkedText("list", "parentId", filter.parentId),
    idPrefix: checkedText("list", "idPrefix", filter.idPrefix),
    attributes: checkedTests(filter.attributes),
    finishedSince: checkedTime("finishedSince", filter.finishedSince),
    finishedUntil: checkedTime("finishedUntil", filter.finishedUntil),
    since: checkedTime("since", filter.since),
    until: checkedTime("until", filter.until),
  };
}
function checkedTime(key: string, time: Date | undefined): number | undefined {
  return time === undefined ? undefined : moment("list", key, time);
}
function checkedStatus(asked: RunFilter["status"]): readonly RunStatus[] | undefined {
  if (asked === undefined) return undefined;
  const status: readonly RunStatus[] = typeof asked === "string" ? [asked] : asked;
  if (!Array.isArray(status)) throw invalid("list", `status must be a status or a list of them, not ${kindOf(status)}.`, "status");
  for (const one of status)
    if (!STATUSES.has(one)) throw invalid("list", `Unknown status ${shown(one)}. Known statuses: ${[...STATUSES].join(", ")}.`, "status");
  return status;
}
function checkedWorkflow(asked: RunFilter["workflow"]): string | readonly string[] | undefined {
  if (!Array.isArray(asked)) return checkedText("list", "workflow", asked as string | undefined);
  checkLength(asked, "workflow");
  for (const name of asked)
    if (typeof name !== "string" || checkedText("list", "workflow", name) === undefined)
      throw invalid("list", `workflow must be a name or a list of names, and one of the list is ${kindOf(name)}.`, "workflow");
  return asked;
}
function checkLength(list: readonly unknown[], key: string): void {
  if (list.length > MOST_VALUES) throw invalid("list", `A list in a filter has at most 1,000 entries; ${key} has ${list.length}.`, key);
}

// ── attributes ──

function checkedTests(tests: RunFilter["attributes"]): Record<string, AttributeTest> | undefined {
  if (tests === undefined) return undefined;
  if (typeof tests !== "object" || tests === null || Array.isArray(tests))
    throw invalid("list", `attributes must be an object such as { customer: "c1" }, not ${kindOf(tests)}.`, "attributes");
  return Object.fromEntries(Object.entries(tests).map(([name, test]) => [name, checkedTest(name, test as unknown)]));
}
const RANGE = ["gt", "gte", "lt", "lte"] as const;

function checkedTest(name: string, test: unknown): AttributeTest {
  if (typeof test !== "object") return checkedScalar(name, test);
  if (test === null || Array.isArray(test))
    throw refused(
      name,
      `must be a value, { in: [...] }, { prefix } or a range, not ${kindOf(test)}${test === null ? "" : ": use { in: [...] }"}.`,
    );
  const keys = Object.keys(test).filter((key) => (test as Record<string, unknown>)[key] !== undefined);
  const unknown = keys.find((key) => !["in", "prefix", ...RANGE].includes(key));
  if (unknown !== undefined) throw refused(name, `has no test "${unknown}". Tests: a value, in, prefix, gt, gte, lt, lte.`);
  if (keys.length === 0) throw refused(name, "has an empty test: pass a value, in, prefix, gt, gte, lt or lte.");
  if ((keys.includes("in") || keys.includes("prefix")) && keys.length > 1)
    throw refused(name, `has ${keys.join(" and ")}: in and prefix can't be combined with another test of the same attribute.`);
  const { in: values, prefix } = test as { in?: unknown; prefix?: unknown };
  if (keys[0] === "in") return { in: checkedValues(name, values) };
  if (keys[0] === "prefix") {
    if (typeof prefix !== "string") throw refused(name, `prefix must be text, not ${shown(prefix)}.`);
    return { prefix: checkedScalar(name, prefix) as string };
  }
  return checkedRange(name, test as Record<string, unknown>, keys);
}
function checkedValues(name: string, values: unknown): readonly Scalar[] {
  if (!Array.isArray(values)) throw refused(name, `in must be a list of values, not ${kindOf(values)}.`);
  checkLength(values, `${name}.in`);
  return values.map((value: unknown) => checkedScalar(name, value));
}
function checkedRange(name: string, range: Record<string, unknown>, keys: readonly string[]): AttributeTest {
  for (const key of keys) {
    const limit = range[key];
    if (typeof limit === "boolean") throw refused(name, `${key}: a range of booleans has no meaning. Test for true or false.`);
    if (typeof limit !== "string" && typeof limit !== "number")
      throw refused(name, `${key} must be a number or text, not ${kindOf(limit)}.`);
    checkedScalar(name, limit);
  }
  if (new Set(keys.map((key) => typeof range[key])).size > 1)
    throw refused(name, "has a range with a number and a text. Both limits must have the same type.");
  return Object.fromEntries(keys.map((key) => [key, range[key]])) as AttributeTest;
}
/** A value that no attribute can have is a mistake of the caller. */
function checkedScalar(name: string, value: unknown): Scalar {
  const problem = attributeProblem(name, value);
  if (problem !== undefined) throw invalid("list", `attribute ${problem}.`, name);
  return value as Scalar;
}
function refused(name: string, message: string): Error {
  return invalid("list", `attribute "${name}" ${message}`, name);
}
