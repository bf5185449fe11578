// How many attempts a lost worker has used up, from what its heartbeats said; and messages to runs that can't exist.

import { type Executor, jsonCodec, type OpeningCommand, type StepBody } from "@holdfast/core";
import { expect, test } from "vitest";
import type { CoreCommand } from "../src/bridge.ts";
import { activityHeader } from "../src/headers.ts";
import { jsonPayload, Payloads } from "../src/payloads.ts";
import { api } from "../src/proto.ts";
import { HeldOperations } from "../src/worker/heldOperations.ts";

const { TIMEOUT_TYPE_HEARTBEAT, TIMEOUT_TYPE_SCHEDULE_TO_START } = api.api.enums.v1.TimeoutType;
const command: OpeningCommand = { type: "step", seq: 1, unit: "", name: "charge", n: 0 };

function held(body?: StepBody): HeldOperations {
  return new HeldOperations({
    run: {
      workflowId: "run",
      execution: 1,
      namespace: "default",
      queue: "queue",
      urgency: {},
      lease: 1_000,
      deadlineAt: undefined,
      ownQueueWait: 1_000,
      payloads: new Payloads(jsonCodec),
      searchAttributes: () => undefined,
    },
    executor: { body: () => body } as unknown as Executor,
    ownQueue: "queue~worker",
    stepQueue: "queue~steps",
    deadlineAt: undefined,
  });
}

/** The number of the attempt that comes after a timeout, if the last heartbeat said this. */
function attemptAfter(timeoutType: number, beat: { readonly attempt: number; readonly isOver?: true } | undefined): number {
  const body = { kind: "step", name: "charge", run: () => undefined, retry: { maxAttempts: 10 } } as unknown as StepBody;
  const operations = held(body);
  operations.begin(0);
  operations.open(command, 0);
  operations.begin(1);
  const details = beat && { payloads: [jsonPayload(null), jsonPayload(beat)] };
  const job = operations.activityEnded({
    seq: 1,
    result: { failed: { failure: { timeoutFailureInfo: { timeoutType, ...(details && { lastHeartbeatDetails: details }) } } } },
  });
  expect(job).toBeUndefined();
  const [again] = operations.take() as [CoreCommand];
  expect(again.scheduleActivity).toMatchObject({ activityId: "charge", taskQueue: "queue~steps" });
  return (activityHeader(again.scheduleActivity?.headers)?.before ?? 0) + 1;
}

test("D7 a lost attempt counts, whether it has sent a heartbeat or not", () => {
  expect(attemptAfter(TIMEOUT_TYPE_HEARTBEAT, undefined)).toBe(2);
  expect(attemptAfter(TIMEOUT_TYPE_HEARTBEAT, { attempt: 3 })).toBe(4);
});
test("D1 D7 lost at the beginning of an attempt, after the attempt before had failed: the number is not used again", () => {
  expect(attemptAfter(TIMEOUT_TYPE_HEARTBEAT, { attempt: 3, isOver: true })).toBe(5);
});
test("D7 an attempt that no worker began does not count", () => {
  expect(attemptAfter(TIMEOUT_TYPE_SCHEDULE_TO_START, undefined)).toBe(1);
  expect(attemptAfter(TIMEOUT_TYPE_SCHEDULE_TO_START, { attempt: 3, isOver: true })).toBe(4);
});

test("D11 an activity that no worker began in time has had no attempt", () => {
  const operations = held();
  operations.begin(0);
  operations.open({ type: "activity", seq: 1, unit: "", name: "charge", n: 0, input: "1", scheduleToStart: 5 }, 0);
  const failure = { timeoutFailureInfo: { timeoutType: TIMEOUT_TYPE_SCHEDULE_TO_START } };
  expect(operations.activityEnded({ seq: 1, result: { failed: { failure } } })).toMatchObject({
    outcome: { status: "failed", attempts: 0 },
  });
});

test("Y2 an activity that is scheduled again has the options that were recorded with it, also where that is none", () => {
  const activity: OpeningCommand = { type: "activity", seq: 1, unit: "", name: "charge", n: 0, input: "1", startToClose: 5, queue: "new" };
  const operations = held();
  operations.recorded = { optionsOf: () => ({ retry: { maxAttempts: 7 } }) };
  operations.begin(0);
  operations.open(activity, 0);
  expect(operations.take()).toMatchObject([{ scheduleActivity: { taskQueue: "new" } }]); // as the code has it: history is compared with it
  operations.begin(1);
  operations.activityEnded({ seq: 1, result: { failed: { failure: { timeoutFailureInfo: { timeoutType: TIMEOUT_TYPE_HEARTBEAT } } } } });
  const [again] = operations.take() as [CoreCommand];
  expect(again.scheduleActivity).toMatchObject({ taskQueue: "queue", retryPolicy: { maximumAttempts: 6 } });
  expect(activityHeader(again.scheduleActivity?.headers)?.options).toEqual({ retry: { maxAttempts: 7 } });
});

test.each([["half \ud800"], ["x".repeat(1_200)], ["é".repeat(501)]])(
  "M12 a message to a run that can't exist: no such run, and nothing is sent",
  (runId) => {
    const operations = held();
    operations.begin(0);
    operations.open({ type: "signalRun", seq: 1, unit: "", name: "signalRun", n: 0, runId, signal: "go", payload: "1" }, 0);
    operations.open({ type: "cancelRun", seq: 2, unit: "", name: "cancelRun", n: 0, runId }, 0);
    expect(operations.take()).toEqual([]);
    const outcome = { status: "failed", error: expect.objectContaining({ name: "RunNotFoundError" }) };
    expect(operations.takeJobs()).toEqual([
      { type: "resolve", seq: 1, outcome },
      { type: "resolve", seq: 2, outcome },
    ]);
  },
);

test("V4 a name that the server would refuse with the whole task fails its operation, and nothing is sent", () => {
  const long = "é".repeat(501);
  const [unit, n] = ["", 0];
  const operations = held();
  operations.begin(0);
  operations.open({ type: "signalRun", seq: 1, unit, name: "signalRun", n, runId: "other", signal: long, payload: "1" }, 0);
  operations.open({ type: "child", seq: 2, unit, name: "pay", n, id: long, input: "1" }, 0);
  operations.open({ type: "child", seq: 3, unit, name: long, n, id: "pay-1", input: "1" }, 0);
  operations.open({ type: "activity", seq: 4, unit, name: "charge", n, input: "1", queue: long }, 0);
  operations.open({ type: "activity", seq: 5, unit, name: "half \ud800", n, input: "1" }, 0);
  expect(operations.take()).toEqual([]);
  const outcome = { status: "failed", error: expect.objectContaining({ name: "InvalidInputError" }) };
  expect(operations.takeJobs()).toEqual([1, 2, 3, 4, 5].map((seq) => ({ type: "resolve", seq, outcome })));
});

test("C7 the worker drops a local step that is cancelled: Core, which may just have got its outcome, is not asked", () => {
  const operations = held({ kind: "step", name: "charge", run: () => undefined, isLocal: true } as unknown as StepBody);
  operations.begin(0);
  operations.open(command, 0);
  expect(operations.take()).toMatchObject([{ scheduleLocalActivity: { seq: 1, activityId: "charge" } }]);
  operations.begin(1);
  operations.apply([{ type: "cancel", seq: 1 }], 1, () => {});
  expect(operations.take()).toEqual([]);
  expect(operations.canceled).toEqual([1]);
  expect(operations.activityEnded({ seq: 1, isLocal: true, result: { completed: {} } })).toBeUndefined();
});
