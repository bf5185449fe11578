// Bulk actions: what a preview counts, what is acted on, and what is refused.

import { describe, expect, test } from "vitest";
import { type Client, clientOf } from "../../src/client/index.ts";
import { worldOn } from "./world.ts";

const world = worldOn("sqlite");
const started = async (client: Client, ids: readonly string[], workflow = "waiting") => {
  for (const id of ids) await client.call("runs.start", { body: { workflow, id } });
  for (const id of ids)
    await expect.poll(async () => (await client.call("runs.get", { params: { id } })).status, { interval: 10 }).not.toBe("pending");
};
const statusOf = async (client: Client, id: string) => (await client.call("runs.get", { params: { id } })).status;
const done = async (client: Client, id: string) => {
  await expect.poll(async () => (await client.call("bulk.get", { params: { id } })).status, { interval: 20 }).toBe("completed");
  return client.call("bulk.get", { params: { id } });
};

describe("by a filter", () => {
  test("only runs that the action can change are counted, and only those of the preview are acted on", async () => {
    const client = clientOf(world.engine);
    await started(client, ["f-1", "f-2", "f-3"]);
    await client.call("runs.terminate", { params: { id: "f-3" } });
    const preview = await client.call("bulk.preview", { body: { action: { do: "cancel" }, filter: { idPrefix: "f-" } } });
    expect(preview).toMatchObject({ matched: 2, capped: false, byStatus: { sleeping: 2 }, byWorkflow: { waiting: 2 } });
    expect(preview.sample.map(({ id }) => id).sort()).toEqual(["f-1", "f-2"]);
    const seenAt = Date.now();
    await expect.poll(() => Date.now(), { interval: 1 }).toBeGreaterThan(seenAt + 1);
    await started(client, ["f-4"]);
    const bulk = (await client.call("bulk.start", { body: { token: preview.token, reason: "enough" } })) as { id: string };
    expect(await done(client, bulk.id)).toMatchObject({ matched: 2, done: 2, succeeded: 2, failed: 0, failures: [] });
    await expect.poll(() => statusOf(client, "f-1"), { interval: 10 }).toBe("canceled");
    expect(await statusOf(client, "f-4")).not.toBe("canceled");
    await client.close();
  });
  test("a signal goes to each, with its payload", async () => {
    const client = clientOf(world.engine);
    await started(client, ["s-1", "s-2"]);
    const action = { do: "signal" as const, name: "go", payload: { at: 1 } };
    const { token } = await client.call("bulk.preview", { body: { action, filter: { idPrefix: "s-", workflow: "waiting" } } });
    const bulk = (await client.call("bulk.start", { body: { token } })) as { id: string };
    expect(await done(client, bulk.id)).toMatchObject({ succeeded: 2 });
    for (const id of ["s-1", "s-2"])
      expect(await client.call("runs.result", { params: { id }, query: { wait: 30_000 } })).toMatchObject({ status: "completed" });
    await client.close();
  });
  test("an action that can change none of them starts no run", async () => {
    const client = clientOf(world.engine);
    const filter = { idPrefix: "s-", status: "completed" as const };
    const preview = await client.call("bulk.preview", { body: { action: { do: "terminate" }, filter } });
    expect(preview).toMatchObject({ matched: 0, sample: [], byStatus: {}, byWorkflow: {} });
    expect(await client.call("bulk.start", { body: { token: preview.token } })).toEqual({
      matched: 0,
      done: 0,
      succeeded: 0,
      failed: 0,
      failures: [],
    });
    await client.close();
  });
});

describe("what is refused", () => {
  const refused = async (body: unknown) => {
    const response = await world.ask("POST", "bulk/preview", { body });
    return response.status;
  };
  test("an empty filter, no runs, more than 1,000, both, neither, and unknown fields", async () => {
    const action = { do: "cancel" };
    const ids = Array.from({ length: 1_001 }, (_, i) => `r-${i}`);
    for (const body of [
      { action, filter: {} },
      { action, filter: { attributes: {} } },
      { action, filter: { workflow: [] } },
      { action, ids: [] },
      { action, ids },
      { action, ids: ["x"], filter: { queue: "q" } },
      { action },
      { action: { do: "explode" }, ids: ["x"] },
      { action: { do: "signal" }, ids: ["x"] },
      { action, filter: { statuss: "failed" } },
      { action, filter: { idPrefix: "x", limit: 5 } },
    ])
      expect(await refused(body), JSON.stringify(body).slice(0, 80)).toBe(400);
    expect(await refused({ action, ids: ids.slice(1) })).toBe(200);
  });
});
