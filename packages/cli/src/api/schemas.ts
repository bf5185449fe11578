// The JSON shapes that the HTTP API sends: runs, operations, timelines, queues, schedules, workers.
// Owns: these shapes. Field names are those of the public API of `holdfast`.
// Invariants: dates are ISO texts; what is undefined is null; a user value is the default codec's JSON, or one of the three markers.

import * as z from "zod";

// ── values ──

/** A user value: plain JSON, or tagged as the default codec tags it. Also `{$unreadable}`, `{$redacted}` and `{$large}`. */
export const value = z.unknown().meta({
  description:
    'A value as the default codec writes it. {"$redacted":bytes}: the token may not see values. {"$large":bytes}: over 4 KB, see operations/{location}. {"$unreadable":reason}: the server can\'t decode it.',
});
const redacted = z.strictObject({ $redacted: z.number() });
/** A text that may quote user values. */
const text = z.union([z.string(), redacted]);
const time = z.iso.datetime();
/** A position in the code; `file` is relative to the folder of the server where it is below it. */
export const sourcePlace = z.object({ file: z.string(), line: z.number(), column: z.number() });
export const scalar = z.union([z.string(), z.number(), z.boolean()]);

export const RUN_STATUSES = [
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
] as const;
export const runStatus = z.enum(RUN_STATUSES);

/** `code` is that of the error, if it has one. `cause` is an error of the same shape. */
export const serializedError = z.object({
  name: z.string(),
  code: z.string().nullable(),
  message: text,
  stack: text.nullable(),
  get cause() {
    return z.union([serializedError, redacted]).nullable();
  },
  data: value.nullable(),
});

// ── runs ──

export const runInfo = z.object({
  id: z.string(),
  workflow: z.string(),
  version: z.string().nullable(),
  status: runStatus,
  queue: z.string(),
  key: z.string().nullable(),
  priority: z.number(),
  schedule: z.string().nullable(),
  tick: time.nullable(),
  forkedFrom: z.string().nullable(),
  input: value,
  output: value,
  error: serializedError.nullable(),
  waitingFor: z.array(z.string()),
  execution: z.number(),
  attempt: z.number(),
  parentId: z.string().nullable(),
  attributes: z.record(z.string(), scalar),
  createdAt: time,
  startedAt: time.nullable(),
  availableAt: time.nullable(),
  deadlineAt: time.nullable(),
  finishedAt: time.nullable(),
  workerId: z.string().nullable(),
  historyLength: z.number(),
});
export const runPage = z.object({ runs: z.array(runInfo), cursor: z.string().nullable() });
export const runCount = z.object({ n: z.number(), capped: z.boolean() });
export const started = z.object({ id: z.string(), execution: z.number() });
export const acted = z.object({ id: z.string() });
export const result = z.object({ status: runStatus, output: value, error: serializedError.nullable() });

export const reason = z.object({
  kind: z.string(),
  text,
  advice: z.string(),
  since: time.nullable(),
  location: z.string().nullable(),
});

const attemptStatus = z.enum(["running", "completed", "failed", "lost"]);
const operationStatus = z.enum(["scheduled", "running", "waiting", "completed", "failed", "canceled", "abandoned"]);
export const operationInfo = z.object({
  location: z.string(),
  unit: z.string(),
  kind: z.string(),
  name: z.string(),
  status: operationStatus,
  input: value,
  output: value,
  error: serializedError.nullable(),
  attempts: z.array(
    z.object({
      number: z.number(),
      status: attemptStatus,
      error: serializedError.nullable(),
      startedAt: time,
      endedAt: time.nullable(),
      workerId: z.string(),
    }),
  ),
  scheduledAt: time,
  endedAt: time.nullable(),
  childId: z.string().nullable(),
});

export const history = z.object({
  format: z.string(),
  run: z.object({ id: z.string(), workflow: z.string(), version: z.string().nullable(), input: value, status: runStatus }),
  turns: z.array(z.unknown()),
});
export const inboxMessage = z.object({
  id: z.string(),
  /** "other": results and events that no user sent. */
  kind: z.enum(["signal", "update", "cancel", "other"]),
  name: z.string().nullable(),
  payload: value,
  receivedAt: time.nullable(),
});
export const execution = z.object({
  execution: z.number(),
  workflow: z.string(),
  version: z.string().nullable(),
  status: runStatus.nullable(),
  input: value,
  firstTurnAt: time.nullable(),
  lastTurnAt: time.nullable(),
  turns: z.number(),
});

// ── the timeline: no values, no stacks ──

export const timeline = z.object({
  execution: z.number(),
  /** -1 if there is none. */
  lastTurn: z.number(),
  /** False: only the newest operations are listed. */
  complete: z.boolean(),
  turns: z.array(z.object({ index: z.number(), time, workerId: z.string().nullable() })),
  units: z.array(
    z.object({
      path: z.string(),
      role: z.enum(["root", "branch", "handler", "async", "iteration", "body"]),
      parent: z.string().nullable(),
      startedAt: time,
      endedAt: time.nullable(),
      status: z.enum(["running", "completed", "failed", "canceled"]),
    }),
  ),
  operations: z.array(
    z.object({
      seq: z.number(),
      turn: z.number(),
      location: z.string(),
      unit: z.string(),
      kind: z.string(),
      name: z.string(),
      status: operationStatus,
      scheduledAt: time,
      endedAt: time.nullable(),
      wakeAt: time.nullable(),
      retryAt: time.nullable(),
      childId: z.string().nullable(),
      error: z.object({ name: z.string(), message: text }).nullable(),
      attempts: z.array(
        z.object({
          number: z.number(),
          status: attemptStatus,
          startedAt: time,
          endedAt: time.nullable(),
          workerId: z.string().nullable(),
        }),
      ),
    }),
  ),
  loops: z.array(
    z.object({
      location: z.string(),
      iterations: z.number(),
      failed: z.number(),
      kept: z.number(),
      committedAt: time.nullable(),
    }),
  ),
  messages: z.array(
    z.object({
      id: z.string(),
      kind: z.enum(["signal", "update", "cancel"]),
      name: z.string().nullable(),
      arrivedTurn: z.number(),
      takenTurn: z.number().nullable(),
      takenBy: z.string().nullable(),
    }),
  ),
});

// ── bulk actions ──

export const bulkResult = z.object({
  matched: z.number(),
  done: z.number(),
  succeeded: z.number(),
  failed: z.number(),
  /** The first 100. */
  failures: z.array(z.object({ id: z.string(), code: z.string(), message: text })),
});
export const bulkPreview = z.object({
  /** At most 10,000. */
  matched: z.number(),
  capped: z.boolean(),
  byStatus: z.record(z.string(), z.number()),
  byWorkflow: z.record(z.string(), z.number()),
  /** The newest five. */
  sample: z.array(runInfo),
  token: z.string(),
});

// ── workflows, queues, workers, schedules ──

const jsonSchema = z.record(z.string(), z.unknown());
export const workflowInfo = z.object({
  name: z.string(),
  version: z.string().nullable(),
  /** The versions whose runs it serves. Null in the list: runs without a version. */
  versions: z.union([z.literal("*"), z.array(z.string().nullable())]),
  /** JSON Schemas; `{}` accepts everything. Null: not known. */
  input: jsonSchema.nullable(),
  signals: z.record(z.string(), jsonSchema),
  updates: z.record(z.string(), jsonSchema),
  queries: z.array(z.string()),
  /** The workers that are alive and serve it. */
  workers: z.array(z.string()),
});

const duration = z.union([z.string(), z.number()]);
const rate = z.object({ limit: z.number(), per: duration });
const limit = { concurrency: z.number().nullable(), rate: rate.nullable() };
const queueLoad = z.object({ waiting: z.number(), held: z.number(), oldest: time.nullable() });
export const queueInfo = z.object({
  name: z.string(),
  ...limit,
  perKey: z.object(limit).nullable(),
  keys: z.record(z.string(), z.object({ ...limit, weight: z.number().nullable() })).nullable(),
  counts: z.enum(["running", "open"]).nullable(),
  paused: z.boolean(),
  pausedUntil: time.nullable(),
  pausedKeys: z.array(z.string()),
  runs: queueLoad,
  activities: queueLoad,
});

export const workerInfo = z.object({
  id: z.string(),
  host: z.string(),
  pid: z.number(),
  queue: z.string(),
  serves: z.array(z.object({ workflow: z.string(), versions: z.union([z.literal("*"), z.array(z.string().nullable())]) })),
  activities: z.array(z.string()),
  concurrency: z.number(),
  activityConcurrency: z.number(),
  active: z.number(),
  activeActivities: z.number(),
  startedAt: time,
  seenAt: time,
});

export const scheduleInfo = z.object({
  id: z.string(),
  workflow: z.string(),
  input: value,
  cron: z.string().nullable(),
  every: duration.nullable(),
  timezone: z.string().nullable(),
  overlap: z.enum(["skip", "queue", "allow", "cancel-previous"]).nullable(),
  catchUp: duration.nullable(),
  jitter: duration.nullable(),
  /** The options of its starts, as they were given. */
  start: z.record(z.string(), z.unknown()).nullable(),
  paused: z.boolean(),
  nextRuns: z.array(time),
  lastRunId: z.string().nullable(),
  lastTick: time.nullable(),
  missed: z.number(),
});

// ── the server ──

export const role = z.enum(["read", "operate", "admin"]);
export const health = z.object({
  /** False: the store can't be read, or its schema is not the one that this code knows. */
  ok: z.boolean(),
  /** Why it is not ok. */
  problems: z.array(z.string()),
  store: z.object({
    host: z.string(),
    exists: z.boolean(),
    /** The store's clock, which decides when timers are due and leases end. Null: there is no store yet, or it does not tell. */
    now: time.nullable(),
  }),
  schema: z.object({ found: z.number(), known: z.number() }).nullable(),
  blocked: runCount,
  workers: z.number().nullable(),
  /** The server's clock. */
  now: time,
  /** What the caller may do. */
  caller: z.object({ name: z.string(), role, values: z.boolean() }),
  readOnly: z.boolean(),
  /** What this engine has. */
  features: z.object({
    schedules: z.boolean(),
    queues: z.boolean(),
    workers: z.boolean(),
    /** Queries and checks by the code itself. */
    code: z.boolean(),
  }),
});
