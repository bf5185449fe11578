// What requests of the HTTP API look like: query parameters and bodies.
// Owns: these shapes, and how a query parameter is written as text.
// Invariants: an unknown parameter or field is refused; a value in a body is plain JSON, and is decoded only with `tagged`.

import * as z from "zod";
import { durationMs } from "./durations.ts";
import { RUN_STATUSES, scalar, value } from "./schemas.ts";

// ── query parameters: text outside, a value inside ──

const flag = z.codec(z.enum(["true", "false", "1", "0"]), z.boolean(), {
  decode: (text) => text === "true" || text === "1",
  encode: (is) => (is ? "true" : "false"),
});
const wholeNumber = (least: number, most: number) =>
  z.codec(z.string().regex(/^\d{1,15}$/, "It must be a whole number."), z.number().int().min(least).max(most), {
    decode: Number,
    encode: String,
  });
const duration = z.codec(z.string().min(1), z.number().min(0), {
  decode: (text, context) => {
    const ms = durationMs(text);
    if (ms !== undefined) return ms;
    context.issues.push({ code: "custom", input: text, message: 'It must be a duration such as "30s", or milliseconds.' });
    return z.NEVER;
  },
  encode: (ms) => `${ms}ms`,
});
/** ISO 8601, or a duration before now: "24h". */
const moment = z.codec(z.string().min(1), z.date(), {
  decode: (text, context) => {
    const ms = /^\d{4}-/.test(text) ? Date.parse(text) : Date.now() - (durationMs(text) ?? Number.NaN);
    if (Number.isFinite(ms)) return new Date(ms);
    context.issues.push({ code: "custom", input: text, message: 'It must be a time in ISO 8601, or a duration such as "24h".' });
    return z.NEVER;
  },
  encode: (date) => date.toISOString(),
});
/** `failed,blocked`; the parameter may be given several times, too. */
const statuses = z.codec(z.union([z.string().min(1), z.array(z.string())]), z.array(z.enum(RUN_STATUSES)).min(1), {
  decode: (text) => [text].flat().flatMap((one) => one.split(",")) as (typeof RUN_STATUSES)[number][],
  encode: (all) => all.join(","),
});
/** A JSON scalar where it parses as one (`42`, `"42"`, `true`), else the text itself. */
const attribute = z.codec(z.string(), scalar, {
  decode: scalarOf,
  encode: (one) => (typeof one === "string" && scalarOf(one) === one ? one : JSON.stringify(one)),
});
export function scalarOf(text: string): string | number | boolean {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "string" || typeof parsed === "number" || typeof parsed === "boolean") return parsed;
  } catch {
    // Not JSON: the text itself.
  }
  return text;
}
const names = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]);
const name = z.string().min(1);

export const limit = wholeNumber(1, 200).optional();
const selection = {
  status: statuses.optional(),
  workflow: names.optional(),
  version: name.optional(),
  queue: name.optional(),
  key: name.optional(),
  schedule: name.optional(),
  parentId: name.optional(),
  idPrefix: name.optional(),
  /** `attr.NAME=VALUE`, one parameter for each attribute. */
  attr: z.record(z.string(), attribute).optional(),
  since: moment.optional(),
  until: moment.optional(),
  finishedSince: moment.optional(),
  finishedUntil: moment.optional(),
};
export const runSelection = z.strictObject(selection);
export const runQuery = z.strictObject({ ...selection, values: flag.optional(), limit, cursor: name.optional() });
export const sourceQuery = z.strictObject({ execution: wholeNumber(1, 1e15).optional(), location: z.string().min(1).optional() });
export const executionQuery = z.strictObject({ execution: wholeNumber(1, 1e15).optional() });
/** `full`: values over 4 KB too. */
export const historyQuery = z.strictObject({ execution: wholeNumber(1, 1e15).optional(), full: flag.optional() });
export const fullQuery = z.strictObject({ full: flag.optional() });
/** `lastTurn` of a timeline without turns is -1, and may be given back. */
const turn = z.codec(z.string().regex(/^(-1|\d{1,15})$/, "It must be the index of a turn."), z.number().int(), {
  decode: Number,
  encode: String,
});
export const timelineQuery = z.strictObject({ execution: wholeNumber(1, 1e15).optional(), after: turn.optional() });
export const childrenQuery = z.strictObject({ values: flag.optional(), limit, cursor: name.optional() });
export const resultQuery = z.strictObject({ wait: duration.optional() });
/** `tagged`: an object in the body that is tagged is decoded, as the default codec does. */
export const taggedQuery = z.strictObject({ tagged: flag.optional() });
export const updateQuery = z.strictObject({ tagged: flag.optional(), wait: duration.optional(), acceptWithin: duration.optional() });
export const scheduleQuery = z.strictObject({ after: name.optional(), limit });
export const eventsQuery = z.strictObject({ topics: z.string().min(1) });

// ── bodies ──

const time = z.iso.datetime({ offset: true }).transform((text) => new Date(text));
const span = z.union([z.string(), z.number()]);
const attributes = z.record(z.string(), scalar);
const retry = z.strictObject({
  maxAttempts: z.number().optional(),
  initialInterval: span.optional(),
  backoff: z.number().optional(),
  maxInterval: span.optional(),
  jitter: z.number().optional(),
  nonRetryable: z.array(z.string()).optional(),
});
const signals = z.array(z.strictObject({ name: z.string(), payload: value.optional() }));

export const startBody = z.strictObject({
  workflow: name,
  input: value.optional(),
  id: z.string().optional(),
  onConflict: z.enum(["reject", "use-existing", "restart-if-closed", "replace", "debounce"]).optional(),
  idempotencyKey: z.string().optional(),
  queue: z.string().optional(),
  key: z.string().optional(),
  after: z.string().optional(),
  priority: z.number().optional(),
  delay: span.optional(),
  maxDelay: span.optional(),
  startAt: time.optional(),
  /** A duration from the start, or a time. */
  deadline: z.union([time, span]).optional(),
  version: z.string().optional(),
  retry: retry.optional(),
  signals: signals.optional(),
  attributes: attributes.optional(),
});
export const reasonBody = z.strictObject({ reason: z.string().optional() }).optional();
export const forkBody = z.strictObject({
  before: z.string(),
  id: z.string().optional(),
  version: z.string().optional(),
  signals: z.enum(["keep", "drop"]).optional(),
});

const attributeTest = z.union([
  scalar,
  z.strictObject({ in: z.array(scalar) }),
  z.strictObject({ prefix: z.string() }),
  z.strictObject({
    gt: z.union([z.string(), z.number()]).optional(),
    gte: z.union([z.string(), z.number()]).optional(),
    lt: z.union([z.string(), z.number()]).optional(),
    lte: z.union([z.string(), z.number()]).optional(),
  }),
]);
export const runFilter = z.strictObject({
  status: z.union([z.enum(RUN_STATUSES), z.array(z.enum(RUN_STATUSES))]).optional(),
  workflow: names.optional(),
  version: name.optional(),
  queue: name.optional(),
  key: name.optional(),
  schedule: name.optional(),
  parentId: name.optional(),
  idPrefix: name.optional(),
  attributes: z.record(z.string(), attributeTest).optional(),
  since: time.optional(),
  until: time.optional(),
  finishedSince: time.optional(),
  finishedUntil: time.optional(),
});
export const bulkAction = z.union([
  z.strictObject({ do: z.enum(["cancel", "terminate", "resume", "delete"]), reason: z.string().optional() }),
  z.strictObject({ do: z.literal("signal"), name: z.string(), payload: value.optional() }),
]);
export const previewBody = z.union([
  z.strictObject({ action: bulkAction, filter: runFilter }),
  z.strictObject({ action: bulkAction, ids: z.array(z.string()).min(1).max(1_000) }),
]);
export const bulkBody = z.strictObject({ token: z.string(), reason: z.string().optional() });

const rate = z.strictObject({ limit: z.number(), per: span });
const limits = { concurrency: z.number().optional(), rate: rate.optional() };
export const queueBody = z.strictObject({
  ...limits,
  perKey: z.strictObject(limits).optional(),
  keys: z.record(z.string(), z.strictObject({ ...limits, weight: z.number().optional() })).optional(),
  counts: z.enum(["running", "open"]).optional(),
});
export const pauseBody = z.strictObject({ key: z.string().optional(), for: span.optional() }).optional();
export const resumeBody = z.strictObject({ key: z.string().optional() }).optional();

export const scheduleBody = z.strictObject({
  workflow: name,
  input: value.optional(),
  cron: z.string().optional(),
  every: span.optional(),
  timezone: z.string().optional(),
  overlap: z.enum(["skip", "queue", "allow", "cancel-previous"]).optional(),
  catchUp: span.optional(),
  jitter: span.optional(),
  start: z
    .strictObject({
      queue: z.string().optional(),
      key: z.string().optional(),
      priority: z.number().optional(),
      version: z.string().optional(),
      retry: retry.optional(),
      signals: signals.optional(),
      attributes: attributes.optional(),
      deadline: span.optional(),
    })
    .optional(),
});
export const backfillBody = z.strictObject({ from: time, to: time });
