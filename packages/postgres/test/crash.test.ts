// A server that is killed and started again under load: nothing that was acknowledged is lost, nothing is done twice.

import { jsonCodec, workflow } from "@holdfast/core";
import { Holdfast } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { canOwnServers } from "./server/index.ts";
import { claim, draft, heldOf, inboxOf, newRun, range, running, signal, TestStore, turnOf, until, useDatabase } from "./support.ts";

/** The store, and how many looks at runs it has not answered yet. */
function counted(store: TestStore): { store: TestStore; looks: { underWay: number } } {
  const looks = { underWay: 0 };
  const get = store.get.bind(store);
  store.get = async (runIds) => {
    looks.underWay++;
    try {
      return await get(runIds);
    } finally {
      looks.underWay--;
    }
  };
  return { store, looks };
}

if (canOwnServers) {
  const database = useDatabase({ own: true });

  test("M1 D2 a server that dies at once, three times, under commits, messages, starts and claims", async () => {
    const store = await database.open({ schema: database.newSchema() });
    const target = await running(store, "target");
    const held = await Promise.all(range(5).map((i) => running(store, `r${i}`)));
    let isOver = false;
    const acknowledged: string[] = [];
    const created: string[] = [];
    const claimed: string[] = [];
    let count = 0;

    const send = async (): Promise<void> => {
      while (!isOver) {
        const ids = range(3).map(() => `s${count++}`);
        const results = await store.send(ids.map((id) => ({ runId: "target", message: { job: signal(id) } })));
        for (const [i, { status }] of results.entries()) if (status === "sent") acknowledged.push(ids[i] ?? "");
      }
    };
    const commit = async (): Promise<void> => {
      while (!isOver) {
        const results = await store.commit(held.map((one) => draft(one, { turn: turnOf(one) })));
        // A commit that was carried out and not acknowledged, or carried out twice, would show here.
        expect(results.map(({ status }) => status)).toEqual(held.map(() => "committed"));
      }
    };
    const start = async (): Promise<void> => {
      while (!isOver) {
        const id = `new${count++}`;
        const [result] = await store.create([newRun(id)]);
        expect(result?.status).toBe("created");
        created.push(id);
      }
    };
    const take = async (): Promise<void> => {
      while (!isOver) {
        const runs = await claim(store, { limit: 10 });
        expect(runs.every(({ recovered, run }) => !recovered && run.epoch === 1)).toBe(true);
        claimed.push(...runs.map(({ run }) => run.id));
        await store.commit(
          runs.map((run) => draft(heldOf(run), { status: "completed", close: { status: "completed", output: jsonCodec.encode(1) } })),
        );
      }
    };
    const load = Promise.all([send(), send(), commit(), start(), start(), take()]);
    for (const _ of range(3)) {
      const before = acknowledged.length;
      while (acknowledged.length < before + 60) await new Promise((resolve) => setImmediate(resolve));
      await database.server.kill();
      await database.server.restart();
    }
    const before = acknowledged.length;
    while (acknowledged.length < before + 60) await new Promise((resolve) => setImmediate(resolve));
    isOver = true;
    await load;
    claimed.push(...(await claim(store, { limit: 1_000 })).map(({ run }) => run.id));

    const arrived = (await inboxOf(store, target)).map(({ job }) => ("id" in job ? job.id : ""));
    expect(arrived.toSorted()).toEqual(acknowledged.toSorted());
    for (const one of held) expect((await store.history(one.runId)).map(({ index }) => index)).toEqual(range(one.turns));
    expect(claimed.toSorted()).toEqual(created.toSorted());
  }, 120_000);

  test("HF_STORE_UNAVAILABLE while there is no server, and work goes on when there is one again", async () => {
    const store = await database.open({ schema: database.newSchema(), patience: 100 });
    await store.create([newRun("a")]);
    await database.server.kill();
    await expect(store.send([{ runId: "a", message: { job: signal("s1") } }])).rejects.toMatchObject({
      code: "HF_STORE_UNAVAILABLE",
      retryable: true,
    });
    await expect(database.open({ schema: "public_x", patience: 100 })).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
    await database.server.restart();
    expect(await store.send([{ runId: "a", message: { job: signal("s2") } }])).toMatchObject([{ status: "sent" }]);
  }, 60_000);

  test("M10 D9 a caller that waits for a result is notified soon after the server has come back", async () => {
    const schema = database.newSchema();
    const { store, looks } = counted(new TestStore({ connectionString: database.url, schema }));
    const client = await Holdfast.with({ store });
    const elsewhere = await Holdfast.with({ store: new TestStore({ connectionString: database.url, schema }) });
    onTestFinished(async () => void (await Promise.all([client.close(), elsewhere.close()])));
    const waits = workflow("waits", async (ctx) => ctx.waitForSignal("go"));
    await elsewhere.worker({ workflows: [waits] });
    const run = await client.start(waits, undefined, { id: "a" });
    // Far more than it needs once it may look again, far less than an outage taken for the cost of a look would have it wait.
    const result = run.result({ timeout: "25s" });
    await database.server.kill();
    await until(() => looks.underWay > 0, "a look at a server that is away");
    await new Promise((resolve) => setTimeout(resolve, 2_000)); // that is how long it is away
    await database.server.restart();
    await until(() => looks.underWay === 0, "the answers to all looks");
    await elsewhere.run("a", waits).signal("go", "there");
    expect(await result).toBe("there");
  }, 60_000);

  test("D9 the log says once that the server is gone, long before a call times out, and once that it is back, with how long it was", async () => {
    const lines: string[] = [];
    const note = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
    const logger = { debug() {}, info: note("info"), warn: note("warn"), error: note("error") };
    const engine = await Holdfast.open(`${database.url}?schema=${database.newSchema()}`, { logger });
    onTestFinished(() => engine.close());
    const waits = workflow("waits", async (ctx) => ctx.waitForSignal("go"));
    await engine.worker({ workflows: [waits] });
    const run = await engine.start(waits, undefined, { id: "a" });
    await database.server.kill();
    await until(() => lines.length > 0, "the news that it is gone");
    await database.server.restart();
    await until(() => lines.length > 1, "the news that it is back");
    await run.signal("go", "there");
    expect(await run.result()).toBe("there");
    expect(lines).toEqual([
      "error Database unreachable: runs wait until it is back. Trying again.",
      expect.stringMatching(/^info Database reachable again after \d+ ?s\.$/),
    ]);
  }, 60_000);
  test("D9 connections that are lost and made again are not worth a line", async () => {
    const told: unknown[] = [];
    const store = await database.open({ schema: database.newSchema() });
    store.watchOutages({ gone: (error) => told.push(error), back: () => told.push("back") });
    await running(store, "a");
    for (const _ of range(5)) {
      await database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'");
      await store.get(["a"]);
    }
    expect(told).toEqual([]);
  });
} else {
  test("a server that is not ours is not killed", () => expect(canOwnServers).toBe(false));
}
