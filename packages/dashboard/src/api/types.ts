// The shapes of the HTTP API that the page uses, by the names that the page uses.
// Owns nothing: they are derived from the routes of `@holdfast/cli`.

import type { ResponseOf } from "@holdfast/cli/client";

export type RunInfo = ResponseOf<"runs.get">;
export type RunPage = ResponseOf<"runs.list">;
export type RunCounts = ResponseOf<"runs.count">["counts"];
export type Timeline = ResponseOf<"runs.timeline">;
export type OperationInfo = ResponseOf<"runs.operation">;
export type SerializedError = NonNullable<RunInfo["error"]>;
export type History = ResponseOf<"runs.history">;
export type SourcePlace = NonNullable<ResponseOf<"runs.source">["source"]>;
export type Reason = ResponseOf<"runs.why">["reasons"][number];
export type Inbox = ResponseOf<"runs.inbox">;
export type BulkPreview = ResponseOf<"bulk.preview">;
export type WorkflowInfo = ResponseOf<"workflows.list">["workflows"][number];
export type QueueInfo = ResponseOf<"queues.list">["queues"][number];
export type WorkerInfo = ResponseOf<"workers.list">["workers"][number];
export type ScheduleInfo = ResponseOf<"schedules.list">["schedules"][number];
export type Health = ResponseOf<"health">;
