// Starting runs on a real server: ids, keys, conflicts, and what the first activation gets.

import { UnsupportedError } from "@holdfast/core";
import { expect, test } from "vitest";
import { messageHeader, startHeader } from "../../../src/headers.ts";
import { acceptAnd, completeWith, encode, payloads, type Script, signalOf, startOf, updateOf, withServer } from "../scripted.ts";

/** Ends with what the first activation contained. */
const first: Script = (job, { state }) => {
  const { initializeWorkflow: start, doUpdate } = job;
  if (start) {
    state["seen"] = { header: startHeader(start.headers), input: payloads.first(start.arguments), attributes: start.memo?.fields };
    return undefined;
  }
  if (doUpdate) return [...acceptAnd(job, { value: "replied" }), ...completeWith({ ...(state["seen"] as object), update: doUpdate.id })];
  return undefined;
};
const idle: Script = () => undefined;
const untilEnd: Script = ({ signalWorkflow }) => (signalWorkflow?.signalName === "end" ? completeWith("bye") : undefined);
const count: Script = ({ signalWorkflow: signal }, { state }) => {
  if (!signal) return undefined;
  if (signal.signalName === "end") return completeWith(state["keys"] ?? []);
  state["keys"] = [...((state["keys"] as unknown[]) ?? []), messageHeader(signal.headers).key ?? signal.signalName];
  return undefined;
};

withServer("starting runs", { first, idle, other: idle, untilEnd, count }, (bench) => {
  test("M3: a new id is created; a taken one is a conflict that names status and workflow", async () => {
    const { client, id } = bench();
    const runId = id();
    expect(await client.create([startOf(runId, "idle")])).toEqual([{ status: "created", id: runId }]);
    const conflict = { status: "conflict", id: runId, runStatus: "running", workflow: "idle" };
    expect(await client.create([startOf(runId, "idle")])).toEqual([conflict]);
    expect(await client.create([startOf(runId, "other", { onConflict: "use-existing" })])).toEqual([conflict]);
    expect(await client.create([startOf(runId, "other", { onConflict: "restart-if-closed" })])).toEqual([conflict]);
    expect(await client.create([startOf(runId, "idle", { onConflict: "use-existing" })])).toEqual([{ status: "existing", id: runId }]);
    await client.terminate(runId, undefined);
    expect(await client.create([startOf(runId, "idle")])).toEqual([{ ...conflict, runStatus: "terminated" }]);
    expect(await client.create([startOf(runId, "idle", { onConflict: "use-existing" })])).toEqual([{ status: "existing", id: runId }]);
  });
  test("many starts are answered in order, each by itself", async () => {
    const { client, id } = bench();
    const ids = Array.from({ length: 60 }, id);
    const taken = ids[30] ?? "";
    await client.create([startOf(taken, "idle")]);
    const answers = await client.create(ids.map((runId) => startOf(runId, "idle")));
    expect(answers.map((answer) => ("id" in answer ? answer.id : undefined))).toEqual(ids);
    expect(answers.map(({ status }) => status)).toEqual(ids.map((runId) => (runId === taken ? "conflict" : "created")));
  });
  test("an id that Temporal can't keep fails this start only", async () => {
    const { client, id } = bench();
    const good = id();
    const [long, other] = await client.create([startOf("é".repeat(512), "idle"), startOf(good, "idle")]);
    expect(long).toMatchObject({ status: "failed", error: { code: "HF_INVALID_INPUT" } });
    expect(other).toEqual({ status: "created", id: good });
  });
  test("M3: a key without an id makes the id, and finds the run again, also when it has closed", async () => {
    const { client, id } = bench();
    const key = id();
    const keyed = (workflow: string) => startOf(id(), workflow, { isIdGenerated: true, idempotencyKey: key });
    expect(await client.create([keyed("idle")])).toEqual([{ status: "created", id: `idle~${key}` }]);
    expect(await client.create([keyed("idle")])).toEqual([{ status: "existing", id: `idle~${key}` }]);
    expect(await client.create([keyed("other")])).toEqual([{ status: "created", id: `other~${key}` }]);
    await client.terminate(`idle~${key}`, undefined);
    expect(await client.create([keyed("idle")])).toEqual([{ status: "existing", id: `idle~${key}` }]);
  });
  test("M3: with an id and a key the id decides, and the same key is the same start", async () => {
    const { client, id } = bench();
    const runId = id();
    const start = startOf(runId, "idle", { idempotencyKey: "k", isIdGenerated: false });
    expect(await client.create([start])).toEqual([{ status: "created", id: runId }]);
    expect(await client.create([start])).toEqual([{ status: "existing", id: runId }]);
    expect(await client.create([{ ...start, idempotencyKey: "k2" }])).toMatchObject([{ status: "conflict" }]);
  });
  test("P10: restart-if-closed is the next execution of a closed run, and the existing run of an open one", async () => {
    const { client, id } = bench();
    const start = startOf(id(), "untilEnd", { onConflict: "restart-if-closed" });
    expect(await client.create([start])).toMatchObject([{ status: "created" }]);
    expect(await client.create([start])).toMatchObject([{ status: "existing" }]);
    await client.send({ runId: start.id, workflow: undefined, message: signalOf("end") });
    await client.ended(start.id, {});
    expect(await client.create([{ ...start, input: encode("again") }])).toMatchObject([{ status: "created" }]);
    const [run] = await client.get([start.id]);
    expect(run).toMatchObject({ execution: 2, input: encode("again"), finishedAt: undefined });
  });
  test("M8: the header has version, schema, deadline and signals; an update is in the first activation", async () => {
    const { client, id } = bench();
    const runId = id();
    const update = updateOf("u");
    const [answer] = await client.create([
      startOf(runId, "first", {
        version: "2",
        isChecked: false,
        deadline: 60_000,
        input: encode({ n: 7 }),
        messages: [signalOf("s", { a: 1 }), update],
      }),
    ]);
    expect(answer).toEqual({ status: "created", id: runId });
    const end = await client.ended(runId, {});
    expect(JSON.parse(end.output as string)).toMatchObject({
      header: { version: "2", isUnchecked: true, deadline: 60_000, signals: [{ name: "s", payload: '{"a":1}' }] },
      input: '{"n":7}',
      update: update.job.id,
    });
    // The update that came with the start has its outcome, after the end as well.
    expect(await client.update({ runId, workflow: undefined, message: update }, {})).toEqual({
      status: "completed",
      value: encode("replied"),
    });
  });
  test("M8: messages of a use-existing start go to the existing run; a closed one is a conflict", async () => {
    const { client, id } = bench();
    const start = startOf(id(), "count", { onConflict: "use-existing" });
    await client.create([start]);
    expect(await client.create([{ ...start, messages: [signalOf("a"), signalOf("b")] }])).toMatchObject([{ status: "existing" }]);
    await client.send({ runId: start.id, workflow: undefined, message: signalOf("end") });
    expect((await client.ended(start.id, {})).output).toBe(encode(["a", "b"]));
    expect(await client.create([{ ...start, messages: [signalOf("a")] }])).toEqual([
      { status: "conflict", id: start.id, runStatus: "completed", workflow: "count" },
    ]);
  });
  test("a start with an update does not wait for a worker", async () => {
    const { client, id } = bench();
    const start = startOf(id(), "idle", { queue: `no-worker-${id()}`, messages: [updateOf("u")] });
    expect(await client.create([start])).toEqual([{ status: "created", id: start.id }]);
    expect(await client.create([start])).toMatchObject([{ status: "conflict" }]);
  }, 15_000);
  test("a delayed run is pending until its time", async () => {
    const { client, id } = bench();
    const runId = id();
    await client.create([startOf(runId, "untilEnd", { delay: 60_000 })]);
    const [run] = await client.get([runId]);
    expect(run).toMatchObject({ status: "pending", startedAt: undefined });
    expect((run?.availableAt ?? 0) - (run?.createdAt ?? 0)).toBe(60_000);
    await client.terminate(runId, undefined);
  });
  test("Temporal retries a failed run by its policy", async () => {
    const { client, id } = bench();
    const runId = id();
    const retry = { maxAttempts: 3, initialInterval: 10, backoff: 2, maxInterval: 5, jitter: 0 };
    await client.create([startOf(runId, "idle", { retry, queue: `no-worker-${id()}` })]);
    const { connection } = bench();
    const { service, namespace } = connection;
    const { history } = await service.getWorkflowExecutionHistory({ namespace, execution: { workflowId: runId } });
    const policy = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.retryPolicy;
    expect(policy).toMatchObject({ maximumAttempts: 3, backoffCoefficient: 2 });
  });
  test("a transaction of the caller is unsupported", async () => {
    const { client, id } = bench();
    await expect(client.create([startOf(id(), "idle")], {})).rejects.toThrow(UnsupportedError);
    await expect(client.send({ runId: id(), workflow: undefined, message: signalOf("s") }, {})).rejects.toThrow("after your transaction");
  });
});
