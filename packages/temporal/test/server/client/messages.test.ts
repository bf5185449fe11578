// Signals, cancellations, terminations and updates on a real server.

import { jsonCodec, NO_OPEN_RECEIVE, NOT_ACCEPTED_IN_TIME, RunBlockedError, UpdateRejectedError } from "@holdfast/core";
import { expect, test } from "vitest";
import { messageHeader } from "../../../src/headers.ts";
import { acceptAnd, completeWith, encode, reject, type Script, signalOf, startOf, updateOf, withServer } from "../scripted.ts";

/** Ends with the names of the signals, and with the reason if it is canceled. */
const count: Script = ({ signalWorkflow: signal, cancelWorkflow: cancel }, { state }) => {
  if (cancel) return completeWith({ reason: cancel.reason });
  if (!signal) return undefined;
  if (signal.signalName === "end") return completeWith(state["keys"] ?? []);
  state["keys"] = [...((state["keys"] as unknown[]) ?? []), messageHeader(signal.headers).key ?? signal.signalName];
  return undefined;
};
const answer: Script = (job, { state }) => {
  const { doUpdate: update, signalWorkflow: signal } = job;
  if (signal?.signalName === "end") return completeWith("bye");
  if (signal?.signalName === "open") state["isOpen"] = true;
  switch (update?.name) {
    case "good":
      return acceptAnd(job, { value: { got: update.id } });
    case "bad":
      return acceptAnd(job, { error: new TypeError("the handler failed") });
    case "refused":
      return reject(job, new UpdateRejectedError({ update: "refused", reason: "too small" }));
    case "early":
      if (state["isOpen"] === true) return acceptAnd(job, { value: "in time" });
      return reject(job, new UpdateRejectedError({ update: "early", reason: NO_OPEN_RECEIVE }));
    case "endless":
      return acceptAnd(job, undefined);
    default:
      return undefined;
  }
};
/** The first task with an update fails. */
let failures = 0;
const flaky: Script = (job) => {
  if (!job.doUpdate) return undefined;
  return failures++ === 0 ? { fails: "once" } : acceptAnd(job, { value: "done" });
};
const broken: Script = ({ initializeWorkflow }) => (initializeWorkflow ? { fails: "no code for it" } : undefined);

withServer("messages", { count, answer, flaky, broken, other: () => undefined }, (bench) => {
  const started = async (workflow: string, more = {}): Promise<string> => {
    const { client, id } = bench();
    const runId = id();
    await client.create([startOf(runId, workflow, more)]);
    return runId;
  };
  const to = <M>(runId: string, message: M, workflow?: string) => ({ runId, workflow, message });

  test("M1 M3: signals arrive in order, once for each key, with the key in the header", async () => {
    const { client } = bench();
    const runId = await started("count");
    expect(await client.send(to(runId, signalOf("a")))).toEqual({ status: "sent" });
    await client.send(to(runId, signalOf("b", 1, "key-1")));
    await client.send(to(runId, signalOf("b", 1, "key-1")));
    await client.send(to(runId, signalOf("end")));
    expect((await client.ended(runId, {})).output).toBe(encode(["a", "key-1"]));
    expect(await client.send(to(runId, signalOf("b", 1, "key-1")))).toEqual({ status: "sent" });
    expect(await client.send(to(runId, signalOf("c")))).toEqual({ status: "closed", runStatus: "completed" });
  });
  test("M12 M3: unknown runs and runs of another workflow", async () => {
    const { client, id } = bench();
    const runId = await started("other");
    for (const unknown of [id(), "", "half \ud800"]) {
      expect(await client.send(to(unknown, signalOf("a")))).toEqual({ status: "not-found" });
      expect(await client.send(to(unknown, { job: { type: "cancel" } as const }))).toEqual({ status: "not-found" });
      expect(await client.update(to(unknown, updateOf("u")), {})).toEqual({ status: "not-found" });
      expect(await client.terminate(unknown, undefined)).toEqual({ status: "not-found" });
      expect(await client.get([unknown])).toEqual([undefined]);
      expect(await client.describe(unknown)).toBeUndefined();
      expect(await client.resume(unknown)).toBe("not-found");
      expect(await client.delete(unknown)).toBe("not-found");
      await expect(client.ended(unknown, {})).rejects.toMatchObject({ code: "HF_RUN_NOT_FOUND" });
    }
    expect(await client.send(to(runId, signalOf("a"), "count"))).toEqual({ status: "other-workflow", workflow: "other" });
    expect(await client.update(to(runId, updateOf("u"), "count"), {})).toEqual({ status: "other-workflow", workflow: "other" });
  });
  test("K1: a cancellation arrives with its reason; closed runs say so", async () => {
    const { client } = bench();
    const runId = await started("count");
    expect(await client.send(to(runId, { job: { type: "cancel", reason: "too late" } as const }))).toEqual({ status: "sent" });
    expect((await client.ended(runId, {})).output).toBe(encode({ reason: "too late" }));
    expect(await client.send(to(runId, { job: { type: "cancel" } as const }))).toEqual({ status: "closed", runStatus: "completed" });
  });
  test("K6: a terminated run has ended at once, with its reason; a second call is answered with closed", async () => {
    const { client } = bench();
    const runId = await started("count");
    expect(await client.terminate(runId, "enough")).toEqual({ status: "sent" });
    const end = await client.ended(runId, {});
    expect(end).toMatchObject({ status: "terminated", error: { name: "RunTerminatedError", data: { reason: "enough" } } });
    expect(await client.terminate(runId, "enough")).toEqual({ status: "closed", runStatus: "terminated" });
    expect(await client.send(to(runId, { job: { type: "cancel" } as const }))).toEqual({ status: "closed", runStatus: "terminated" });
  });

  test("M10: an update has one outcome for each id, also after the end of the run", async () => {
    const { client } = bench();
    const runId = await started("answer");
    const update = updateOf("good", 1);
    const completed = { status: "completed", value: encode({ got: update.job.id }) };
    expect(await client.update(to(runId, update, "answer"), {})).toEqual(completed);
    expect(await client.update(to(runId, update), {})).toEqual(completed);
    expect(await client.update(to(runId, updateOf("bad")), {})).toMatchObject({ status: "failed", error: { name: "TypeError" } });
    expect(await client.update(to(runId, updateOf("refused")), {})).toMatchObject({
      status: "rejected",
      error: { name: "UpdateRejectedError", data: { reason: "too small" } },
    });
    await client.send(to(runId, signalOf("end")));
    await client.ended(runId, {});
    expect(await client.update(to(runId, update), {})).toEqual(completed);
    expect(await client.update(to(runId, updateOf("good")), {})).toEqual({ status: "closed", runStatus: "completed" });
  });
  test("M10: an update whose task fails is sent again under the same id", async () => {
    const { client } = bench();
    const runId = await started("flaky");
    failures = 0;
    expect(await client.update(to(runId, updateOf("u")), {})).toEqual({ status: "completed", value: encode("done") });
    expect(failures).toBeGreaterThanOrEqual(2);
  });
  test("M8: an early update is offered until a receive accepts it, or its time is over", async () => {
    const { client } = bench();
    const runId = await started("answer");
    expect(await client.update(to(runId, updateOf("early")), {})).toMatchObject({
      status: "rejected",
      error: { data: { reason: NO_OPEN_RECEIVE } },
    });
    expect(await client.update(to(runId, updateOf("early", 1, { acceptWithin: 200 })), {})).toMatchObject({
      status: "rejected",
      error: { data: { reason: NOT_ACCEPTED_IN_TIME } },
    });
    // A refusal by a validator is final.
    expect(await client.update(to(runId, updateOf("refused", 1, { acceptWithin: 60_000 })), {})).toMatchObject({
      error: { data: { reason: "too small" } },
    });
    const patient = client.update(to(runId, updateOf("early", 1, { acceptWithin: 60_000 })), {});
    await client.send(to(runId, signalOf("open")));
    expect(await patient).toEqual({ status: "completed", value: encode("in time") });
  });
  test("M10: an accepted update of a run that ends has no outcome", async () => {
    const { client } = bench();
    const runId = await started("answer");
    const endless = client.update(to(runId, updateOf("endless")), {});
    await client.update(to(runId, updateOf("good")), {});
    await client.terminate(runId, undefined);
    expect(await endless).toEqual({ status: "closed", runStatus: "terminated" });
  });
  test("M10: an update that no worker has seen ends with its run", async () => {
    const { client, id } = bench();
    const runId = await started("answer", { queue: `no-worker-${id()}` });
    const waiting = client.update(to(runId, updateOf("good")), {});
    await expect(client.update(to(runId, updateOf("good")), { timeout: 200 })).rejects.toMatchObject({ code: "HF_WAIT_TIMEOUT" });
    await client.terminate(runId, undefined);
    expect(await waiting).toEqual({ status: "closed", runStatus: "terminated" });
  });
  test("M10: a caller's time may be over before the outcome is there", async () => {
    const { client } = bench();
    const runId = await started("answer");
    const update = updateOf("endless");
    await expect(client.update(to(runId, update), { timeout: 100 })).rejects.toMatchObject({ code: "HF_WAIT_TIMEOUT" });
    await client.terminate(runId, undefined);
  });
  test("V4: a blocked run rejects updates with the reason", async () => {
    const { client } = bench();
    const runId = await started("broken");
    const update = client.update(to(runId, updateOf("good")), {});
    await expect(update).rejects.toThrow(RunBlockedError);
    await expect(update).rejects.toThrow("no code for it");
    await client.terminate(runId, undefined);
  });
  test("what Temporal can't keep is invalid input, and is not sent again", async () => {
    const { client } = bench();
    const runId = await started("answer");
    const large = "x".repeat(3 * 1024 * 1024);
    const invalid = { code: "HF_INVALID_INPUT" };
    await expect(client.send(to(runId, signalOf("s", large)))).rejects.toMatchObject(invalid);
    await expect(client.send(to(runId, signalOf("s", large + large)))).rejects.toMatchObject(invalid);
    await expect(client.update(to(runId, updateOf("good", large + large)), {})).rejects.toMatchObject(invalid);
    await expect(client.send(to(runId, signalOf("half \ud800")))).rejects.toMatchObject(invalid);
    await expect(client.send(to(runId, signalOf("s".repeat(1_001))))).rejects.toMatchObject(invalid);
  });
  test("M3: keys of any length and any characters", async () => {
    const { client } = bench();
    const runId = await started("answer");
    const counted = await started("count");
    for (const key of ["é".repeat(512), "😀".repeat(256), "half \ud800"]) {
      const update = updateOf("good", 1, { id: key });
      const first = await client.update(to(runId, update), {});
      expect(first).toMatchObject({ status: "completed" });
      expect(await client.update(to(runId, update), {})).toEqual(first);
      await client.send(to(counted, signalOf("s", 1, key)));
      await client.send(to(counted, signalOf("s", 1, key)));
    }
    await client.send(to(counted, signalOf("end")));
    expect(jsonCodec.decode((await client.ended(counted, {})).output ?? "")).toHaveLength(3);
  });
  test("after close nothing is written, and waits end", async () => {
    const { newClient } = bench();
    const runId = await started("count");
    const client = newClient({});
    const waiting = client.ended(runId, {});
    client.refuse();
    await expect(client.send(to(runId, signalOf("a")))).rejects.toMatchObject({ code: "HF_ENGINE_CLOSED" });
    expect(await client.get([runId])).toMatchObject([{ id: runId }]);
    client.close();
    await expect(waiting).rejects.toMatchObject({ code: "HF_ENGINE_CLOSED" });
    await expect(client.ended(runId, {})).rejects.toMatchObject({ code: "HF_ENGINE_CLOSED" });
    await expect(client.get([runId])).rejects.toMatchObject({ code: "HF_ENGINE_CLOSED" });
  });
});
