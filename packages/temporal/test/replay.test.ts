// Replay of histories in which nothing was computed yet, and of search attributes.
// Owns: nothing.

import { signal, workflow } from "@holdfast/core";
import { replay } from "holdfast";
import { expect, test } from "vitest";

const wait = workflow({ name: "wait", signals: { go: signal() } }, (ctx) => ctx.waitForSignal("go"));
const started = {
  eventId: "1",
  eventTime: "2026-11-17T12:00:00Z",
  eventType: "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED",
  workflowExecutionStartedEventAttributes: {
    workflowType: { name: "wait" },
    taskQueue: { name: "queue" },
    originalExecutionRunId: "6b7f8a52-5a0e-4c58-9a3a-0a3c7d9a3a55",
    firstWorkflowTaskBackoff: "1s",
  },
};
const signaled = {
  eventId: "2",
  eventTime: "2026-11-17T12:00:00.1Z",
  eventType: "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED",
  workflowExecutionSignaledEventAttributes: { signalName: "go" },
};

test("Y5 an execution that continues another and has no task yet replays", async () => {
  await replay(wait, { events: [started] });
  await replay(wait, { events: [started, signaled] });
});
test("Y5 the workflow is compared even so", async () => {
  const other = workflow("other", async () => 1);
  await expect(replay(other, { events: [started] })).rejects.toThrow('The history belongs to workflow "wait", the code to "other".');
});

const effect = workflow({ name: "wait", signals: { go: signal() } }, async (ctx) => {
  await ctx.sideEffect(() => 1);
  return ctx.waitForSignal("go");
});
const local = workflow({ name: "wait", signals: { go: signal() } }, async (ctx) => {
  await ctx.step("extra", () => 1, { local: true });
  return ctx.waitForSignal("go");
});
/** A task without commands that took `seconds` of its ten, and what followed. */
function waitingEvents(seconds: number, ...following: object[]): object[] {
  const scheduled = {
    eventType: "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED",
    workflowTaskScheduledEventAttributes: { taskQueue: { name: "queue" }, attempt: 1, startToCloseTimeout: "10s" },
  };
  const events = [
    {
      ...started,
      workflowExecutionStartedEventAttributes: { ...started.workflowExecutionStartedEventAttributes, firstWorkflowTaskBackoff: "0s" },
    },
    scheduled,
    { eventType: "EVENT_TYPE_WORKFLOW_TASK_STARTED", workflowTaskStartedEventAttributes: { scheduledEventId: "2" } },
    {
      eventType: "EVENT_TYPE_WORKFLOW_TASK_COMPLETED",
      eventTime: new Date(Date.UTC(2026, 10, 17, 12) + seconds * 1_000).toISOString(),
      workflowTaskCompletedEventAttributes: { scheduledEventId: "2", startedEventId: "3" },
    },
    ...following,
    ...(following.length === 0
      ? []
      : [
          scheduled,
          {
            eventType: "EVENT_TYPE_WORKFLOW_TASK_STARTED",
            workflowTaskStartedEventAttributes: { scheduledEventId: String(5 + following.length) },
          },
        ]),
  ];
  return events.map((event, i) => ({ eventTime: "2026-11-17T12:00:00Z", ...event, eventId: String(i + 1) }));
}
test.each([
  ["a side effect", effect, "sideEffect"],
  ["a local step", local, "extra"],
])("Y2 %s that history does not have is noticed at its end, too", async (_, code, name) => {
  const found = { code: "HF_NONDETERMINISM", expected: undefined, actual: expect.stringContaining(name) };
  await expect(replay(code, { events: waitingEvents(0.1) })).rejects.toMatchObject(found);
  await expect(replay(code, { events: waitingEvents(0.1, signaled) })).rejects.toMatchObject(found);
});
test("Y2 one that was in progress when its task was prolonged is not: it is recorded later", async () => {
  await replay(effect, { events: waitingEvents(8) });
});

test("Y5 a history whose header can't be read is an error, and the next one is replayed all the same", async () => {
  const data = Buffer.from(JSON.stringify({ openUpdates: 5 })).toString("base64");
  const fields = { holdfast: { metadata: { encoding: "anNvbi9wbGFpbg==" }, data } };
  const [first, ...rest] = waitingEvents(0.1) as [typeof started, ...object[]];
  const attributes = { ...first.workflowExecutionStartedEventAttributes, header: { fields } };
  const damaged = { ...first, workflowExecutionStartedEventAttributes: attributes };
  await expect(replay(wait, { events: [damaged, ...rest] })).rejects.toThrow("not iterable");
  await replay(wait, { events: waitingEvents(0.1) });
});

const colored = workflow({ name: "wait", signals: { go: signal() } }, (ctx) => {
  ctx.setAttributes({ color: "red" });
  return ctx.sleep("1s");
});
const FIELDS = { Color: { metadata: { encoding: "anNvbi9wbGFpbg==", type: "S2V5d29yZA==" }, data: "InJlZCI=" } };
/** The first task of `colored`; `fields`: the search attributes that it has set. */
function coloredEvents(fields: object | undefined): object[] {
  const events = [
    {
      ...started,
      workflowExecutionStartedEventAttributes: { ...started.workflowExecutionStartedEventAttributes, firstWorkflowTaskBackoff: "0s" },
    },
    { eventType: "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED", workflowTaskScheduledEventAttributes: { taskQueue: { name: "queue" }, attempt: 1 } },
    { eventType: "EVENT_TYPE_WORKFLOW_TASK_STARTED", workflowTaskStartedEventAttributes: { scheduledEventId: "2" } },
    {
      eventType: "EVENT_TYPE_WORKFLOW_TASK_COMPLETED",
      workflowTaskCompletedEventAttributes: { scheduledEventId: "2", startedEventId: "3" },
    },
    ...(fields === undefined
      ? []
      : [
          {
            eventType: "EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
            upsertWorkflowSearchAttributesEventAttributes: {
              workflowTaskCompletedEventId: "4",
              searchAttributes: { indexedFields: fields },
            },
          },
        ]),
    {
      eventType: "EVENT_TYPE_TIMER_STARTED",
      userMetadata: { summary: { metadata: { encoding: "anNvbi9wbGFpbg==" }, data: "InNsZWVwIg==" } },
      timerStartedEventAttributes: { timerId: "1", startToFireTimeout: "1s", workflowTaskCompletedEventId: "4" },
    },
    {
      eventType: "EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED",
      workflowPropertiesModifiedEventAttributes: { workflowTaskCompletedEventId: "4" },
    },
    { eventType: "EVENT_TYPE_TIMER_FIRED", timerFiredEventAttributes: { timerId: "1", startedEventId: fields === undefined ? "5" : "6" } },
    { eventType: "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED", workflowTaskScheduledEventAttributes: { taskQueue: { name: "queue" }, attempt: 1 } },
    {
      eventType: "EVENT_TYPE_WORKFLOW_TASK_STARTED",
      workflowTaskStartedEventAttributes: { scheduledEventId: fields === undefined ? "8" : "9" },
    },
  ];
  return events.map((event, i) => ({ ...event, eventId: String(i + 1), eventTime: "2026-11-17T12:00:00Z" }));
}

test("Y2 search attributes are set again where history has set them, whatever is registered now and under which name", async () => {
  await replay(colored, { events: coloredEvents(undefined) });
  await replay(colored, { events: coloredEvents(FIELDS) });
  await replay(colored, { events: coloredEvents({ color: FIELDS.Color }) });
});
