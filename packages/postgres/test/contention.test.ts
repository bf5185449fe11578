// Many connections at the same runs: no two wait for each other forever, nothing is lost, nothing is done twice.

import { jsonCodec } from "@holdfast/core";
import { expect, test } from "vitest";
import {
  COMPLETED,
  claim,
  draft,
  type Held,
  heldOf,
  newRun,
  range,
  running,
  type SettledStore,
  signal,
  turnOf,
  useDatabase,
} from "./support.ts";

const database = useDatabase();
const RETRY = { maxAttempts: 3, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 };
const value = jsonCodec.encode(1);

/** Whole numbers below `below`, the same for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = (seed + 1) * 2_654_435_761;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const deadlocks = async (): Promise<number> => {
  const [row] = await database.sql<{ deadlocks: string }>("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
  return Number(row?.deadlocks);
};

/** One process: claims what it finds and does at random whatever a store can be asked for, in batches that overlap with others'. */
async function live(store: SettledStore, name: string, ids: readonly string[], rounds: number): Promise<{ sent: number; turns: number }> {
  const random = randomOf(name.length * 7 + name.charCodeAt(name.length - 1));
  const pick = (): string => ids[random(ids.length)] ?? "";
  const some = <T>(make: () => T): T[] => range(1 + random(6)).map(make);
  let sent = 0;
  let turns = 0;
  const commitAll = async (held: readonly Held[]): Promise<void> => {
    const commits = held.map((one) => {
      const parent = { runId: one.runId, execution: one.execution, seq: one.turns + 1, parentClose: "terminate", announce: true } as const;
      const turn = turnOf(one);
      const more = [
        {},
        { lease: "park", status: "sleeping", wakeAt: 0 },
        { lease: "park", status: "sleeping", wakeAt: 0, sends: [{ seq: turn.index + 1, runId: pick(), message: { job: signal(name) } }] },
        {
          lease: "park",
          status: "sleeping",
          wakeAt: 0,
          children: [newRun(`${pick()}.${random(9)}`, { parent })],
          cancelChildren: [turn.index],
        },
        {
          lease: "park",
          status: "sleeping",
          wakeAt: 0,
          tasks: [{ seq: turn.index + 1, activity: "mail", queue: "t", input: value, retry: RETRY, location: "x" }],
        },
        COMPLETED,
      ][random(6)] as object;
      return draft(one, { turn, ...more });
    });
    for (const { status } of await store.commit(commits)) if (status === "committed") turns++;
  };
  for (const _ of range(rounds)) {
    await Promise.all([
      claim(store, { workerId: name, limit: 8, lease: 1 + random(20) }).then((runs) => commitAll(runs.map(heldOf))),
      store
        .send(some(() => ({ runId: pick(), message: { job: signal(name), ...(random(3) === 0 && { idempotencyKey: `k${random(50)}` }) } })))
        .then((results) => {
          for (const { status } of results) if (status === "sent") sent++;
        }),
      random(4) === 0 ? store.terminate(some(() => ({ runId: pick(), reason: undefined }))) : undefined,
      random(3) === 0
        ? store.create(some(() => newRun(pick(), { onConflict: "restart-if-closed", messages: [{ job: signal("with start") }] })))
        : undefined,
      random(3) === 0
        ? store.create(some(() => newRun(`${pick()}!${random(4)}`, { idempotencyKey: `start ${random(6)}`, onConflict: "use-existing" })))
        : undefined,
      random(3) === 0
        ? store.create(some(() => newRun(`${pick()}+${random(4)}`, { onConflict: "restart-if-closed", after: pick() })))
        : undefined,
      random(3) === 0
        ? store.create(some(() => newRun(pick(), { onConflict: "restart-if-closed", after: `${pick()}+${random(4)}` })))
        : undefined,
      random(2) === 0
        ? store.create(
            some(() => {
              const more = { messages: [{ job: signal("with start") }], ...(random(2) === 0 && { after: pick() }) };
              return newRun(pick(), {
                onConflict: random(2) === 0 ? "replace" : "debounce",
                idempotencyKey: `key ${random(999)}`,
                ...more,
              });
            }),
          )
        : undefined,
      random(3) === 0 ? store.send(some(() => ({ runId: pick(), message: { job: { type: "cancel" as const } } }))) : undefined,
      random(3) === 0 ? store.resume(some(pick)) : undefined,
      store.expire(),
      store
        .claimTasks({ workerId: name, queue: "t", activities: ["mail"], limit: 5, lease: 5 })
        .then(({ tasks }) => store.answerTasks(tasks.map((task) => ({ ...task, outcome: { status: "completed" as const, value } })))),
    ]);
  }
  return { sent, turns };
}

test("D3 processes that write to the same runs in every way there is do not deadlock", async () => {
  const schema = database.newSchema();
  const before = await deadlocks();
  const stores = await Promise.all(range(4).map(() => database.open({ schema, connections: 6 })));
  const ids = range(12).map((i) => `r${i}`);
  await stores[0]?.create(ids.map((id) => newRun(id)));
  const lives = await Promise.all(stores.map((store, i) => live(store, `process ${i}`, ids, 60)));
  expect(lives.every(({ sent, turns }) => sent > 0 && turns > 0)).toBe(true);
  expect(await deadlocks()).toBe(before);
  // What is left is sound: as many records as the rows say (those of a run that a worker has may be behind), no message of a closed run, no task without its run.
  const [unsound] = await database.sql<Record<string, number>>(`SELECT
    (SELECT count(*)::int FROM "${schema}".runs r WHERE r.history_length <> (SELECT count(*) FROM "${schema}".records h WHERE h.run = r.key AND h.execution = r.execution
      AND (h.turn < r.turns OR r.worker_id IS NULL))) AS histories,
    (SELECT count(*)::int FROM "${schema}".runs r WHERE r.finished_at IS NOT NULL AND NOT r.resumable AND EXISTS (SELECT 1 FROM "${schema}".inbox b WHERE b.run = r.key)) AS inboxes,
    (SELECT count(*)::int FROM "${schema}".tasks t WHERE NOT EXISTS (SELECT 1 FROM "${schema}".runs r WHERE r.key = t.run AND r.finished_at IS NULL)) AS tasks,
    (SELECT count(*)::int FROM "${schema}".runs r WHERE (r.finished_at IS NULL) <> (r.ended_as IS NULL) OR r.finished_at IS NOT NULL AND r.available_at IS NOT NULL) AS ends,
    (SELECT count(*)::int FROM "${schema}".inbox b JOIN "${schema}".runs r ON r.key = b.run WHERE b.id > r.last_message) AS unseen,
    -- Q9: what waits with a next start belongs to an open run that has one.
    (SELECT count(*)::int FROM "${schema}".runs r WHERE r.has_next <> EXISTS (SELECT 1 FROM "${schema}".next_starts n WHERE n.run = r.key) OR r.has_next AND r.finished_at IS NOT NULL)
      + (SELECT count(*)::int FROM "${schema}".inbox b WHERE b.run < 0 AND NOT EXISTS (SELECT 1 FROM "${schema}".next_starts n WHERE n.run = -b.run)) AS next,
    -- Q10: every run that waits for another is available one day: that is open, and its row says that it is awaited.
    (SELECT count(*)::int FROM "${schema}".runs r WHERE r.after_id IS NOT NULL AND (r.finished_at IS NOT NULL OR r.available_at IS NOT NULL
      OR NOT EXISTS (SELECT 1 FROM "${schema}".runs o WHERE o.id = r.after_id AND o.finished_at IS NULL AND o.awaited))) AS orphans`);
  expect(unsound).toEqual({ histories: 0, inboxes: 0, tasks: 0, ends: 0, unseen: 0, next: 0, orphans: 0 });
}, 120_000);

test("W3 claimers take turns at one lane: every run once, however many there are", async () => {
  const schema = database.newSchema();
  const stores = await Promise.all(range(4).map(() => database.open({ schema })));
  const ids = range(400).map((i) => `r${i}`);
  await stores[0]?.create(ids.map((id) => newRun(id)));
  const claimed: string[] = [];
  await Promise.all(
    stores.flatMap((store, i) =>
      range(3).map(async (n) => {
        for (;;) {
          const runs = await claim(store, { workerId: `w${i}.${n}`, limit: 7 });
          if (runs.length === 0 && claimed.length >= ids.length) return;
          claimed.push(...runs.map(({ run }) => run.id));
        }
      }),
    ),
  );
  expect(claimed.toSorted()).toEqual(ids.toSorted());
}, 60_000);

test("K5 K6 a parent and its child that end in one batch each end as they say, whichever comes first", async () => {
  const store = await database.open({ schema: database.newSchema() });
  for (const order of ["parent first", "child first"]) {
    const [p, c] = [`p, ${order}`, `c, ${order}`];
    const parent = { runId: p, execution: 1, seq: 1, parentClose: "terminate", announce: false } as const;
    await store.create([newRun(p), newRun(c, { parent })]);
    const held = (await claim(store)).map(heldOf);
    const commits = held.map((one) => draft(one, { ...COMPLETED, turn: turnOf(one) }));
    const results = await store.commit(order === "parent first" ? commits : commits.toReversed());
    expect(results.map(({ status }) => status)).toEqual(["committed", "committed"]);
    const rows = await store.get([p, c]);
    expect(rows.map((row) => [row?.status, row?.turns, row?.historyLength])).toEqual([
      ["completed", 1, 1],
      ["completed", 1, 1],
    ]);
  }
});

test("D3 a lock that another transaction holds on the row of one run does not hold up the turns of others", async () => {
  const schema = database.newSchema();
  const store = await database.open({ schema });
  const [a, b] = [await running(store, "a"), await running(store, "b")];
  const client = await database.client();
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.runs WHERE id = 'a' FOR UPDATE`);
  let isOver = false;
  const first = store.commit([draft(a, { turn: turnOf(a) })]).finally(() => {
    isOver = true;
  });
  const second = await store.commit([draft(b, { turn: turnOf(b) })]);
  expect(second).toMatchObject([{ status: "committed" }]);
  expect(isOver).toBe(false);
  await client.query("ROLLBACK");
  expect(await first).toMatchObject([{ status: "committed" }]);
});
