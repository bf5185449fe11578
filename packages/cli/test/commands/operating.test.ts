// `holdfast schedules …`, `queues …`, `workers`, on a file, on Postgres, and over HTTP.

import { describe, expect, test } from "vitest";
import { ROUTES } from "../../src/api/routes.ts";
import { PLACES, placeOf } from "./places.ts";
import { holdfast } from "./run.ts";

const scheduleInfo = ROUTES["schedules.get"].returns;
const queueInfo = ROUTES["queues.get"].returns;

describe.each(PLACES)("on %s", (name) => {
  const place = placeOf(name);
  const { call, callWith } = place;

  test("schedules: set, list, show, pause, resume, trigger, backfill, delete", async () => {
    expect((await call("schedules", "list", "--json")).json).toEqual({ schedules: [] });
    const set = await call(
      "schedules",
      "set",
      "nightly",
      "--workflow",
      "echo",
      "--cron",
      "0 3 * * *",
      "--timezone",
      "Europe/Berlin",
      "--input",
      '{"a":1}',
      "--overlap",
      "allow",
      "--jitter",
      "1m",
      "--catch-up",
      "2d",
      "--queue",
      "default",
      "--attr",
      "by=schedule",
      "--json",
    );
    expect([set.code, set.err]).toEqual([0, ""]);
    expect(scheduleInfo.parse(set.json)).toMatchObject({
      id: "nightly",
      workflow: "echo",
      cron: "0 3 * * *",
      timezone: "Europe/Berlin",
      input: { a: 1 },
      overlap: "allow",
      paused: false,
      lastRunId: null,
    });
    expect(set.json.nextRuns).toHaveLength(5);
    await call("schedules", "set", "often", "--workflow", "echo", "--every", "1d");
    const list = (await call("schedules", "list", "--json")).json;
    expect(list.schedules.map(({ id }: { id: string }) => id)).toEqual(["nightly", "often"]);
    expect((await call("schedules", "show", "nightly", "--json")).json).toEqual(list.schedules[0]);
    expect((await call("schedules", "pause", "nightly", "--json")).json.paused).toBe(true);
    expect((await call("schedules", "resume", "nightly", "--json")).json.paused).toBe(false);
    const triggered = await call("schedules", "trigger", "nightly", "--json");
    expect(Object.keys(triggered.json)).toEqual(["id"]);
    expect((await call("runs", "result", triggered.json.id)).json).toEqual({ a: 1 });
    expect((await call("runs", "list", "--schedule", "nightly", "-o", "id")).out).toBe(`${triggered.json.id}\n`);
    const filled = await call(
      "schedules",
      "backfill",
      "nightly",
      "--from",
      "2026-01-01T00:00:00Z",
      "--to",
      "2026-01-03T12:00:00Z",
      "--json",
    );
    expect([filled.code, filled.json.ids.length]).toEqual([0, 3]);
    const table = (await callWith({ columns: 80 }, "schedules", "list")).out;
    expect(table).toContain("nightly");
    expect((await callWith({ columns: 80 }, "schedules", "show", "nightly")).out).toContain("Europe/Berlin");
    expect((await call("schedules", "delete", "nightly")).code).toBe(0);
    for (const args of [["show"], ["pause"], ["resume"], ["trigger"], ["delete"]]) {
      const { code, problem } = await call("schedules", ...args, "nightly", "--json");
      expect({ args, code, problem: problem.code }).toEqual({ args, code: 3, problem: "HF_SCHEDULE_NOT_FOUND" });
    }
    expect((await call("schedules", "set", "bad", "--workflow", "echo", "--cron", "never", "--json")).code).toBe(4);
    await call("schedules", "delete", "often");
  });

  test("queues: list, set, show, pause, resume, delete", async () => {
    const list = (await call("queues", "list", "--json")).json;
    expect(list.queues.map(({ name: one }: { name: string }) => one)).toContain("default");
    for (const queue of list.queues) queueInfo.parse(queue);
    const set = await call(
      "queues",
      "set",
      "mail",
      "--concurrency",
      "20",
      "--rate",
      "100/1m",
      "--per-key-concurrency",
      "2",
      "--limit",
      "acme=5",
      "--counts",
      "open",
      "--json",
    );
    expect(set.code).toBe(0);
    expect(queueInfo.parse(set.json)).toMatchObject({
      name: "mail",
      concurrency: 20,
      rate: { limit: 100 },
      perKey: { concurrency: 2 },
      keys: { acme: { concurrency: 5 } },
      counts: "open",
      paused: false,
    });
    expect((await callWith({ columns: 160 }, "queues", "list")).out).toMatch(/mail .*20 at once, 100\/1m, 2 at once per key/);
    // One line each, whatever the name: it may be the input of another command.
    expect((await call("queues", "set", "two\nlines", "--concurrency", "1", "-o", "id")).out).toBe("two\\nlines\n");
    expect((await call("queues", "delete", "two\nlines")).code).toBe(0);
    expect((await call("queues", "set", "mail", '{"concurrency":3}', "--json")).json).toMatchObject({ concurrency: 3, rate: null });
    expect((await call("queues", "set", "mail", '{"concurency":3}', "--json")).code).toBe(4);
    expect((await call("queues", "pause", "mail", "--for", "10m", "--json")).json).toMatchObject({
      paused: true,
      pausedUntil: expect.any(String),
    });
    expect((await call("queues", "resume", "mail", "--json")).json.paused).toBe(false);
    expect((await call("queues", "pause", "mail", "--key", "acme", "--json")).json).toMatchObject({ paused: false, pausedKeys: ["acme"] });
    expect((await callWith({ columns: 100 }, "queues", "list")).out).toMatch(/mail .*3 at once/);
    expect((await callWith({ columns: 100 }, "queues", "show", "mail")).out).toContain("keys acme");
    expect((await call("queues", "resume", "mail", "--key", "acme")).code).toBe(0);
    expect((await call("queues", "delete", "mail", "--json")).json).toEqual({ name: "mail" });
    expect((await call("queues", "show", "mail", "--json")).json.concurrency).toBe(null);
  });

  test("workers", async () => {
    await expect.poll(async () => (await call("workers", "--json")).json.workers).toHaveLength(1);
    const { workers } = ROUTES["workers.list"].returns.parse((await call("workers", "--json")).json);
    expect(workers[0]?.serves.map(({ workflow }) => workflow)).toContain("order");
    expect((await call("workers", "-o", "id")).out).toBe(`${workers[0]?.id}\n`);
    expect((await callWith({ columns: 70 }, "workers", "-o", "wide")).out).toContain(workers[0]?.id.slice(0, 10));
  });

  test("workflow names are completed", async () => {
    await expect.poll(async () => (await call("workers", "--json")).json.workers).toHaveLength(1);
    const offered = async (...words: string[]): Promise<string> => (await holdfast(["__complete", ...place.url(), ...words])).out;
    expect(await offered("runs", "start", "ord")).toBe("order\tworkflow\n");
    expect(await offered("runs", "list", "--workflow", "wai")).toBe("waits\tworkflow\n");
  });
});
