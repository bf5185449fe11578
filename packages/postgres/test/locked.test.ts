// Rows that are locked for longer than a moment, by a person at a console or a transaction that is still open: only the run itself waits.

import { jsonCodec, signal as type, workflow } from "@holdfast/core";
import { realEnvironment } from "@holdfast/host";
import { Holdfast } from "holdfast";
import { type AddressedMessage, Batcher, type NewTask, type SendResult, sizeOfMessage } from "holdfast/store";
import type { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { PostgresStore } from "../src/index.ts";
import { claim, draft, type Held, inboxOf, newRun, range, running, signal, type TestStore, turnOf, until, useDatabase } from "./support.ts";

const database = useDatabase();
const START = 1_000_000;
const LEASE = 30_000;

interface Bench {
  readonly store: TestStore;
  /** The same, as it is. */
  readonly bare: PostgresStore;
  readonly schema: string;
  time: number;
}
async function bench(): Promise<Bench> {
  const schema = database.newSchema();
  const clock = { time: START };
  const store = await database.open({ schema, clock: () => clock.time });
  const bare = await database.openBare({ schema, clock: () => clock.time });
  return Object.assign(clock, { store, bare, schema });
}
/** Another transaction locks this run until it ends. */
async function lock({ schema }: Bench, id: string, mode: "UPDATE" | "NO KEY UPDATE" = "UPDATE"): Promise<Client> {
  const client = await database.client();
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.runs WHERE id = $1 FOR ${mode}`, [id]);
  return client;
}
/** As an engine sends: those to one run keep their order. */
function senderOf({ bare }: Bench): (message: AddressedMessage) => Promise<SendResult> {
  const batcher = new Batcher<AddressedMessage, SendResult>(realEnvironment, (messages, wait) => bare.send(messages, wait), {
    limits: bare.limits,
    keyOf: ({ runId }) => runId,
    sizeOf: sizeOfMessage,
  });
  return (message) => batcher.add(message);
}
/** A signal in a transaction of the caller's own: it goes by mail. */
async function post({ store }: Bench, ...signals: readonly (readonly [runId: string, id: string])[]): Promise<void> {
  const client = await database.client();
  await client.query("BEGIN");
  await store.within(client).send(signals.map(([runId, id]) => ({ runId, message: { job: signal(id) } })));
  await client.query("COMMIT");
}
const signalsOf = async ({ store }: Bench, held: Held): Promise<unknown[]> =>
  (await inboxOf(store, held)).map(({ job }) => (job.type === "signal" ? job.id : job.type));
const leaseOf = async ({ store }: Bench, id: string): Promise<number | undefined> => (await store.get([id]))[0]?.availableAt;

test("W3 leases of other runs are renewed while another transaction has one run locked, and that one is held", async () => {
  const here = await bench();
  const held = [await running(here.store, "a"), await running(here.store, "b"), await running(here.store, "c")];
  const client = await lock(here, "b");
  here.time += LEASE / 2;
  const claims = held.map(({ runId, epoch }) => ({ runId, epoch, seen: 0 }));
  const kept = { held: true, inbox: [] };
  expect(await here.bare.renew("w1", LEASE, claims)).toEqual([kept, "busy", kept]);
  expect(await leaseOf(here, "a")).toBe(here.time + LEASE);
  expect(await leaseOf(here, "b")).toBe(START + LEASE);
  expect(await leaseOf(here, "c")).toBe(here.time + LEASE);
  await client.query("ROLLBACK");
  expect(await here.store.renew("w1", LEASE, claims)).toEqual([kept, kept, kept]);
  expect(await leaseOf(here, "b")).toBe(here.time + LEASE);
});

test("W3 a lease whose run is locked for the length of a commit is still renewed", async () => {
  const here = await bench();
  const { runId, epoch } = await running(here.store, "a");
  here.time += LEASE / 2;
  const client = await lock(here, "a");
  const claims = [{ runId, epoch, seen: 0 }];
  expect(await here.bare.renew("w1", LEASE, claims)).toEqual(["busy"]);
  const renewed = here.store.renew("w1", LEASE, claims);
  await client.query("COMMIT");
  expect(await renewed).toEqual([{ held: true, inbox: [] }]);
  expect(await leaseOf(here, "a")).toBe(here.time + LEASE);
});

test("K7 deadlines of other runs strike while another transaction has one run locked; that one's is not forgotten", async () => {
  const here = await bench();
  const ids = ["a", "b", "c"];
  await here.store.create(ids.map((id) => newRun(id, { deadline: 10 })));
  const client = await lock(here, "b");
  here.time += 10;
  expect((await here.store.expire()).expired).toBe(2);
  const statuses = async (): Promise<unknown[]> => (await here.store.get(ids)).map((run) => run?.status);
  expect(await statuses()).toEqual(["failed", "pending", "failed"]);
  await client.query("ROLLBACK");
  expect((await here.store.expire()).expired).toBe(1);
  expect(await statuses()).toEqual(["failed", "failed", "failed"]);
});

test("K7 K6 a deadline waits if another transaction has locked what its end would reach: a child, a parent", async () => {
  const here = await bench();
  const parent = { runId: "parent", execution: 1, seq: 1, parentClose: "terminate", announce: false } as const;
  await here.store.create([newRun("parent"), newRun("middle", { parent, deadline: 10 })]);
  await here.store.create([newRun("child", { parent: { ...parent, runId: "middle" } })]);
  here.time += 10;
  for (const other of ["parent", "child"]) {
    const client = await lock(here, other);
    expect((await here.store.expire()).expired).toBe(0);
    await client.query("ROLLBACK");
  }
  expect((await here.store.expire()).expired).toBe(1);
  expect((await here.store.get(["middle", "child"])).map((run) => run?.status)).toEqual(["failed", "terminated"]);
});

test("M1 mail for other runs is delivered while another transaction has one run locked; its own follows, in order", async () => {
  const here = await bench();
  const [a, b] = [await running(here.store, "a"), await running(here.store, "b")];
  // As a turn locks it: that lets callers post.
  const client = await lock(here, "a", "NO KEY UPDATE");
  await post(here, ["a", "a1"], ["b", "b1"], ["a", "a2"], ["b", "b2"]);
  await here.store.expire();
  expect(await signalsOf(here, b)).toEqual(["b1", "b2"]);
  expect(await signalsOf(here, a)).toEqual([]);
  await client.query("ROLLBACK");
  await here.store.expire();
  expect(await signalsOf(here, a)).toEqual(["a1", "a2"]);
});

test("M1 mail that can't be delivered is kept with the reason, and stops no other", async () => {
  const here = await bench();
  const [a, b] = [await running(here.store, "a"), await running(here.store, "b")];
  const s = here.schema;
  await database.sql(`ALTER TABLE ${s}.inbox ADD CONSTRAINT nothing_bad CHECK (refs[1] <> 'bad')`);
  await database.sql(`INSERT INTO ${s}.mail (run_id, posted_at, message) VALUES ('a', 0, '{"y":"signal","q":"no number"}')`);
  await post(here, ["a", "bad"], ["a", "good"], ["b", "good"]);
  await here.store.expire();
  expect(await signalsOf(here, a)).toEqual(["good"]);
  expect(await signalsOf(here, b)).toEqual(["good"]);
  const kept = (): Promise<unknown[]> => database.sql(`SELECT run_id, error FROM ${s}.mail ORDER BY id`);
  expect(await kept()).toEqual([
    { run_id: "a", error: expect.stringContaining("no number") },
    { run_id: "a", error: expect.stringContaining("nothing_bad") },
  ]);
  // Once the cause is fixed.
  await database.sql(`ALTER TABLE ${s}.inbox DROP CONSTRAINT nothing_bad`);
  await database.sql(`UPDATE ${s}.mail SET error = NULL`);
  await here.store.expire();
  expect(await signalsOf(here, a)).toEqual(["good", "bad"]);
  expect(await kept()).toHaveLength(1);
});

test("M1 more mail than goes at once is delivered, in order", async () => {
  const here = await bench();
  const a = await running(here.store, "a");
  const ids = range(150).map((i) => `s${i}`);
  await post(here, ...ids.map((id) => ["a", id] as const));
  await here.store.expire();
  expect(await signalsOf(here, a)).toEqual(ids);
});

const RETRY = { maxAttempts: 1, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 };
const mailing = (): NewTask => ({
  seq: 1,
  activity: "mail",
  queue: "t",
  input: jsonCodec.encode(1),
  retry: RETRY,
  location: "x",
  startToClose: 10,
});
async function withTask({ store }: Bench, id: string): Promise<Held> {
  const held = await running(store, id);
  await store.commit([draft(held, { turn: turnOf(held), tasks: [mailing()] })]);
  return held;
}
const claimTasks = ({ store }: Bench): ReturnType<TestStore["claimTasks"]> =>
  store.claimTasks({ workerId: "w1", queue: "t", activities: ["mail"], limit: 10, lease: LEASE });

test("D11 activities of other runs time out while another transaction has one run locked; that run's is not forgotten", async () => {
  const here = await bench();
  const held = [await withTask(here, "a"), await withTask(here, "b"), await withTask(here, "c")];
  expect((await claimTasks(here)).tasks).toHaveLength(3);
  const client = await lock(here, "b");
  here.time += 10;
  await here.store.expire();
  const outcomes = (): Promise<unknown[]> => Promise.all(held.map((one) => signalsOf(here, one)));
  expect(await outcomes()).toEqual([["resolve"], [], ["resolve"]]);
  await client.query("ROLLBACK");
  await here.store.expire();
  expect(await outcomes()).toEqual([["resolve"], ["resolve"], ["resolve"]]);
});

test("V4 a worker that starts tries blocked runs while another transaction has one of them locked", async () => {
  const here = await bench();
  const blocked = { error: { name: "E", message: "m" }, code: "old" };
  for (const id of ["a", "b"]) {
    const held = await running(here.store, id);
    await here.store.commit([draft(held, { turn: turnOf(held), status: "blocked", lease: "park", blocked })]);
  }
  await lock(here, "a");
  expect((await claim(here.store, { queue: "queue of a", blockedAfter: 0 })).map(({ run }) => run.id)).toEqual([]);
  expect((await claim(here.store, { queue: "queue of b", blockedAfter: 0 })).map(({ run }) => run.id)).toEqual(["b"]);
});

test("M1 D3 signals to other runs are sent while another transaction has one run locked; those to that one follow, in order", async () => {
  const here = await bench();
  const [a, b] = [await running(here.store, "a"), await running(here.store, "b")];
  const client = await lock(here, "a");
  const sent = senderOf(here);
  const send = (runId: string, id: string, more = {}): Promise<unknown> => sent({ runId, message: { job: signal(id), ...more } });
  const first = [send("a", "a1"), send("b", "b1")];
  expect(await first[1]).toMatchObject({ status: "sent" });
  const second = [send("a", "a2", { idempotencyKey: "k" }), send("b", "b2", { idempotencyKey: "k" }), send("a", "a3")];
  expect(await second[1]).toMatchObject({ status: "sent" });
  expect(await signalsOf(here, b)).toEqual(["b1", "b2"]);
  expect(await signalsOf(here, a)).toEqual([]);
  await client.query("ROLLBACK");
  await Promise.all([...first, ...second]);
  expect(await signalsOf(here, a)).toEqual(["a1", "a2", "a3"]);
});

test("K1 D3 a cancel waits for the transaction that has the run's parent locked, and a signal after it waits with it", async () => {
  const here = await bench();
  const parent = { runId: "parent", execution: 1, seq: 1, parentClose: "abandon", announce: false } as const;
  await here.store.create([newRun("parent"), newRun("child", { parent }), newRun("other")]);
  const client = await lock(here, "parent");
  const send = senderOf(here);
  const cancel = (runId: string): Promise<unknown> => send({ runId, message: { job: { type: "cancel" } } });
  const canceled = cancel("child");
  expect(await cancel("other")).toMatchObject({ status: "sent" });
  const signaled = send({ runId: "child", message: { job: signal("s") } });
  expect(await send({ runId: "parent-to-be", message: { job: signal("s") } })).toEqual({ status: "not-found" });
  expect((await here.store.get(["child", "other"])).map((run) => run?.status)).toEqual(["pending", "canceled"]);
  await client.query("ROLLBACK");
  expect([await canceled, await signaled]).toMatchObject([{ status: "sent" }, { status: "closed", runStatus: "canceled" }]);
});

test("M1 a signal to a run that another transaction keeps locked is busy, however long it is asked for, and is not sent later", async () => {
  const here = await bench();
  const a = await running(here.store, "a");
  const client = await lock(here, "a");
  const send = (id: string, wait: boolean) => here.bare.send([{ runId: "a", message: { job: signal(id) } }], wait);
  expect([await send("s", false), await send("s", true)]).toEqual([["busy"], ["busy"]]);
  await client.query("ROLLBACK");
  expect(await send("s2", false)).toMatchObject([{ status: "sent" }]);
  expect(await signalsOf(here, a)).toEqual(["s2"]);
});

test("D11 D3 activities of other runs are answered while another transaction has one run locked, and that one's answer counts later", async () => {
  const here = await bench();
  const held = [await withTask(here, "a"), await withTask(here, "b")];
  const { tasks } = await claimTasks(here);
  const client = await lock(here, "a");
  const outcome = { status: "completed", value: jsonCodec.encode(1) } as const;
  const [first, second] = tasks.map((task) => here.store.answerTasks([{ ...task, outcome }]));
  expect(await second).toEqual([true]);
  expect(await Promise.all(held.map((one) => signalsOf(here, one)))).toEqual([[], ["resolve"]]);
  await client.query("ROLLBACK");
  expect(await first).toEqual([true]);
  expect(await signalsOf(here, held[0] as Held)).toEqual(["resolve"]);
});

test("M1 D3 a process whose run another transaction has locked goes on with the signals of others", async () => {
  const schema = database.newSchema();
  const engine = await Holdfast.open(`${database.url}?schema=${schema}`);
  onTestFinished(() => engine.close());
  const waits = workflow({ name: "waits", signals: { go: type<number>() } }, (ctx) => ctx.waitForSignal("go"));
  const [a, b] = [await engine.start(waits, undefined, { id: "a" }), await engine.start(waits, undefined, { id: "b" })];
  const client = await database.client();
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.runs WHERE id = 'a' FOR UPDATE`);
  const waiting = a.signal("go", 1);
  await b.signal("go", 1);
  await b.signal("go", 2);
  await client.query("ROLLBACK");
  await waiting;
  expect(await database.sql(`SELECT count(*)::int FROM ${schema}.inbox`)).toEqual([{ count: 3 }]);
});

test.each([
  ["an idempotency key", { idempotencyKey: "k", onConflict: "use-existing" }],
  ["messages", { messages: [{ job: signal("s") }], onConflict: "use-existing" }],
  ["restart-if-closed", { onConflict: "restart-if-closed" }],
  ["messages, of an id that is taken", { messages: [{ job: signal("s") }], onConflict: "reject" }],
] as const)("D3 a start in a transaction that stays open, with %s: a run that is there already goes on", async (_, more) => {
  const here = await bench();
  const held = await running(here.store, "a");
  const client = await database.client();
  await client.query("BEGIN");
  const [result] = await here.store.within(client).create([newRun("a", more)]);
  expect(result?.status).toBe(more.onConflict === "reject" ? "conflict" : "existing");
  const free = await database.sql(`SELECT 1 FROM (SELECT id FROM ${here.schema}.runs WHERE id = 'a' FOR NO KEY UPDATE SKIP LOCKED) r`);
  expect(free).toHaveLength(1);
  expect(await here.store.commit([draft(held, { turn: turnOf(held) })])).toMatchObject([{ status: "committed" }]);
  await client.query("COMMIT");
});

test.each(["COMMIT", "ROLLBACK"])("P10 D3 a start in a transaction that stays open holds up those under its key alone: %s", async (end) => {
  const schema = database.newSchema();
  const engine = await Holdfast.open(`${database.url}?schema=${schema}`);
  onTestFinished(() => engine.close());
  const order = workflow("order", async () => 1);
  const client = await database.client();
  await client.query("BEGIN");
  await engine.start(order, undefined, { id: "first", idempotencyKey: "k", tx: client });
  const same = engine.start(order, undefined, { id: "second", idempotencyKey: "k" });
  const starts = ["other key", "no key"].map((id) =>
    engine.start(order, undefined, { id, ...(id === "other key" && { idempotencyKey: "other" }) }),
  );
  expect((await Promise.all(starts)).map(({ id }) => id)).toEqual(["other key", "no key"]);
  expect((await engine.start(order, undefined, { id: "later", idempotencyKey: "other" })).id).toBe("other key");
  await client.query(end);
  expect((await same).id).toBe(end === "COMMIT" ? "first" : "second");
});

test("P10 starts under one key, of several processes at once, are one", async () => {
  const schema = database.newSchema();
  const stores = [await database.open({ schema }), await database.open({ schema }), await database.open({ schema })];
  const results = await Promise.all(
    stores.flatMap((store, i) =>
      range(5).map((n) => store.create([newRun(`r${i}.${n}`, { idempotencyKey: `k${n}`, onConflict: "use-existing" })])),
    ),
  );
  const ids = results.flat().map(({ id }) => id);
  expect(new Set(ids).size).toBe(5);
  expect(results.flat().filter(({ status }) => status === "created")).toHaveLength(5);
});

test("D3 D6 turns that share a call with one of a run that is locked are committed, and no step of theirs runs again", async () => {
  const schema = database.newSchema();
  const store = await database.openBare({ schema });
  const engine = await Holdfast.with({ store });
  onTestFinished(() => engine.close());
  const ids = range(9).map((i) => `r${i}`);
  const ran: string[] = [];
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const works = workflow("works", async (ctx, id: string) =>
    ctx.step("wait", async () => {
      ran.push(id);
      await gate;
      return id;
    }),
  );
  await engine.worker({ workflows: [works] });
  const runs = await Promise.all(ids.map((id) => engine.start(works, id, { id })));
  await until(() => ran.length === ids.length);
  const client = await lock({ schema } as Bench, "r4");
  open(); // all of them end in one turn of the event loop, and share a commit
  const others = runs.filter(({ id }) => id !== "r4");
  expect(await Promise.all(others.map((run) => run.result()))).toEqual(ids.filter((id) => id !== "r4"));
  expect((await store.get(["r4"]))[0]?.status).toBe("running");
  await client.query("ROLLBACK");
  expect(await runs[4]?.result()).toBe("r4");
  expect(ran.sort()).toEqual(ids);
}, 60_000);

test("M2 signals that take several round trips keep their order, though the run is freed in between", async () => {
  const here = await bench();
  const held = await running(here.store, "a");
  const client = await lock(here, "a");
  const payload = jsonCodec.encode("x".repeat(1_900_000));
  const ids = range(12).map((i) => `s${i}`);
  const send = senderOf(here);
  const message = (id: string) => ({ job: { type: "signal", id, name: "poke", payload } as const });
  const sends = Promise.all(ids.map((id) => send({ runId: "a", message: message(id) })));
  // The first of them have been found to stand aside.
  await until(async () => (await database.sql(`SELECT 1 FROM ${here.schema}.calls WHERE answer LIKE '%null%'`)).length > 0);
  await client.query("ROLLBACK");
  await sends;
  expect(await signalsOf(here, held)).toEqual(ids);
});
