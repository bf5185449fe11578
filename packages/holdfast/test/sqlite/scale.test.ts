// Claims, wake-ups and lists among very many runs: what they cost does not grow with what they do not concern.

import { type Bench, LEASE, range, runIds } from "@holdfast/conformance/bench";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { RunFilter } from "../../src/store/searchPort.ts";
import { BLOCKED, DAMAGED_RUNS, DUE_RUNS, LANE_HEADS, LATER_RUN } from "../../src/store/sqlite/claimRuns.ts";
import { Connection } from "../../src/store/sqlite/connection.ts";
import { newPath, openBench, openShell, type Shell } from "./support.ts";

const MANY = 100_000;
/** How long this process has worked, in milliseconds: not how long it waited for a busy machine. */
function worked(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

describe(`with ${MANY} runs that sleep and ${MANY} that no worker serves`, () => {
  const path = newPath();
  let bench: Bench;
  let shell: Shell;

  beforeAll(async () => {
    bench = await openBench(path);
    await bench.store.create([
      bench.newRun("sleeper", { queue: "default", startAt: bench.time + 1_000_000 }),
      bench.newRun("waiter", { queue: "default" }),
      bench.newRun("stranger", { queue: "default", workflow: "unknown" }),
      bench.newRun("old", { queue: "default", version: "1" }),
    ]);
    shell = openShell(path);
    // A run that waits for a message alone.
    shell.exec("UPDATE holdfast_runs SET available_at = NULL, status = 'sleeping' WHERE id = 'waiter'");
    const columns = shell.rows(
      "SELECT group_concat(name, ', ') AS names FROM pragma_table_info('holdfast_runs') WHERE name NOT IN ('key', 'id')",
    )[0]?.["names"];
    for (const [id, count] of [["sleeper", MANY / 2], ["waiter", MANY / 2], ["stranger", MANY / 2], ["old", MANY / 2]] as const) {
      shell.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
        INSERT INTO holdfast_runs (id, ${columns}) SELECT id || '-' || i, ${columns} FROM holdfast_runs, n WHERE id = '${id}'`);
    } // biome-ignore format: as SQL
    shell.exec("INSERT INTO holdfast_executions SELECT key, 1, workflow, version, 'seed', 'null' FROM holdfast_runs WHERE key > 4");
  }, 60_000);

  const plan = (sql: string, ...parameters: (string | number)[]) =>
    shell.rows(`EXPLAIN QUERY PLAN ${sql}`, ...parameters).map(({ detail }) => String(detail));
  const request = { serves: [{ workflow: "order", versions: [undefined, "2"] }], queue: "default" } as const;

  test("W1 the statements of a claim read an index, in its order, and nothing else", () => {
    const steps = plan(LANE_HEADS, "default").filter((step) => !/^(CORRELATED|COMPOUND|LEFT-MOST|UNION ALL)/.test(step));
    // Q1: the same statement asks whether the queue has limits.
    expect(steps.at(-1)).toBe("SEARCH holdfast_queues USING PRIMARY KEY (queue=?)");
    const heads = steps.slice(0, -1);
    expect(heads[0]).toContain("SEARCH l USING COVERING INDEX holdfast_lanes_by_queue (queue=?)");
    // Newer SQLites make joins of EXISTS, and say so.
    for (const head of heads.slice(1))
      expect(head).toMatch(/^SEARCH holdfast_runs (EXISTS )?USING COVERING INDEX holdfast_runs_to_claim \(lane=\?/);
    for (const [sql, ...parameters] of [
      [DUE_RUNS, 1, 1, 1],
      [LATER_RUN, 1, 1],
      [DAMAGED_RUNS, 1],
    ] as const) {
      const steps = plan(sql, ...parameters);
      expect(steps).toEqual([
        expect.stringMatching(/^SEARCH holdfast_runs USING COVERING INDEX holdfast_runs_to_claim \(lane=\? AND available_at>[^)]*\)$/),
      ]);
    }
  });

  test.each([
    ["the run of an id", "SELECT key FROM holdfast_runs WHERE id = ?", "id=?"],
    ["open children", "SELECT 1 FROM holdfast_runs WHERE parent_id = ? AND finished_at IS NULL LIMIT 1", "holdfast_runs_by_parent (parent_id=? AND finished_at=?)"],
    ["deadlines", "SELECT key FROM holdfast_runs WHERE deadline_at <= ? AND deadline_at IS NOT NULL AND finished_at IS NULL AND expired = 0", "holdfast_runs_by_deadline (deadline_at>? AND deadline_at<?)"],
    ["history", "SELECT * FROM holdfast_records WHERE run = ? AND execution = 1 ORDER BY turn, id", "holdfast_records_by_run (run=? AND execution=?)"],
    ["an inbox", "SELECT * FROM holdfast_inbox WHERE run = ? AND id > 5 ORDER BY id", "holdfast_inbox_by_run (run=? AND rowid>?)"],
    ["due activities", "SELECT id FROM holdfast_tasks WHERE due_at <= ? AND due_at IS NOT NULL ORDER BY due_at LIMIT 5", "holdfast_tasks_by_due (due_at>? AND due_at<?)"],
    ["blocked runs", BLOCKED, "holdfast_runs_by_status (status=?)"],
  ])("%s are found by an index", (_, sql, index) => {
    const steps = plan(sql, ...Array.from(sql.matchAll(/\?/g), () => "x"));
    expect(steps.join("\n")).toContain(index);
    expect(steps.join("\n")).not.toMatch(/SCAN|TEMP B-TREE/);
  }); // biome-ignore format: a table

  test("W1 a claim that finds nothing is answered at once", async () => {
    const lengths: number[] = [];
    for (const _ of range(50)) {
      const began = performance.now();
      const { runs, nextAt } = await bench.claim(request);
      lengths.push(performance.now() - began);
      expect(runs).toEqual([]);
      expect(nextAt).toBe(bench.time + 1_000_000);
    }
    // Hundreds of times what it takes, and a hundredth of a look at every run.
    expect(Math.min(...lengths)).toBeLessThan(5);
  });

  test("W1 a claim finds the one that is due", async () => {
    await bench.created("due", { queue: "default" });
    const began = worked();
    const claimed = await bench.claim(request);
    expect(worked() - began).toBeLessThan(200);
    expect(runIds(claimed)).toEqual(["due"]);
  });

  test("W2 a backlog is claimed in portions that cost the same", async () => {
    const ids = range(2_000).map((i) => `backlog-${i}`);
    await bench.store.create(ids.map((id) => bench.newRun(id, { queue: "default", version: "2" })));
    const claimed: string[] = [];
    for (const _ of range(20)) claimed.push(...runIds(await bench.claim({ ...request, limit: 100 })));
    expect(claimed).toEqual(ids);
    expect((await bench.claim(request)).runs).toEqual([]);
    bench.time += LEASE;
  });

  test("lists and counts of what is rare do not look at everything", async () => {
    const began = worked();
    expect((await bench.store.list({ limit: 5 })).runs).toHaveLength(5);
    expect((await bench.store.list({ status: ["failed"], limit: 5 })).runs).toHaveLength(0);
    expect((await bench.store.list({ workflow: "nothing", limit: 5 })).runs).toHaveLength(0);
    expect(worked() - began).toBeLessThan(500);
    expect(await bench.store.count({})).toMatchObject({ pending: 10_000, sleeping: 10_000, failed: 0, capped: ["pending", "sleeping"] });
    shell.close();
  });
});

describe(`with ${MANY} runs that have attributes`, () => {
  const path = newPath();
  let bench: Bench;
  let shell: Shell;

  beforeAll(async () => {
    bench = await openBench(path);
    await bench.store.create([bench.newRun("model", { queue: "default", version: "1", attributes: { seen: true } })]);
    shell = openShell(path);
    const columns = shell.rows(
      "SELECT group_concat(name, ', ') AS names FROM pragma_table_info('holdfast_runs') WHERE name NOT IN ('key', 'id', 'created_at')",
    )[0]?.["names"];
    shell.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MANY})
      INSERT INTO holdfast_runs (id, created_at, ${columns}) SELECT 'r' || i, ${bench.time} + i, ${columns} FROM holdfast_runs, n WHERE id = 'model'`);
    shell.exec("INSERT INTO holdfast_executions SELECT key, 1, workflow, version, 'seed', 'null' FROM holdfast_runs WHERE id <> 'model'");
    const attribute = (name: string, type: string, value: string, which = "true"): void =>
      shell.exec(`INSERT INTO holdfast_attributes (run, name, type, value, created_at)
        SELECT key, '${name}', '${type}', ${value}, created_at FROM holdfast_runs WHERE id <> 'model' AND ${which}`);
    attribute("tenant", "string", "CAST('t' || key % 1000 AS BLOB)");
    attribute("region", "string", "CAST(CASE WHEN key % 10 < 6 THEN 'eu' ELSE 'us' END AS BLOB)");
    attribute("amount", "number", "key * 7919 % 100000");
    attribute("rare", "boolean", "1", "key % 50000 = 7");
  }, 60_000);

  /** The plan of every statement that a call prepares, but for those that read the rows of a page. */
  async function plansOf(call: () => Promise<unknown>): Promise<string[]> {
    const seen = new Set<string>();
    const original = Connection.prototype.prepare;
    const spy = vi.spyOn(Connection.prototype, "prepare").mockImplementation(function (this: Connection, sql) {
      seen.add(sql);
      return original.call(this, sql);
    });
    try {
      await call();
    } finally {
      spy.mockRestore();
    }
    expect(seen.size).toBeGreaterThan(0);
    return [...seen].flatMap((sql) => {
      const parameters = Array.from(sql.matchAll(/\?/g), () => 1);
      return shell.rows(`EXPLAIN QUERY PLAN ${sql}`, ...parameters).map(({ detail }) => String(detail));
    });
  }
  const FILTERS: readonly RunFilter[] = [
    { attributes: { rare: true } },
    { attributes: { tenant: "t5" } },
    { attributes: { tenant: { in: ["t1", "t2"] } } },
    { attributes: { amount: { gte: 500, lt: 600 } } },
    { attributes: { tenant: { prefix: "t9" } } },
    { attributes: { region: "eu", amount: { gt: 50_000 } } },
    { attributes: { region: "eu", tenant: "t5" }, status: ["pending"] },
    { attributes: { region: "eu" }, workflow: "order", queue: "default" },
    { version: "1" },
    { queue: "nothing" },
    { workflow: "nothing", status: ["pending"] },
    { key: "nothing" },
    { schedule: "nothing" },
    { idPrefix: "r77" },
    { parentId: "nothing" },
    { finishedSince: 5 },
    { workflow: ["order", "other"] },
    { status: ["pending", "failed"] },
  ];
  test.each(FILTERS)("B1 a page of %j reads no table from end to end", async (filter) => {
    const plan = await plansOf(() => bench.store.list({ ...filter, limit: 50 }));
    expect(plan.join("\n")).not.toMatch(/SCAN (r|a|b)\b(?! USING (COVERING )?INDEX holdfast_runs_by_creation)/);
    expect(plan.join("\n")).toMatch(/SEARCH (r|a) USING (COVERING )?INDEX/);
  });
  test.each(FILTERS)("B2 a count of %j reads no table from end to end", async (filter) => {
    const plan = await plansOf(() => bench.store.count(filter));
    expect(plan.join("\n")).not.toMatch(/SCAN (r|a|b)\b/);
  });
  test("B1 a page costs what it shows, or what the narrowest test matches", async () => {
    const read = async (filter: RunFilter): Promise<number> => {
      const spent: number[] = [];
      for (const _ of range(5)) {
        const began = worked();
        await bench.store.list({ ...filter, limit: 20 });
        spent.push(worked() - began);
      }
      return Math.min(...spent);
    };
    // A look at every run takes some 200 ms.
    for (const filter of FILTERS) expect(await read(filter), JSON.stringify(filter)).toBeLessThan(25);
  });
  test("B1 the rows of attributes go with their run", () => {
    shell.exec("DELETE FROM holdfast_runs WHERE id = 'r77'");
    expect(shell.rows("SELECT * FROM holdfast_attributes WHERE run NOT IN (SELECT key FROM holdfast_runs)")).toEqual([]);
    shell.close();
  });
});
