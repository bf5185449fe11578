// Queues on a real server: many claimers at the same time, fairness among many keys, and random histories held against a plain model.

import { jsonCodec } from "@holdfast/core";
import type { ClaimedRun, NewRun, StoredQueueSpec } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { COMPLETED, draft, type Held, heldOf, newRun, range, type TestStore, turnOf, until, useDatabase } from "./support.ts";

const database = useDatabase();
const Q = "limited";
const LEASE = 30_000;

async function claimed(
  store: TestStore,
  workerId: string,
  limit: number,
): Promise<{ held: Held[]; nextAt: number | undefined; now: number }> {
  const serves = [{ workflow: "order", versions: "*" }] as const;
  const { runs, nextAt, now } = await store.claim({ workerId, queue: Q, serves, limit, lease: LEASE, cached: () => undefined });
  return { held: runs.map(heldOf), nextAt, now };
}
async function add(store: TestStore, ids: readonly string[], more: Partial<NewRun> = {}): Promise<void> {
  await store.create(ids.map((id) => newRun(id, { queue: Q, ...more })));
}
const close = (store: TestStore, held: Held) => store.commit([draft(held, { turn: turnOf(held), lease: "park", ...COMPLETED })]);
const park = (store: TestStore, held: Held, wakeAt: number) =>
  store.commit([draft(held, { turn: turnOf(held), lease: "park", status: "sleeping", wakeAt })]);

describe("many claimers at the same time", () => {
  /** As many as workers have at one moment, by key: one statement sees one moment. */
  function watchHeld(schema: string): { stop: () => Promise<{ total: number; key: number; samples: number }> } {
    let isOver = false;
    const most = { total: 0, key: 0, samples: 0 };
    const watching = (async () => {
      const client = await database.client();
      while (!isOver) {
        const { rows } = await client.query<{ n: number }>(
          `SELECT count(*)::integer AS n FROM ${schema}.runs WHERE worker_id IS NOT NULL GROUP BY work_key`,
        );
        const counts = rows.map(({ n }) => n);
        most.total = Math.max(most.total, counts.reduce((sum, n) => sum + n, 0)); // biome-ignore format: one line
        most.key = Math.max(most.key, ...counts);
        most.samples++;
      }
    })();
    return {
      stop: async () => {
        isOver = true;
        await watching;
        return most;
      },
    };
  }

  test("Q2 never more are held than the limits of the queue and of its keys, and all of it is done", { timeout: 60_000 }, async () => {
    const schema = database.newSchema();
    const stores = await Promise.all(range(4).map(() => database.open({ schema, connections: 2 })));
    const [first] = stores as [TestStore];
    await first.setQueue(Q, { concurrency: 5, perKey: { concurrency: 2 } });
    const count = 120;
    for (const key of ["a", "b", "c", "d"]) await add(first, range(count / 4).map((i) => `${key}${i}`), { key }); // biome-ignore format: one line
    const watched = watchHeld(schema);
    const here = new Set<string>();
    let most = 0;
    let done = 0;
    const work = async (store: TestStore, name: string): Promise<void> => {
      while (done < count) {
        const { held } = await claimed(store, name, 4);
        for (const { runId } of held) {
          expect(here.has(runId)).toBe(false);
          here.add(runId);
        }
        most = Math.max(most, here.size);
        for (const one of held) {
          here.delete(one.runId);
          await close(store, one);
          done++;
        }
        if (held.length === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await Promise.all(stores.flatMap((store, i) => [work(store, `w${i}a`), work(store, `w${i}b`)]));
    const seen = await watched.stop();
    expect(seen.samples).toBeGreaterThan(10);
    expect(seen.total).toBeLessThanOrEqual(5);
    expect(seen.key).toBeLessThanOrEqual(2);
    expect(most).toBeLessThanOrEqual(5);
    expect(done).toBe(count);
  });

  test("Q4 no window has more starts than the rate, by the times that the store has recorded", { timeout: 60_000 }, async () => {
    const schema = database.newSchema();
    const stores = await Promise.all(range(3).map(() => database.open({ schema, connections: 2 })));
    const [first] = stores as [TestStore];
    const rate = { limit: 7, per: 150 };
    await first.setQueue(Q, { rate, perKey: { rate: { limit: 3, per: 150 } } });
    const count = 40;
    await add(first, range(count).map((i) => `r${i}`), {}); // biome-ignore format: one line
    await add(first, range(10).map((i) => `k${i}`), { key: "k" }); // biome-ignore format: one line
    let done = 0;
    const work = async (store: TestStore, name: string): Promise<void> => {
      while (done < count + 10) {
        const { held, nextAt, now } = await claimed(store, name, 5);
        for (const one of held) await close(store, one);
        done += held.length;
        // Q7: when there is room again is known.
        if (held.length === 0 && done < count + 10) {
          expect(nextAt).toBeDefined();
          const wait = Math.max(1, (nextAt ?? now) - now);
          await new Promise((resolve) => setTimeout(resolve, Math.min(wait, 200)));
        }
      }
    };
    await Promise.all(stores.map((store, i) => work(store, `w${i}`)));
    const rows = await database.sql<{ at: string; work_key: string | null }>(`SELECT started_at AS at, work_key FROM ${schema}.runs`);
    const starts = rows.map(({ at, work_key }) => ({ at: Number(at), key: work_key }));
    const inWindow = (from: number, key?: string) =>
      starts.filter((start) => start.at >= from && start.at < from + 150 && (key === undefined || start.key === key)).length;
    for (const { at } of starts) {
      expect(inWindow(at)).toBeLessThanOrEqual(7);
      expect(inWindow(at, "k")).toBeLessThanOrEqual(3);
    }
  });

  test("Q1 Q2 limits that come while others claim and begin runs count all that is under way", { timeout: 60_000 }, async () => {
    const schema = database.newSchema();
    const stores = await Promise.all(range(3).map(() => database.open({ schema, connections: 2 })));
    const [first] = stores as [TestStore];
    const began: Held[] = [];
    for (const round of range(6)) {
      await first.deleteQueue(Q);
      await add(first, range(12).map((i) => `waits ${round} ${i}`)); // biome-ignore format: one line
      const begin = async (store: TestStore, i: number): Promise<void> => {
        const id = `begins ${round} ${i}`;
        const held = { runId: id, execution: 1, epoch: 1, workerId: "w", turns: 0 };
        const commit = draft(held, { turn: turnOf(held) });
        const [result] = await store.create([newRun(id, { queue: Q, first: { workerId: "w", lease: LEASE, commit } })]);
        if (result?.status === "created" && result.begun !== false) began.push(held);
      };
      await begin(first, -1);
      const claims = stores.map((store, i) => claimed(store, `w${i}`, 3));
      const begins = range(9).map((i) => begin(stores[i % 3] as TestStore, i));
      await Promise.all([first.setQueue(Q, { concurrency: 2 }), ...begins, ...claims]);
      const [leased] = await database.sql<{ n: number; filed: number }>(
        `SELECT count(*)::integer AS n, (count(*) FILTER (WHERE lane < 0))::integer AS filed FROM ${schema}.runs WHERE worker_id IS NOT NULL`,
      );
      // What had begun before the limits goes on, and all of it counts.
      expect(leased?.filed).toBe(leased?.n);
      expect((await first.getQueue(Q)).runs.held).toBe(leased?.n);
      if ((leased?.n ?? 0) >= 2) expect((await claimed(first, "late", 5)).held).toEqual([]);
      const open = await database.sql<{ id: string }>(`SELECT id FROM ${schema}.runs WHERE finished_at IS NULL`);
      await first.terminate(open.map(({ id }) => ({ runId: id, reason: undefined })));
    }
    expect(began.length).toBeGreaterThanOrEqual(6);
  });
});

test("Q1 another process that opens the store leaves filed runs as they are, and files those whose lane was damaged", async () => {
  const schema = database.newSchema();
  const store = await database.open({ schema });
  await store.setQueue(Q, { concurrency: 2 });
  await add(store, ["keyed", "waits"], { key: "k" });
  await add(store, ["plain"]);
  await claimed(store, "w", 2);
  await store.create([newRun("elsewhere")]);
  const lanes = () => database.sql<{ id: string; lane: number }>(`SELECT id, lane FROM ${schema}.runs ORDER BY id`);
  const before = await lanes();
  expect(before.filter(({ lane }) => lane < 0).length).toBeGreaterThanOrEqual(2);
  await database.open({ schema });
  expect(await lanes()).toEqual(before);
  await database.sql(`UPDATE ${schema}.runs SET lane = 999`);
  await database.open({ schema });
  const after = await lanes();
  expect(after.filter(({ id }) => id === "keyed" || id === "waits")).toEqual(before.filter(({ id }) => id === "keyed" || id === "waits"));
  expect(after.map(({ lane }) => Math.abs(lane))).toEqual(before.map(({ lane }) => Math.abs(lane)));
});

test("Q7 the slot of an activity that has ended is announced to workers that claim activities", async () => {
  const store = await database.open({ schema: database.newSchema() });
  await store.setQueue(Q, { concurrency: 1 });
  await store.create([newRun("r", { queue: "runs" })]);
  const serves = [{ workflow: "order", versions: "*" }] as const;
  const { runs } = await store.claim({ workerId: "w", queue: "runs", serves, limit: 1, lease: LEASE, cached: () => undefined });
  const held = heldOf(runs[0] as ClaimedRun);
  const retry = { maxAttempts: 1, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 };
  const tasks = range(2).map((seq) => ({ seq, activity: "act", queue: Q, input: jsonCodec.encode(seq), retry, location: `act#${seq}` }));
  await store.commit([draft(held, { turn: turnOf(held), lease: "park", status: "sleeping", tasks })]);
  const claimTasks = () => store.claimTasks({ workerId: "w", queue: Q, activities: ["act"], limit: 5, lease: LEASE });
  const [task, ...others] = (await claimTasks()).tasks;
  expect(others).toEqual([]);
  let isTold = false;
  const stop = store.watch((wakeup) => {
    isTold ||= wakeup.tasks === true;
  });
  await store.answerTasks([{ id: task?.id ?? 0, token: task?.token ?? 0, outcome: { status: "completed", value: jsonCodec.encode(1) } }]);
  stop();
  expect(isTold).toBe(true);
  expect((await claimTasks()).tasks.length).toBe(1);
});

test("D3 B3 claims that cover each other's queues lock them in one order, and don't wait for each other in a circle", async () => {
  const schema = database.newSchema();
  const store = await database.open({ schema });
  for (const queue of ["a", "b"]) {
    await store.setQueue(queue, { concurrency: 1 });
    await store.create([newRun(`of ${queue}`, { queue })]);
  }
  const client = await database.client();
  const isLocked = (queue: string): Promise<boolean> =>
    client.query(`SAVEPOINT s; SELECT 1 FROM ${schema}.queues WHERE name = '${queue}' FOR NO KEY UPDATE NOWAIT; ROLLBACK TO s`).then(
      () => false,
      () => client.query("ROLLBACK TO s").then(() => true),
    );
  const covering = (workerId: string, queue: string, other: string) => {
    const serves = [queue, other].map((name) => ({ workflow: "order", versions: "*" as const, ...(name !== queue && { queue: name }) }));
    return store.claim({ workerId, queue, serves, limit: 5, lease: LEASE, cached: () => undefined });
  };
  const waiting = async (count: number): Promise<boolean> => {
    const sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    return (await database.sql(sql)).length === count;
  };
  await client.query(`BEGIN; SELECT 1 FROM ${schema}.queues WHERE name = 'a' FOR NO KEY UPDATE`);
  const claims = [covering("w1", "b", "a")];
  await until(() => waiting(1), "the first claim waits");
  claims.push(covering("w2", "a", "b"));
  await until(() => waiting(2), "both claims wait");
  expect(await isLocked("b")).toBe(false);
  await client.query("ROLLBACK");
  const claimedIds = (await Promise.all(claims)).flatMap(({ runs }) => runs.map(({ run }) => run.id));
  expect(claimedIds.toSorted()).toEqual(["of a", "of b"]);
});

describe("fairness", () => {
  test("Q5 1,000 keys, one with most of the backlog: what each was served differs by at most one", { timeout: 120_000 }, async () => {
    const schema = database.newSchema();
    const stores = await Promise.all(range(2).map(() => database.open({ schema, connections: 2 })));
    const [store] = stores as [TestStore];
    await add(store, ["warm"], { key: "warm" });
    await claimed(store, "w", 1);
    // The backlog as senders would have made it, at once: first all of the large one, then three runs of each of the others.
    await database.sql(
      `INSERT INTO ${schema}.runs (key, id, workflow, queue, priority, lane, status, available_at, created_at, work_key)
       SELECT nextval('${schema}.run_keys'), 'b' || i, 'order', '${Q}', 0, (SELECT -lane FROM ${schema}.lanes WHERE queue = '${Q}'), 'pending', 1000 + i, 1000 + i,
         CASE WHEN i <= 9000 THEN 'large' ELSE 'k' || i % 999 END FROM generate_series(1, 9000 + 999 * 3) i`,
    );
    await database.sql(
      `INSERT INTO ${schema}.executions (run, execution, workflow, seed, input) SELECT key, 1, 'order', 's', 'null' FROM ${schema}.runs WHERE id LIKE 'b%'`,
    );
    const served = new Map<string, number>();
    const ids: string[] = [];
    while (ids.length < 2_500) {
      const claims = await Promise.all(stores.map((one, i) => claimed(one, `w${i}`, 100)));
      ids.push(...claims.flatMap(({ held }) => held.map(({ runId }) => runId)));
    }
    const keys = await database.sql<{ id: string; work_key: string }>(`SELECT id, work_key FROM ${schema}.runs WHERE id LIKE 'b%'`);
    const keyOf = new Map(keys.map(({ id, work_key }) => [id, work_key]));
    for (const id of ids) served.set(keyOf.get(id) ?? "", (served.get(keyOf.get(id) ?? "") ?? 0) + 1);
    expect(served.size).toBe(1_000);
    const counts = [...served.values()];
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
  });
});

describe("random histories", () => {
  /** A sequence of numbers in [0, 1) that is the same for the same seed. */
  function randomOf(seed: number): () => number {
    let state = seed * 2_654_435_761;
    return () => {
      state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 374_761_393) | 0;
      return ((state ^ (state >>> 13)) >>> 0) / 4_294_967_296;
    };
  }
  interface Known {
    readonly id: string;
    readonly key: string | undefined;
    readonly priority: number;
    dueAt: number;
    isStarted: boolean;
    held: Held | undefined;
    leasedUntil: number;
  }
  const SPECS: readonly StoredQueueSpec[] = [
    { concurrency: 3 },
    { concurrency: 4, perKey: { concurrency: 1 } },
    {
      perKey: { concurrency: 2, rate: { limit: 2, per: 400 } },
      keys: { a: { concurrency: 1 }, b: { weight: 3, rate: { limit: 1, per: 900 } } },
    },
    { rate: { limit: 3, per: 500 }, perKey: { concurrency: 2 } },
    { concurrency: 2, rate: { limit: 5, per: 700 }, keys: { c: { rate: { limit: 1, per: 300 } } } },
  ];

  test.each(range(10 * Number(process.env["PROPERTY_RUNS"] ?? 1)))(
    "Q2 Q3 Q4 Q6 Q7 Q8 seed %i: claims keep every limit, and leave nothing that could be had",
    { timeout: 60_000 },
    async (seed) => {
      const random = randomOf(seed + 1);
      const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
      let time = 1_000_000;
      const store = await database.open({ schema: await database.emptySchema(), clock: () => time });
      let spec = SPECS[seed % SPECS.length] as StoredQueueSpec;
      await store.setQueue(Q, spec);
      const runs = new Map<string, Known>();
      const starts: { readonly at: number; readonly key: string | undefined }[] = [];
      const paused = new Map<string, number>();
      const isPaused = (key: string): boolean => (paused.get(key) ?? 0) > time;
      const limitOf = (key: string | undefined) => {
        if (key === undefined) return {};
        const { concurrency = spec.perKey?.concurrency, rate = spec.perKey?.rate } = spec.keys?.[key] ?? {};
        return { concurrency, rate };
      };
      const leased = (key?: string) =>
        [...runs.values()].filter((run) => run.held !== undefined && (key === undefined || run.key === key)).length;
      const started = (per: number, key?: string) =>
        starts.filter(({ at, key: of }) => at > time - per && (key === undefined || of === key)).length;
      /** Could this one be claimed now, by what the rules say? */
      const isAdmissible = (run: Known): boolean => {
        if (isPaused("queue") || (run.key !== undefined && isPaused(`key ${run.key}`))) return false;
        if (run.held !== undefined) return run.leasedUntil <= time;
        if (run.dueAt > time) return false;
        const own = limitOf(run.key);
        if (spec.concurrency !== undefined && leased() >= spec.concurrency) return false;
        if (own.concurrency !== undefined && leased(run.key) >= own.concurrency) return false;
        if (run.isStarted) return true;
        if (spec.rate !== undefined && started(spec.rate.per) >= spec.rate.limit) return false;
        return own.rate === undefined || started(own.rate.per, run.key) < own.rate.limit;
      };
      let count = 0;
      for (const _ of range(70)) {
        const act = random();
        if (act < 0.35) {
          const key = pick([undefined, "a", "b", "c"]);
          const priority = pick([0, 0, 0, 2]);
          const delay = pick([0, 0, 0, 250]);
          const ids = range(1 + Math.floor(random() * 4)).map(() => `r${count++}`);
          await add(store, ids, { key, priority, delay });
          for (const id of ids) runs.set(id, { id, key, priority, dueAt: time + delay, isStarted: false, held: undefined, leasedUntil: 0 });
        } else if (act < 0.7) {
          const limit = pick([1, 2, 5]);
          const { held, nextAt } = await claimed(store, pick(["w1", "w2"]), limit);
          for (const one of held) {
            const run = runs.get(one.runId) as Known;
            expect([run.id, isAdmissible(run)]).toEqual([run.id, true]);
            if (!run.isStarted) starts.push({ at: time, key: run.key });
            run.isStarted = true;
            run.held = one;
            run.leasedUntil = time + LEASE;
          }
          const lowest = Math.min(...held.map(({ runId }) => runs.get(runId)?.priority ?? 0));
          const left = [...runs.values()].filter((run) => !held.some(({ runId }) => runId === run.id) && isAdmissible(run));
          // Work conserving, and by priority.
          if (held.length < limit) expect(left.map(({ id }) => id)).toEqual([]);
          else expect(left.filter(({ priority }) => priority > lowest)).toEqual([]);
          if (held.length < limit && nextAt !== undefined) expect(nextAt).toBeGreaterThan(time);
        } else if (act < 0.85) {
          const run = pick([...runs.values()].filter(({ held, leasedUntil }) => held !== undefined && leasedUntil > time));
          if (run?.held === undefined) continue;
          if (random() < 0.5) {
            await close(store, run.held);
            runs.delete(run.id);
          } else {
            run.dueAt = time + pick([0, 100]);
            await park(store, run.held, run.dueAt);
          }
          run.held = undefined;
        } else if (act < 0.93) time += pick([1, 100, 250, 500, LEASE + 1]);
        else if (act < 0.96) {
          // What is held stays, also what is over the new limits. Starts before a rate was set are not known: none is in a window any more.
          time += 1_000;
          spec = pick(SPECS);
          await store.setQueue(Q, spec);
        } else {
          const key = pick([undefined, "a", "b"]);
          const length = pick([100, 300]);
          await store.pauseQueue(Q, { key, for: length });
          paused.set(key === undefined ? "queue" : `key ${key}`, time + length);
        }
      }
      // In the end all of it is done.
      time += 1_000;
      for (let rounds = 0; runs.size > 0 && rounds < 400; rounds++) {
        const { held } = await claimed(store, "w1", 10);
        for (const one of held) (runs.get(one.runId) as Known).held = one;
        for (const run of [...runs.values()]) {
          if (run.held === undefined) continue;
          const [result] = await close(store, run.held);
          if (result?.status === "committed") runs.delete(run.id);
        }
        time += 400;
      }
      expect([...runs.keys()]).toEqual([]);
      expect((await store.getQueue(Q)).runs).toEqual({ waiting: 0, held: 0, oldest: undefined });
    },
  );
});
