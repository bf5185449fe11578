// Reading runs on a real server: snapshots, descriptions, operations, histories, lists and counts.

import { randomUUID } from "node:crypto";
import { CanceledError, type Codec, FatalError, jsonCodec, serializeError, UnsupportedError } from "@holdfast/core";
import { expect, test } from "vitest";
import type { CoreCommand } from "../../../src/bridge.ts";
import { toFailure } from "../../../src/failures.ts";
import { headerOf } from "../../../src/headers.ts";
import { downloadHistory } from "../../../src/history.ts";
import { memoFields } from "../../../src/memo.ts";
import { jsonPayload } from "../../../src/payloads.ts";
import { api, durationOf, msOf } from "../../../src/proto.ts";
import { completeWith, encode, failureOf, payloads, type Script, signalOf, startOf, withServer } from "../scripted.ts";

const { WorkflowTaskFailedCause } = api.api.enums.v1;

const summary = (text: string): Pick<CoreCommand, "userMetadata"> => ({ userMetadata: { summary: jsonPayload(text) } });
/** On a queue that no worker serves. */
const step = (seq: number, location: string, header = {}): CoreCommand => ({
  ...summary(`step ${location}`),
  scheduleActivity: {
    seq,
    activityId: location,
    activityType: "holdfast.step",
    taskQueue: "no-worker",
    startToCloseTimeout: durationOf(60_000),
    headers: headerOf({ seq, key: location, ...header }),
  },
});

const busy: Script = ({ initializeWorkflow: start }) => {
  if (!start) return undefined;
  return [
    step(1, "checkout/~3/charge#1"),
    { ...summary("sleep nap"), startTimer: { seq: 2, startToFireTimeout: durationOf(3_600_000) } },
    { ...summary("signal approve"), startTimer: { seq: 3, startToFireTimeout: durationOf(3_600_000) } },
    { ...summary("deadline"), startTimer: { seq: 4, startToFireTimeout: durationOf(3_600_000) } },
    {
      ...summary("child ship"),
      startChildWorkflowExecution: {
        seq: 5,
        namespace: "default",
        workflowId: `${start.workflowId}-child`,
        workflowType: "idle",
        taskQueue: "no-worker",
        input: [payloads.toTemporal(encode({ parcel: 1 }))],
      },
    },
    { setPatchMarker: { patchId: "fix@checkout" } },
    {
      modifyWorkflowProperties: {
        upsertedMemo: { fields: memoFields({ state: payloads.toTemporal(encode({ at: 1 })), attributes: { a: 1 } }) },
      },
    },
  ];
};
const idle: Script = () => undefined;
const ends: Script = ({ initializeWorkflow: start, cancelWorkflow: cancel }, { state }) => {
  if (start) state["how"] = jsonCodec.decode(payloads.first(start.arguments));
  const { how } = state as { readonly how: { readonly how: string } };
  if (cancel) {
    const details = { reason: cancel.reason, value: { half: true }, error: serializeError(new CanceledError(cancel.reason ?? undefined)) };
    return [{ cancelWorkflowExecution: { details: { payloads: [jsonPayload(details)] } } } as CoreCommand];
  }
  if (!start) return undefined;
  if (how.how === "complete") return completeWith(undefined);
  if (how.how === "fail")
    return [{ failWorkflowExecution: { failure: failureOf(new FatalError("broken", { cause: new TypeError("inner"), data: { n: 1 } })) } }];
  return undefined;
};
const chain: Script = ({ initializeWorkflow: start }) => {
  if (!start) return undefined;
  const n = jsonCodec.decode(payloads.first(start.arguments)) as number;
  if (n >= 2) return completeWith(n);
  const header = headerOf({ execution: n + 2, createdAt: 1_700_000_000_000 });
  return [{ continueAsNewWorkflowExecution: { workflowType: "chain", arguments: [payloads.toTemporal(encode(n + 1))], headers: header } }];
};
const again: Script = ({ initializeWorkflow: start }) =>
  start ? [{ failWorkflowExecution: { failure: failureOf(new TypeError(`attempt ${start.attempt}`)) } }] : undefined;
const broken: Script = ({ initializeWorkflow }) => (initializeWorkflow ? { fails: "History has another operation here." } : undefined);
const carried: Script = ({ initializeWorkflow: start }, { state }) => {
  if (!start) return undefined;
  if ((start.attempt ?? 1) > 0 && start.continuedFromExecutionRunId !== "") return undefined;
  state["done"] = true;
  const data = new TextEncoder().encode(JSON.stringify({ holdfast: 1, input: { original: true }, turns: [] }));
  const envelope = { metadata: { encoding: new TextEncoder().encode("json/holdfast-turns") }, data };
  return [{ continueAsNewWorkflowExecution: { workflowType: "carried", arguments: [envelope] } }];
};

/** Readable for no one without it. */
const reversed: Codec = {
  encode: (value) => `~${[...String(jsonCodec.encode(value))].reverse().join("")}`,
  decode: (data) => jsonCodec.decode([...String(data).slice(1)].reverse().join("")),
};

withServer("reading runs", { busy, idle, ends, chain, again, broken, carried }, (bench) => {
  const started = async (workflow: string, more = {}): Promise<string> => {
    const { client, id } = bench();
    const runId = id();
    const [answer] = await client.create([startOf(runId, workflow, more)]);
    expect(answer).toEqual({ status: "created", id: runId });
    return runId;
  };
  const status = async (runId: string) => (await bench().client.get([runId]))[0]?.status;

  test("M11 P11: a snapshot of an open run", async () => {
    const { client } = bench();
    const runId = await started("busy", {
      version: "7",
      input: encode([1]),
      attributes: { x: "y" },
      deadlineAt: 4_000_000_000_000,
      priority: 9,
    });
    await expect.poll(() => status(runId)).toBe("running"); // a step waits for a worker
    const [run] = await client.get([runId]);
    expect(run).toMatchObject({
      id: runId,
      workflow: "busy",
      version: "7",
      queue: "default",
      priority: 9,
      input: encode([1]),
      output: undefined,
      error: undefined,
      state: encode({ at: 1 }),
      attributes: { a: 1 },
      execution: 1,
      attempt: 1,
      parent: undefined,
      deadlineAt: 4_000_000_000_000,
      finishedAt: undefined,
    });
    expect(run?.startedAt).toBe(run?.createdAt);
    expect(Math.abs((run?.createdAt ?? 0) - Date.now())).toBeLessThan(60_000);
    const [child] = await client.get([`${runId}-child`]);
    expect(child).toMatchObject({ workflow: "idle", status: "pending", parent: { runId }, queue: "no-worker", startedAt: undefined });
    await client.terminate(runId, undefined);
  });
  test("P11: a description says what an open run waits for", async () => {
    const { client } = bench();
    const runId = await started("busy");
    await expect.poll(() => status(runId)).toBe("running");
    const run = await client.describe(runId);
    expect(run?.waitingFor).toEqual([
      "step checkout/~3/charge#1",
      expect.stringMatching(/^sleep nap until 20/),
      expect.stringMatching(/^signal approve until 20/),
      "child ship",
    ]);
    await client.terminate(runId, undefined);
    expect(await client.describe(runId)).toMatchObject({ status: "terminated", waitingFor: [] });
  });
  test("P11: a run without a worker, a delayed run, and one that waits for messages", async () => {
    const { client, id } = bench();
    const lost = await started("idle", { queue: `no-worker-${id()}` });
    await expect
      .poll(async () => (await client.describe(lost))?.waitingFor)
      .toEqual([expect.stringMatching(/^no worker asks for tasks of queue "no-worker-/)]);
    const delayed = await started("idle", { delay: 600_000 });
    expect(await client.describe(delayed)).toMatchObject({ status: "pending", waitingFor: [expect.stringMatching(/^start at 20/)] });
    const waiting = await started("idle");
    await expect.poll(() => status(waiting)).toBe("sleeping");
    expect((await client.describe(waiting))?.waitingFor).toEqual(["a signal or update"]);
  });
  test("D12: operations with their places, kinds and attempts; those of a closed run are abandoned", async () => {
    const { client } = bench();
    const runId = await started("busy");
    await expect.poll(() => status(runId)).toBe("running");
    const [run] = await client.get([runId]);
    if (run === undefined) throw new Error("It exists.");
    const open = await client.operations(run);
    expect(open).toMatchObject([
      { location: "checkout/~3/charge#1", unit: "checkout/~3", kind: "step", name: "charge", status: "scheduled", attempts: [] },
      { location: "nap", unit: "", kind: "sleep", name: "nap", status: "waiting" },
      { location: "approve", kind: "signal", status: "waiting" },
      { location: "ship", kind: "child", status: "waiting", childId: `${runId}-child`, input: { parcel: 1 } },
      { location: "checkout/fix", unit: "checkout", kind: "patch", name: "fix", status: "completed" },
    ]);
    await client.terminate(runId, undefined);
    const closed = await client.operations(run);
    expect(closed.map((one) => one.status)).toEqual(["abandoned", "abandoned", "abandoned", "abandoned", "completed"]);
  });
  test("D12: the attempt of a step that runs, and the failure of one that is tried again", async () => {
    const { client, connection } = bench();
    const runId = await started("busy");
    await expect.poll(() => status(runId)).toBe("running");
    const worker = connection.newWorker({
      identity: "step-worker",
      queue: "no-worker",
      workflows: false,
      activities: true,
      workflowSlots: 2,
      activitySlots: 5,
      cachedRuns: 0,
      gracePeriod: 0,
      heartbeatInterval: 1_000,
      stickyTimeout: 1_000,
    });
    let task = await worker.nextActivityTask();
    while (task?.start?.workflowExecution?.workflowId !== runId) task = await worker.nextActivityTask(); // those of other tests
    const [run] = await client.get([runId]);
    if (run === undefined) throw new Error("It exists.");
    expect(run).toMatchObject({ status: "running", workerId: "step-worker" });
    expect((await client.operations(run))[0]).toMatchObject({
      status: "running",
      attempts: [{ number: 1, status: "running", workerId: "step-worker", endedAt: undefined }],
    });
    const failure = toFailure({ name: "TypeError", message: "no route" }, jsonCodec, { nextRetryDelay: 3_600_000 });
    await worker.completeActivity({ taskToken: task.taskToken ?? new Uint8Array(0), result: { failed: { failure } } });
    await expect.poll(() => status(runId)).toBe("sleeping");
    const description = await client.describe(runId);
    expect(description?.waitingFor[0]).toMatch(/^step checkout\/~3\/charge#1 \(attempt 2 at 20/);
    expect(description?.error).toMatchObject({ name: "TypeError", message: "no route" });
    expect((await client.operations(run))[0]).toMatchObject({
      status: "scheduled",
      error: { message: "no route" },
      attempts: [{ number: 1, status: "failed", error: { message: "no route" } }],
    });
    await client.terminate(runId, undefined);
    worker.initiateShutdown();
    while ((await worker.nextActivityTask()) !== undefined);
    await worker.finalizeShutdown();
  });

  test("P1: the ends of runs", async () => {
    const { client } = bench();
    const complete = await started("ends", { input: encode({ how: "complete" }) });
    expect(await client.ended(complete, {})).toEqual({ id: complete, status: "completed", output: encode(undefined), error: undefined });
    const fail = await started("ends", { input: encode({ how: "fail" }) });
    const failed = {
      status: "failed",
      resumable: false,
      error: { name: "FatalError", message: expect.stringContaining("broken"), cause: { name: "TypeError", message: "inner" } },
    };
    expect(await client.ended(fail, {})).toMatchObject(failed);
    expect(await client.get([fail])).toMatchObject([failed]);
    const cancel = await started("ends", { input: encode({ how: "wait" }) });
    await client.send({ runId: cancel, workflow: undefined, message: { job: { type: "cancel", reason: "late" } } });
    const canceled = { status: "canceled", output: encode({ half: true }), error: { name: "CanceledError", data: { reason: "late" } } };
    expect(await client.ended(cancel, {})).toMatchObject(canceled);
    const [run] = await client.get([cancel]);
    expect(run).toMatchObject(canceled);
    expect(run?.finishedAt).toBeGreaterThanOrEqual(run?.createdAt ?? Number.POSITIVE_INFINITY);
    expect(await client.send({ runId: cancel, workflow: undefined, message: { job: { type: "cancel" } } })).toEqual({
      status: "duplicate",
    });
  });
  test("P10: the end, the input and the number are those of the newest execution", async () => {
    const { client } = bench();
    const runId = await started("chain", { input: encode(0) });
    expect(await client.ended(runId, {})).toMatchObject({ status: "completed", output: encode(2) });
    expect(await client.get([runId])).toMatchObject([{ execution: 3, input: encode(2), createdAt: 1_700_000_000_000 }]);
  });
  test("P10: the input of a run that carries its turns is the run's own", async () => {
    const { client } = bench();
    const runId = await started("carried");
    await expect.poll(async () => (await client.get([runId]))[0]?.input).toBe(encode({ original: true }));
    await client.terminate(runId, undefined);
  });
  test("D10: Temporal's retries of a run are attempts of one run", async () => {
    const { client } = bench();
    const runId = await started("again", { retry: { maxAttempts: 2, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 } });
    const { service, namespace } = bench().connection;
    const { workflowExecutionInfo: first } = await service.describeWorkflowExecution({ namespace, execution: { workflowId: runId } });
    expect(await client.ended(runId, {})).toMatchObject({ status: "failed", error: { message: "attempt 2" } });
    const { history } = await service.getWorkflowExecutionHistory({
      namespace,
      execution: { workflowId: runId, runId: first?.firstRunId ?? "" },
    });
    const createdAt = msOf(history?.events?.[0]?.eventTime ?? {});
    expect(await client.get([runId])).toMatchObject([{ attempt: 2, execution: 1, createdAt }]);
  });
  /** A worker of another SDK whose first task ends like this. */
  const failedWith = async (cause: number): Promise<string> => {
    const { connection, id } = bench();
    const { service, namespace } = connection;
    const queue = `by-hand-${id()}`;
    const runId = await started("idle", { queue });
    const { taskToken } = await service.pollWorkflowTaskQueue({ namespace, taskQueue: { name: queue }, identity: "by hand" });
    const failure = { message: "no", applicationFailureInfo: { type: "Error" } };
    await service.respondWorkflowTaskFailed({ namespace, taskToken, cause, failure, identity: "by hand" });
    return runId;
  };
  test.each([
    "UNHANDLED_COMMAND",
    "UNHANDLED_UPDATE",
    "RESET_STICKY_TASK_QUEUE",
    "FORCE_CLOSE_COMMAND",
    "FAILOVER_CLOSE_COMMAND",
    "RESET_WORKFLOW",
  ] as const)("V4: a task that the server ended with %s does not block its run", async (name) => {
    const cause = WorkflowTaskFailedCause[`WORKFLOW_TASK_FAILED_CAUSE_${name}`];
    const runId = await failedWith(cause);
    const { events } = await downloadHistory(bench().connection, runId, "");
    const recorded = events?.findLast((event) => event.workflowTaskFailedEventAttributes);
    expect(recorded?.workflowTaskFailedEventAttributes?.cause).toBe(cause);
    expect(await status(runId)).not.toBe("blocked");
    await bench().client.terminate(runId, undefined);
  });
  test("V4: one that the worker failed does", async () => {
    const runId = await failedWith(WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE);
    expect(await status(runId)).toBe("blocked");
    await bench().client.terminate(runId, undefined);
  });
  test("V4: a blocked run says why, to those who read and to those who wait", async () => {
    const { client } = bench();
    const runId = await started("broken");
    const blocked = { status: "blocked", error: { name: "NondeterminismError", message: "History has another operation here." } };
    expect(await client.ended(runId, {})).toMatchObject(blocked);
    expect(await client.get([runId])).toMatchObject([blocked]);
    expect((await client.describe(runId))?.waitingFor).toEqual([expect.stringContaining("NondeterminismError")]);
    for (let i = 0; i < 120; i++) await client.send({ runId, workflow: undefined, message: signalOf("more") });
    expect(await client.get([runId])).toMatchObject([blocked]);
    expect(await client.resume(runId)).toBe("resumed");
    await client.terminate(runId, undefined);
  });
  test("waiting ends with the caller's time, which names what the run waits for, or with its signal", async () => {
    const { client } = bench();
    const runId = await started("idle");
    await expect.poll(() => status(runId)).toBe("sleeping");
    await expect(client.ended(runId, { timeout: 50 })).rejects.toThrow("waits for: a signal or update");
    const abort = new AbortController();
    const waiting = client.ended(runId, { signal: abort.signal });
    abort.abort(new RangeError("enough"));
    await expect(waiting).rejects.toThrow(RangeError);
    await expect(client.ended(runId, { signal: abort.signal })).rejects.toThrow(RangeError);
  });
  test("D10: resume wakes open runs; a failed run names the way out", async () => {
    const { client } = bench();
    const runId = await started("idle");
    await expect.poll(() => status(runId)).toBe("sleeping");
    expect(await client.resume(runId)).toBe("woken");
    await client.terminate(runId, undefined);
    expect(await client.resume(runId)).toBe("not-resumable");
    const fail = await started("ends", { input: encode({ how: "fail" }) });
    await client.ended(fail, {});
    await expect(client.resume(fail)).rejects.toThrow("temporal workflow reset");
  });
  test("E1: with a codec of the user, the server has neither values nor reasons in plain text", async () => {
    const { newClient, connection, id } = bench();
    const client = newClient({ codec: reversed });
    const runId = id();
    await client.create([startOf(runId, "idle", { input: reversed.encode("secret-input") })]);
    await client.send({ runId, workflow: undefined, message: signalOf("s") });
    await client.terminate(runId, "secret-reason");
    const { service, namespace } = connection;
    const { history } = await service.getWorkflowExecutionHistory({ namespace, execution: { workflowId: runId } });
    const bytes = Buffer.from(api.api.history.v1.History.encode(history ?? {}).finish()).toString("latin1");
    expect(bytes).not.toContain("secret");
    const [run] = await client.get([runId]);
    expect(reversed.decode(run?.input ?? "")).toBe("secret-input");
    expect(run?.error).toMatchObject({ data: { reason: "secret-reason" } });
  });
  test("Y5: a portable history is what Temporal's own tools write", async () => {
    const { client } = bench();
    const runId = await started("ends", { input: encode({ how: "complete" }), version: "3" });
    await client.ended(runId, {});
    const [run] = await client.get([runId]);
    if (run === undefined) throw new Error("It exists.");
    const history = await client.history(run);
    expect(history).toMatchObject({
      format: "temporal-history/1",
      run: { id: runId, workflow: "ends", version: "3", input: { how: "complete" }, status: "completed" },
      turns: [
        { eventId: "1", eventType: "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED", eventTime: expect.stringMatching(/^20.*Z$/) },
        {},
        {},
        {},
        {},
      ],
    });
    expect(JSON.parse(JSON.stringify(history))).toEqual(history);
    const { default: common } = await import("@temporalio/common/lib/proto-utils.js");
    const { service, namespace } = bench().connection;
    const { history: original } = await service.getWorkflowExecutionHistory({ namespace, execution: { workflowId: runId } });
    const { History } = api.api.history.v1;
    const again = common.historyFromJSON({ events: history.turns });
    expect(Buffer.from(History.encode(again).finish()).equals(History.encode(original ?? {}).finish())).toBe(true);
  });
  test("a deleted run is gone; an open one is not deleted", async () => {
    const { client } = bench();
    const runId = await started("idle");
    expect(await client.delete(runId)).toBe("open");
    await client.terminate(runId, undefined);
    expect(await client.delete(runId)).toBe("deleted");
    await expect.poll(() => client.get([runId]), { timeout: 60_000, interval: 500 }).toEqual([undefined]);
    expect(await client.delete(runId)).toBe("not-found");
  }, 70_000);

  test("lists and counts by workflow, status, queue, parent, time and registered attributes", async () => {
    const { client, connection, newClient, id } = bench();
    const names = { HoldfastCustomer: "KEYWORD", HoldfastAmount: "DOUBLE", HoldfastVip: "BOOL", HoldfastNote: "TEXT" } as const;
    const types = api.api.enums.v1.IndexedValueType;
    const { customAttributes } = await connection.operator.listSearchAttributes({ namespace: "default" });
    const missing = Object.entries(names).filter(([name]) => customAttributes[name] === undefined);
    if (missing.length > 0)
      await connection.operator.addSearchAttributes({
        namespace: "default",
        searchAttributes: Object.fromEntries(missing.map(([name, type]) => [name, types[`INDEXED_VALUE_TYPE_${type}`]])),
      });
    const searching = newClient({ searchAttributes: new Map([["customer", "HoldfastCustomer"]]) });
    const queue = `queue-${id()}`;
    const customer = `o'brien "${randomUUID()}" \\ % é`;
    const attributes = { customer, HoldfastAmount: 1.5, HoldfastVip: true, HoldfastNote: "some words", plain: 1 };
    const first = id();
    const second = id();
    await searching.create([startOf(first, "idle", { queue, attributes })]);
    await searching.create([startOf(second, "busy", { queue, attributes: { customer: "someone else" }, input: encode("in") })]);
    const all = async (selection = {}) => (await searching.list({ queue, ...selection, limit: 10 })).runs.map((run) => run.id);
    await expect.poll(() => all(), { timeout: 50_000 }).toEqual([second, first]);
    expect(await all({ attributes: { customer } })).toEqual([first]);
    expect(await all({ attributes: { customer, HoldfastAmount: 1.5, HoldfastVip: true } })).toEqual([first]);
    expect(await all({ attributes: { HoldfastVip: false } })).toEqual([]);
    expect(await all({ workflow: "busy" })).toEqual([second]);
    expect(await all({ workflow: `" OR WorkflowType = "busy` })).toEqual([]);
    expect(await all({ workflow: ["busy", "idle", "none"] })).toEqual([second, first]);
    expect(await all({ workflow: [] })).toEqual([]);
    expect(await all({ idPrefix: first })).toEqual([first]);
    expect(await all({ idPrefix: `${first}x` })).toEqual([]);
    expect(await all({ attributes: { customer: { in: ["someone else", customer, "no one"] } } })).toEqual([second, first]);
    expect(await all({ attributes: { customer: { in: [] } } })).toEqual([]);
    expect(await all({ attributes: { customer: { prefix: "some" } } })).toEqual([second]);
    expect(await all({ attributes: { customer: { prefix: `o'brien "` } } })).toEqual([first]);
    expect(await all({ attributes: { HoldfastAmount: { gt: 1, lte: 1.5 } } })).toEqual([first]);
    expect(await all({ attributes: { HoldfastAmount: { gt: 1.5 } } })).toEqual([]);
    expect(await all({ attributes: { HoldfastAmount: { in: [1.5, 2] }, HoldfastVip: { in: [true] } } })).toEqual([first]);
    expect(await all({ parentId: first })).toEqual([]);
    const [{ createdAt = 0 } = {}] = await searching.get([second]);
    expect(await all({ since: createdAt })).toEqual([second]);
    expect(await all({ until: createdAt })).toEqual([first]);
    expect((await searching.list({ queue, limit: 10 })).runs[0]).toMatchObject({
      status: "running",
      input: encode("in"),
      attributes: { customer: "someone else" },
    });
    const page = await searching.list({ queue, limit: 1 });
    expect(page.runs).toHaveLength(1);
    const next = await searching.list({ queue, limit: 1, cursor: page.cursor });
    expect([...page.runs, ...next.runs].map((run) => run.id).sort()).toEqual([first, second].sort());
    await client.terminate(first, "over");
    await expect.poll(() => all({ status: ["terminated", "failed"] }), { timeout: 50_000 }).toEqual([first]);
    expect((await searching.list({ queue, status: ["terminated"], limit: 10 })).runs[0]).toMatchObject({
      status: "terminated",
      error: { name: "RunTerminatedError" },
    });
    expect(await all({ status: ["pending", "running", "sleeping", "blocked", "rolling_back"] })).toEqual([second]);
    expect(await all({ finishedSince: createdAt - 60_000 })).toEqual([first]);
    expect(await all({ finishedUntil: createdAt - 60_000 })).toEqual([]);
    expect(await all({ status: [] })).toEqual([]);
    await expect(searching.count({ queue, attributes: { customer } })).rejects.toThrow("quotes");
    expect(await searching.count({ queue })).toMatchObject({ running: 1, terminated: 1, completed: 0, failed: 0, capped: [] });
    for (const unsupported of [
      { status: ["blocked"] as const },
      { attributes: { plain: 1 } },
      { attributes: { HoldfastNote: "some" } },
      { attributes: { customer: 1 } },
      { attributes: { customer: { gt: "a" } } },
      { attributes: { customer: { in: ["a", 1] } } },
      { attributes: { plain: { prefix: "a" } } },
      { attributes: { HoldfastVip: { gt: 1 } } },
      { version: "1" },
      { key: "tenant" },
    ]) {
      await expect(searching.list({ ...unsupported, limit: 1 })).rejects.toThrow(UnsupportedError);
      await expect(searching.count(unsupported)).rejects.toThrow(UnsupportedError);
    }
    // The server reports a fault of its own for a token that it can't read, and Core repeats such a call for 10 s.
    const before = performance.now();
    for (const cursor of ["nonsense", "", `${page.cursor}x`, page.cursor?.slice(0, -4)])
      await expect(searching.list({ limit: 1, cursor })).rejects.toThrow(
        expect.objectContaining({ name: "InvalidInputError", message: expect.stringContaining("must be one that an earlier page gave") }),
      );
    expect(performance.now() - before).toBeLessThan(10_000);
    await client.terminate(second, undefined);
  }, 60_000);
  test("a run that continued or was tried again is listed once", async () => {
    const { client, id } = bench();
    const queue = bench().queue;
    const runId = await started("again", { retry: { maxAttempts: 2, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 } });
    await client.ended(runId, {});
    const other = await started("chain", { input: encode(1) });
    await client.ended(other, {});
    expect(id()).not.toBe(queue);
    const listed = async (workflow: string, one: string) =>
      (await client.list({ queue: "default", workflow, limit: 100 })).runs.filter((run) => run.id === one).map((run) => run.status);
    await expect.poll(() => listed("again", runId), { timeout: 50_000 }).toEqual(["failed"]);
    await expect.poll(() => listed("chain", other), { timeout: 50_000 }).toEqual(["completed"]);
  }, 60_000);
});
