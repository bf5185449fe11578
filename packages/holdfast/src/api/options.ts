// Checks what users pass: ids, names, dates, numbers, filters.
// Owns: the texts of these errors.
// Invariants: invalid input is an InvalidInputError that names the option, thrown before anything is written.

import {
  type AnyWorkflow,
  attributeProblem,
  type Codec,
  checkedId,
  checkedText,
  checkedWorkflowName,
  checkOptionNames,
  DEFAULT_LIMITS,
  InvalidInputError,
  type Limits,
  type Logger,
  type OptionNames,
  parseDuration,
  type StoredRetryPolicy,
  typedCodec,
} from "@holdfast/core";
import { isWorkflow } from "@holdfast/host";
import type { Determinism } from "@holdfast/host/node";
import type { RunStart } from "../backend/port.ts";
import type { OpenOptions } from "./openOptions.ts";
import type { ForkOptions, RunFilter, SendOptions, StartOptions, UpdateOptions } from "./types.ts";
import type { WorkerOptions } from "./workerTypes.ts";

export function invalid(what: string, message: string, path?: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [path === undefined ? { message } : { message, path: [path] }] });
}

/** Options must be an object, or omitted. If `names` is given, an unknown name is an error. */
export function checkedOptions<T extends object>(what: string, options: T | undefined, names?: OptionNames<NoInfer<T>>): T {
  if (options === undefined) return {} as T;
  if (typeof options !== "object" || options === null || Array.isArray(options))
    throw invalid(what, `The options must be an object, not ${kindOf(options)}.`);
  if (names !== undefined) checkOptionNames(what, options, names);
  return options;
}

export const OPEN: OptionNames<OpenOptions> = {
  codec: true,
  namespace: true,
  logger: true,
  limits: true,
  retention: true,
  temporal: true,
};
export const START: OptionNames<StartOptions> = {
  id: true,
  onConflict: true,
  idempotencyKey: true,
  queue: true,
  key: true,
  after: true,
  priority: true,
  delay: true,
  maxDelay: true,
  startAt: true,
  deadline: true,
  version: true,
  retry: true,
  signals: true,
  attributes: true,
  tx: true,
};
const START_SIGNAL: OptionNames<{ name: unknown; payload: unknown }> = { name: true, payload: true };
const ITEM: OptionNames<{ input?: unknown } & StartOptions> = { ...START, input: true };
const SEND: OptionNames<SendOptions> = { idempotencyKey: true, tx: true };
/** `tx` is listed only to be rejected with its own error text. */
export const UPDATE: OptionNames<UpdateOptions & { tx?: unknown }> = { idempotencyKey: true, timeout: true, acceptWithin: true, tx: true };
const START_UPDATE: OptionNames<{ name: unknown; input: unknown } & UpdateOptions & { tx?: unknown }> = {
  ...UPDATE,
  name: true,
  input: true,
};
const FORK: OptionNames<ForkOptions> = { before: true, id: true, version: true, signals: true };
export const RESULT: OptionNames<{ timeout?: unknown; signal?: unknown }> = { timeout: true, signal: true };
export const FILTER: OptionNames<RunFilter> = {
  status: true,
  workflow: true,
  version: true,
  queue: true,
  key: true,
  schedule: true,
  parentId: true,
  idPrefix: true,
  attributes: true,
  finishedSince: true,
  finishedUntil: true,
  since: true,
  until: true,
  limit: true,
  cursor: true,
};
export const WORKER: OptionNames<WorkerOptions> = {
  workflows: true,
  activities: true,
  queue: true,
  concurrency: true,
  activityConcurrency: true,
  lease: true,
  cachedRuns: true,
  gracePeriod: true,
  stopOn: true,
  turnTimeout: true,
  determinism: true,
};

/** A number is shown as it is, any other value by its kind: some values can't be printed. */
export function shown(value: unknown): string {
  return typeof value === "number" ? String(value) : kindOf(value);
}
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "a list";
  if (value instanceof Promise) return "a promise";
  return typeof value === "object" ? "an object" : typeof value === "string" ? JSON.stringify(value) : `a ${typeof value}`;
}

// ── engines ──

/** Every limit must be a whole number above 0, or Infinity. */
export function checkedLimits(limits: Partial<Limits> | undefined): Limits {
  const result: Limits = { ...DEFAULT_LIMITS };
  for (const [name, value] of Object.entries(checkedOptions("limits", limits))) {
    if (!Object.hasOwn(DEFAULT_LIMITS, name))
      throw invalid("limits", `Unknown limit. Known limits: ${Object.keys(DEFAULT_LIMITS).join(", ")}.`, name);
    if (value === undefined) continue;
    if (typeof value !== "number" || !(value > 0) || !(Number.isInteger(value) || value === Number.POSITIVE_INFINITY))
      throw invalid("limits", `A limit must be a whole number above 0, or Infinity, not ${shown(value)}.`, name);
    result[name as keyof Limits] = value;
  }
  return result;
}
export function checkedLogger(logger: Logger): Logger {
  for (const level of ["debug", "info", "warn", "error"] as const) {
    if (typeof (logger as Partial<Logger> | null)?.[level] !== "function")
      throw invalid("Holdfast.open", "A logger must have the functions debug, info, warn and error.", "logger");
  }
  return logger;
}
export function checkedCodec(codec: Codec): Codec {
  if (typeof (codec as Partial<Codec> | null)?.encode !== "function" || typeof codec.decode !== "function")
    throw invalid("Holdfast.open", "A codec must have the functions encode and decode.", "codec");
  return typedCodec(codec);
}

/** Milliseconds, or "forever". */
export function checkedRetention(what: string, retention: OpenOptions["retention"]): number | "forever" | undefined {
  if (retention === undefined || retention === "forever") return retention;
  try {
    const ms = parseDuration(retention);
    if (ms > 0) return ms;
  } catch {
    // One message for all of them.
  }
  throw invalid(what, `retention must be a duration above 0 such as "30d", or "forever", not ${shown(retention)}.`, "retention");
}

// ── starts ──

/** The runs that `startMany` starts. */
export function checkedItems<T extends object>(items: Iterable<T>): T[] {
  if (typeof items !== "object" || items === null || typeof items[Symbol.iterator] !== "function")
    throw invalid("startMany", `Expected a list of runs to start, [{ input, …options }], got ${kindOf(items)}.`, "items");
  const given = [...items];
  for (const [i, item] of given.entries()) {
    if (typeof item !== "object" || item === null)
      throw invalid("startMany", `Each item must be an object, { input, …options }, not ${kindOf(item)}.`, `items.${i}`);
    checkOptionNames("startMany", item, ITEM);
  }
  return given;
}
export function checkedSignals(signals: StartOptions["signals"]): readonly { readonly name: string; readonly payload?: unknown }[] {
  if (signals === undefined) return [];
  if (!Array.isArray(signals)) throw invalid("start", `signals must be a list, [{ name, payload }], not ${kindOf(signals)}.`, "signals");
  for (const signal of signals as readonly unknown[]) {
    const name = typeof signal === "object" && signal !== null ? (signal as { name?: unknown }).name : undefined;
    if (typeof name !== "string" || name === "")
      throw invalid("start", "Each entry of signals must be { name, payload }, and name must be a string that is not empty.", "signals");
    checkOptionNames("start", signal as object, START_SIGNAL);
  }
  return signals;
}

export function checkedWorkflow(workflow: unknown): AnyWorkflow | string {
  if (isWorkflow(workflow)) {
    checkedWorkflowName("start", workflow.name);
    return workflow;
  }
  if (typeof workflow === "string" && workflow !== "")
    return checkedWorkflowName("start", checkedText("start", "workflow", workflow) ?? workflow);
  throw invalid("start", "Expected a workflow made by workflow(name, run), or the name of one.", "workflow");
}
/** A definition or undefined; a name is not accepted here. */
export function checkedDefinition(what: string, workflow: AnyWorkflow | undefined): AnyWorkflow | undefined {
  if (workflow === undefined || isWorkflow(workflow)) return workflow;
  throw invalid(what, `Expected a workflow made by workflow(name, run), got ${kindOf(workflow)}.`, "workflow");
}
const CONFLICTS: ReadonlySet<string> = new Set<RunStart["onConflict"]>([
  "reject",
  "use-existing",
  "restart-if-closed",
  "replace",
  "debounce",
]);
export function checkedConflict({ onConflict = "reject", id, maxDelay }: StartOptions): RunStart["onConflict"] {
  if (!CONFLICTS.has(onConflict)) {
    const known = [...CONFLICTS].map((one) => `"${one}"`).join(", ");
    throw invalid("start", `onConflict must be one of ${known}, not ${shown(onConflict)}.`, "onConflict");
  }
  if (id === undefined && (onConflict === "replace" || onConflict === "debounce"))
    throw invalid("start", `onConflict "${onConflict}" needs an id: without one no other start is of the same run.`, "id");
  if (maxDelay !== undefined && onConflict !== "debounce")
    throw invalid("start", 'maxDelay has a meaning only with onConflict "debounce".', "maxDelay");
  return onConflict;
}
export function moment(what: string, key: string, date: Date): number {
  const time = date instanceof Date ? date.getTime() : Number.NaN;
  if (Number.isNaN(time)) throw invalid(what, `${key} is not a valid Date.`, key);
  return time;
}
/** When the run may begin: at once, after a delay, or at a given time. */
export function checkedBeginning({ delay, startAt }: StartOptions): Pick<RunStart, "delay" | "startAt"> {
  if (delay !== undefined && startAt !== undefined)
    throw invalid("start", "delay and startAt both set when the run begins: pass only one of them.", "delay");
  return {
    delay: delay === undefined ? undefined : parseDuration(delay, "delay"),
    startAt: startAt === undefined ? undefined : moment("start", "startAt", startAt),
  };
}
export function checkedAttributes(given: Record<string, string | number | boolean> | undefined): Record<string, string | number | boolean> {
  const attributes = checkedOptions("attributes", given);
  for (const [key, value] of Object.entries(attributes)) {
    const problem = attributeProblem(key, value);
    if (problem !== undefined) throw invalid("start", `attribute ${problem}.`, key);
  }
  return { ...attributes };
}
/** The retry policy of a start. It is stored, so it can't contain a function. */
export function checkedRunRetry(retry: StoredRetryPolicy | undefined): StoredRetryPolicy | undefined {
  if (typeof retry?.nonRetryable !== "function") return retry;
  throw invalid(
    "start",
    "nonRetryable must be a list of names here, because it is stored with the run. Declare a function on the workflow instead.",
    "retry",
  );
}

// ── handles ──

/** The id of a run to look up. An id that no run can have is simply not found. */
export function checkedRunId(id: unknown): string {
  if (typeof id === "string") return id;
  throw invalid("run", `The id of a run must be a string, not ${kindOf(id)}.`, "id");
}
export function checkedName(what: string, name: unknown): string {
  if (typeof name === "string" && name !== "") return name;
  throw invalid(what, `The name must be a string that is not empty, not ${kindOf(name)}.`, "name");
}
export function checkedSend(what: "signal" | "update", name: unknown, given: SendOptions | undefined): SendOptions {
  checkedName(what, name);
  const options = checkedOptions(what, given, what === "signal" ? SEND : undefined);
  checkedText(what, "idempotencyKey", options.idempotencyKey);
  return options;
}
export function checkedFork(given: ForkOptions): {
  readonly before: string;
  readonly id: string | undefined;
  readonly version: string | undefined;
  readonly signals: "keep" | "drop";
} {
  const { before, id, version, signals = "keep" } = checkedOptions("fork", given, FORK);
  if (typeof before !== "string" || before === "")
    throw invalid("fork", `before must be the location of an operation, as run.operations() shows it, not ${shown(before)}.`, "before");
  if (signals !== "keep" && signals !== "drop")
    throw invalid("fork", `signals must be "keep" or "drop", not ${shown(signals)}.`, "signals");
  return { before, id: checkedId("fork", id), version: checkedText("fork", "version", version), signals };
}
/** The update that `updateWithStart` sends. */
export function checkedUpdate<T extends { readonly name: unknown } & UpdateOptions>(update: T): T {
  if (typeof update !== "object" || update === null)
    throw invalid("updateWithStart", `Expected an update, { name, input }, got ${kindOf(update)}.`, "update");
  checkOptionNames("updateWithStart", update, START_UPDATE);
  checkedName("updateWithStart", update.name);
  return update;
}
export function checkedReason(what: string, reason: unknown): string | undefined {
  if (reason === undefined || typeof reason === "string") return reason;
  throw invalid(what, `The reason must be a string, not ${kindOf(reason)}.`, "reason");
}
export function checkedSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined || typeof (signal as Partial<AbortSignal> | null)?.throwIfAborted === "function") return signal;
  throw invalid("result", `signal must be an AbortSignal, not ${kindOf(signal)}.`, "signal");
}

// ── workers ──

export function wholeNumber(options: WorkerOptions, key: "concurrency" | "activityConcurrency" | "cachedRuns", fallback: number): number {
  const value = options[key] ?? fallback;
  const least = key === "cachedRuns" ? 0 : 1;
  if (!Number.isInteger(value) || value < least)
    throw invalid("worker", `${key} must be a whole number of at least ${least}, not ${shown(value)}.`, key);
  return value;
}
export function checkedLease(lease: WorkerOptions["lease"]): number {
  const ms = parseDuration(lease ?? "30s", "lease");
  if (ms < 1) throw invalid("worker", "lease must be at least 1 ms.", "lease");
  return ms;
}
export function checkedDeterminism(mode: WorkerOptions["determinism"]): Determinism {
  if (mode === undefined) return process.env["NODE_ENV"] === "production" ? "off" : "warn";
  if (!["off", "warn", "error"].includes(mode))
    throw invalid("worker", `determinism must be "off", "warn" or "error", not ${shown(mode)}.`, "determinism");
  return mode;
}
export function checkedStopOn(stopOn: WorkerOptions["stopOn"] = []): readonly ("SIGTERM" | "SIGINT")[] {
  if (!Array.isArray(stopOn)) throw invalid("worker", `stopOn must be a list such as ["SIGTERM"], not ${kindOf(stopOn)}.`, "stopOn");
  for (const signal of stopOn) {
    if (signal !== "SIGTERM" && signal !== "SIGINT")
      throw invalid("worker", `stopOn accepts "SIGTERM" and "SIGINT", not ${shown(signal)}.`, "stopOn");
  }
  return stopOn;
}
