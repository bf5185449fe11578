// Operations from Temporal's events: retries on other queues, tasks given back, side effects, and workflows of other SDKs.

import { jsonCodec } from "@holdfast/core";
import { expect, test } from "vitest";
import type { HistoryEvent } from "../src/bridge.ts";
import { OperationLog } from "../src/client/operationLog.ts";
import { toFailure } from "../src/failures.ts";
import { headerOf } from "../src/headers.ts";
import { jsonPayload, Payloads, returnedPayload } from "../src/payloads.ts";
import { durationOf } from "../src/proto.ts";

type Event = Omit<HistoryEvent, "eventId" | "eventTime">;
/** Numbered from 1, one a second. */
function logOf(...events: Event[]): OperationLog {
  const log = new OperationLog(new Payloads(jsonCodec));
  for (const [i, event] of events.entries())
    log.add({ ...event, eventId: i + 1, eventTime: durationOf((i + 1) * 1_000) } as unknown as HistoryEvent);
  return log;
}
const summary = (text: string): Event => ({ userMetadata: { summary: jsonPayload(text) } });
const scheduled = (seq: number, location: string, before = 0): Event => ({
  ...summary(`step ${location}`),
  activityTaskScheduledEventAttributes: {
    activityId: location,
    activityType: { name: "holdfast.step" },
    header: { fields: headerOf({ seq, before, key: location }) },
  },
});
const started = (scheduledEventId: number, attempt: number, identity = "w1"): Event =>
  ({ activityTaskStartedEventAttributes: { scheduledEventId, attempt, identity } }) as unknown as Event;
const completed = (scheduledEventId: number, payload: unknown): Event =>
  ({ activityTaskCompletedEventAttributes: { scheduledEventId, result: { payloads: [payload] } } }) as unknown as Event;

test("D12: a step that was scheduled on another queue is one operation, with its attempts numbered through", () => {
  const log = logOf(
    scheduled(7, "charge"),
    {
      activityTaskTimedOutEventAttributes: { scheduledEventId: 1, failure: { timeoutFailureInfo: { timeoutType: 2 } } },
    } as unknown as Event,
    scheduled(7, "charge", 2),
    started(3, 1, "w2"),
    completed(3, jsonPayload({ paid: true })),
  );
  expect(log.list(undefined)).toMatchObject([
    {
      location: "charge",
      kind: "step",
      status: "completed",
      output: { paid: true },
      error: undefined,
      scheduledAt: new Date(1_000),
      endedAt: new Date(5_000),
      attempts: [{ number: 3, status: "completed", workerId: "w2", startedAt: new Date(4_000), endedAt: new Date(5_000) }],
    },
  ]);
});
test("D12: a task that was given back is not an attempt, and the operation is open", () => {
  const log = logOf(scheduled(1, "charge"), started(1, 1), completed(1, returnedPayload({ why: "declined", before: 0 })), {
    ...summary("another worker for charge"),
    timerStartedEventAttributes: { timerId: "9", startToFireTimeout: durationOf(1_000) },
  });
  expect(log.list(undefined)).toMatchObject([{ location: "charge", status: "scheduled", endedAt: undefined, attempts: [] }]);
  expect(log.waitingFor()).toEqual(["step charge"]);
});
test("a failed step has the error of its body, a canceled one is abandoned, a canceled activity is canceled", () => {
  const failure = toFailure({ name: "TypeError", message: "no" }, jsonCodec);
  const log = logOf(
    scheduled(1, "a"),
    started(1, 2),
    { activityTaskFailedEventAttributes: { scheduledEventId: 1, failure } } as unknown as Event,
    scheduled(2, "b"),
    { activityTaskCanceledEventAttributes: { scheduledEventId: 4 } } as unknown as Event,
    {
      ...summary("activity mail"),
      activityTaskScheduledEventAttributes: {
        activityId: "mail",
        activityType: { name: "mail" },
        input: { payloads: [jsonPayload({ to: "x" })] },
      },
    },
    { activityTaskCanceledEventAttributes: { scheduledEventId: 6 } } as unknown as Event,
  );
  expect(log.list(undefined)).toMatchObject([
    {
      location: "a",
      status: "failed",
      error: { name: "TypeError" },
      attempts: [{ number: 2, status: "failed", error: { name: "TypeError" } }],
    },
    { location: "b", status: "abandoned" },
    { location: "mail", kind: "activity", status: "canceled", input: { to: "x" } },
  ]);
});
test("side effects, patches and timeouts of waits", () => {
  const marker = (name: string, details: Record<string, unknown>): Event => ({
    markerRecordedEventAttributes: {
      markerName: name,
      details: Object.fromEntries(Object.entries(details).map(([key, value]) => [key, { payloads: [jsonPayload(value)] }])),
    },
  });
  const log = logOf(
    {
      ...summary("sideEffect now"),
      ...marker("core_local_activity", { data: { activity_id: "now", activity_type: "holdfast.sideEffect", attempt: 1 }, result: 42 }),
    },
    marker("core_patch", { "patch-data": { id: "a%40b@loop/~1" } }),
    { ...summary("signal loop/~1/approve"), timerStartedEventAttributes: { timerId: "3", startToFireTimeout: durationOf(60_000) } },
    { timerCanceledEventAttributes: { startedEventId: 3 } } as unknown as Event,
    { ...summary("sleep sleep"), timerStartedEventAttributes: { timerId: "5", startToFireTimeout: durationOf(60_000) } },
    { ...summary("deadline"), timerStartedEventAttributes: { timerId: "6", startToFireTimeout: durationOf(60_000) } },
  );
  expect(log.waitingFor()).toEqual(["sleep until 1970-01-01T00:01:05.000Z"]);
  expect(log.list(undefined)).toMatchObject([
    { location: "now", kind: "sideEffect", status: "completed", output: 42, attempts: [] },
    { location: "loop/~1/a@b", unit: "loop/~1", name: "a@b", kind: "patch", status: "completed" },
    { location: "loop/~1/approve", unit: "loop/~1", kind: "signal", status: "completed", endedAt: new Date(4_000) },
    { location: "sleep", kind: "sleep", status: "waiting" },
  ]);
});
test("workflows of other SDKs have operations too", () => {
  const log = logOf(
    { activityTaskScheduledEventAttributes: { activityId: "1", activityType: { name: "charge" } } },
    { timerStartedEventAttributes: { timerId: "2", startToFireTimeout: durationOf(1_000) } },
    { startChildWorkflowExecutionInitiatedEventAttributes: { workflowId: "child-1", workflowType: { name: "kid" } } } as unknown as Event,
    { timerFiredEventAttributes: { startedEventId: 2 } } as unknown as Event,
  );
  expect(log.list(undefined)).toMatchObject([
    { kind: "activity", location: "1", status: "scheduled" },
    { kind: "sleep", location: "timer 2", status: "completed" },
    { kind: "child", location: "child-1", childId: "child-1", status: "waiting" },
  ]);
  expect(log.list(9_000).map(({ status }) => status)).toEqual(["abandoned", "completed", "abandoned"]);
});

test("P11 D12: operations without a name of their own, alone and in a scope; the host's timers are none", () => {
  const timer = (text: string): Event => ({
    ...summary(text),
    timerStartedEventAttributes: { timerId: "9", startToFireTimeout: durationOf(60_000) },
  });
  const log = logOf(timer("sleep"), timer("parallel/~0/sleep#1"), timer("signal go"), timer("deadline"), timer("retry of a/~0/sideEffect"));
  expect(log.list(undefined)).toMatchObject([
    { location: "sleep", kind: "sleep", name: "sleep", unit: "" },
    { location: "parallel/~0/sleep#1", kind: "sleep", name: "sleep", unit: "parallel/~0" },
    { location: "go", kind: "signal", name: "go" },
  ]);
  expect(log.waitingFor()).toEqual([
    "sleep until 1970-01-01T00:01:01.000Z",
    "parallel/~0/sleep#1 until 1970-01-01T00:01:02.000Z",
    "signal go until 1970-01-01T00:01:03.000Z",
  ]);
});
