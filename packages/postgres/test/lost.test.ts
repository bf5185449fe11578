// Connections that are lost: a call whose answer never came is asked again, and carried out once.

import { jsonCodec } from "@holdfast/core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  COMPLETED,
  claim,
  draft,
  type Held,
  heldOf,
  inboxOf,
  newRun,
  range,
  running,
  signal,
  type TestStore,
  turnOf,
  until,
  useDatabase,
} from "./support.ts";
import { Wire } from "./wire.ts";

const database = useDatabase();
const RETRY = { maxAttempts: 3, initialInterval: 1_000, backoff: 1, maxInterval: 1_000, jitter: 0 };
const value = jsonCodec.encode(1);

describe("an answer that is lost", () => {
  let wire: Wire;
  let store: TestStore;
  let schema = "";
  beforeEach(async () => {
    const through = await Wire.to(database.url);
    wire = through.wire;
    schema = await database.emptySchema();
    store = await database.open({ connectionString: through.url, schema });
  });
  afterEach(async () => {
    expect(wire.lost).toBe(1);
    await wire.close();
  });
  const rows = async (sql: string): Promise<object[]> => database.sql(sql.replaceAll("$s", `"${schema}"`));

  test("D2 of create: the runs are created once, and the caller gets the answer", async () => {
    wire.loseAnswerOf("create_runs_1");
    const runs = [newRun("a"), newRun("b", { idempotencyKey: "k", messages: [{ job: signal("s1") }] })];
    expect((await store.create(runs)).map(({ status }) => status)).toEqual(["created", "created"]);
    expect((await claim(store)).map(({ inbox }) => inbox.length)).toEqual([0, 1]);
  });
  test("D2 of commits that keep their leases", async () => {
    const [a, b] = [await running(store, "a"), await running(store, "b")];
    const commit = () => store.commit([a, b].map((held) => draft(held, { turn: turnOf(held) })));
    wire.loseAnswerOf("commit_turns_1");
    expect(await commit()).toMatchObject([{ status: "committed" }, { status: "committed" }]);
    expect(await commit()).toMatchObject([{ status: "committed" }, { status: "committed" }]);
    expect((await store.history("a")).map(({ index }) => index)).toEqual([0, 1]);
  });
  test.each([
    ["parks", { lease: "park", status: "sleeping" }],
    ["ends", COMPLETED],
    [
      "continues",
      {
        status: "continued",
        close: { status: "continued", next: { input: value, version: "2", seed: "x", carried: [{ job: signal("c") }] } },
      },
    ],
  ] as const)("D2 of a commit that %s the run: its claim is over, and it counts", async (_, more) => {
    const [held, lost] = [await running(store, "a"), { ...(await running(store, "b")), epoch: 9 }];
    await store.send([{ runId: "a", message: { job: signal("s1") } }]);
    wire.loseAnswerOf("commit_turns_1");
    const results = await store.commit([draft(held, { ...more, turn: turnOf(held) }), draft(lost, { turn: turnOf(lost) })]);
    expect(results.map(({ status }) => status)).toEqual(["committed", "stale"]);
  });
  test("D2 of a commit with everything in it", async () => {
    const [held, target] = [await running(store, "a"), await running(store, "b")];
    wire.loseAnswerOf("commit_turns_1");
    const parent = { runId: "a", execution: 1, seq: 2, parentClose: "cancel", announce: true } as const;
    const [result] = await store.commit([
      draft(held, {
        turn: turnOf(held),
        children: [newRun("c", { parent })],
        sends: [{ seq: 3, runId: "b", message: { job: signal("s1") } }],
        tasks: [{ seq: 4, activity: "mail", queue: "tasks", input: value, retry: RETRY, location: "mail" }],
      }),
    ]);
    expect(result).toMatchObject({ status: "committed", sent: [{ status: "sent" }] });
    expect(result?.status === "committed" && result.inbox.map(({ job }) => job.type)).toEqual(["childStarted", "resolve"]);
    expect([(await inboxOf(store, target)).length, (await rows("SELECT 1 FROM $s.tasks")).length]).toEqual([1, 1]);
  });
  test("M1 of send: the message arrives once", async () => {
    const held = await running(store, "a");
    wire.loseAnswerOf("send_messages_1");
    const [sent] = await store.send([{ runId: "a", message: { job: signal("s1") } }]);
    const inbox = await inboxOf(store, held);
    expect(inbox.map(({ id }) => ({ status: "sent", inboxId: id }))).toEqual([sent]);
  });
  test("M3 of send with a key: sent, not a duplicate of itself", async () => {
    await running(store, "a");
    wire.loseAnswerOf("send_messages_1");
    expect(await store.send([{ runId: "a", message: { job: signal("s1"), idempotencyKey: "k" } }])).toMatchObject([{ status: "sent" }]);
  });
  test("W3 of claim: the same runs come, under the same epoch, and nothing is recovered", async () => {
    await store.create([newRun("a"), newRun("b", { messages: [{ job: signal("s1") }] })]);
    wire.loseAnswerOf("claim_runs_1");
    const claimed = await claim(store);
    expect(claimed.map(({ run, recovered, inbox }) => [run.id, run.epoch, recovered, inbox.length])).toEqual([
      ["a", 1, false, 0],
      ["b", 1, false, 1],
    ]);
    expect(await store.commit(claimed.map((one) => draft(heldOf(one))))).toMatchObject([{ status: "committed" }, { status: "committed" }]);
  });
  test("D11 of claimTasks and of its answer: one attempt, one outcome", async () => {
    const held = await running(store, "a");
    const tasks = [{ seq: 4, activity: "mail", queue: "tasks", input: value, retry: RETRY, location: "mail" }];
    await store.commit([draft(held, { turn: turnOf(held), tasks })]);
    const request = { workerId: "w1", queue: "tasks", activities: ["mail"], limit: 5, lease: 30_000 };
    wire.loseAnswerOf("settle_tasks_1");
    const [task] = (await store.claimTasks(request)).tasks;
    expect(task?.attempt).toBe(1);
    if (task === undefined) return;
    expect(await store.answerTasks([{ ...task, outcome: { status: "completed", value } }])).toEqual([true]);
    expect((await inboxOf(store, held)).length).toBe(1);
  });
  test("D11 of claimTasks: the task is ours, in its first attempt", async () => {
    const held = await running(store, "a");
    const tasks = [{ seq: 4, activity: "mail", queue: "tasks", input: value, retry: RETRY, location: "mail" }];
    await store.commit([draft(held, { turn: turnOf(held), tasks })]);
    wire.loseAnswerOf("claim_tasks_1");
    const claimed = await store.claimTasks({ workerId: "w1", queue: "tasks", activities: ["mail"], limit: 5, lease: 30_000 });
    expect(claimed.tasks.map(({ attempt, token }) => [attempt, token])).toEqual([[1, 1]]);
  });
  test("K6 of terminate: it was this call that ended the run", async () => {
    await running(store, "a");
    wire.loseAnswerOf("terminate_runs_1");
    expect(await store.terminate([{ runId: "a", reason: "enough" }])).toMatchObject([{ status: "sent" }]);
  });
  test("D10 of resume: it is resumed once", async () => {
    const held = await running(store, "a");
    await store.commit([
      draft(held, { turn: turnOf(held), status: "failed", close: { status: "failed", error: { name: "Error", message: "no" } } }),
    ]);
    wire.loseAnswerOf("resume_runs_1");
    expect(await store.resume(["a"])).toEqual(["resumed"]);
    expect((await store.get(["a"]))[0]?.attempt).toBe(2);
  });
  test("a call that comes after its slot has gone on is refused by the server", async () => {
    wire.loseAnswerOf("send_messages_1");
    await running(store, "a");
    await store.send([{ runId: "a", message: { job: signal("s1") } }]);
    const [slot] = (await rows("SELECT instance, slot, token FROM $s.calls ORDER BY token DESC LIMIT 1")) as {
      instance: string;
      slot: number;
      token: number;
    }[];
    const late = database.sql(`SELECT "${schema}".send_messages_1($1, $2, $3, NULL, '[]', NULL, false)`, [
      slot?.instance,
      slot?.slot,
      Number(slot?.token) - 1,
    ]);
    await expect(late).rejects.toMatchObject({ code: "HF001" });
  });
});

describe("a backend that is ended in the middle", () => {
  /** Ends the backend that waits for a row that another transaction holds. */
  async function endWaiter(): Promise<void> {
    await until(async () => {
      const ended = await database.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast' AND datname = current_database() AND wait_event_type = 'Lock'",
      );
      return ended.length > 0;
    }, "a call that waits");
  }
  const kinds: readonly (readonly [string, (store: TestStore, held: Held) => Promise<unknown>, unknown])[] = [
    ["D2 commit", (store, held) => store.commit([draft(held, { turn: turnOf(held) })]), [{ status: "committed" }]],
    ["M1 send", (store) => store.send([{ runId: "a", message: { job: signal("s1") } }]), [{ status: "sent" }]],
    ["K6 terminate", (store) => store.terminate([{ runId: "a", reason: undefined }]), [{ status: "sent" }]],
    ["V3 resume", (store) => store.resume(["a"]), ["woken"]],
    [
      "M8 create",
      (store) => store.create([newRun("a", { onConflict: "use-existing", messages: [{ job: signal("s1") }] })]),
      [{ status: "existing" }],
    ],
    ["W3 renew", (store, { runId, epoch }) => store.renew("w1", 60_000, [{ runId, epoch, seen: 0 }]), [{ held: true }]],
  ];
  test.each(kinds)("%s is still carried out, once", async (_, call, expected) => {
    const schema = database.newSchema();
    const store = await database.open({ schema });
    const held = await running(store, "a");
    const blocker = await database.client();
    await blocker.query("BEGIN");
    await blocker.query(`SELECT 1 FROM "${schema}".runs WHERE id = 'a' FOR UPDATE`);
    const calling = call(store, held);
    await endWaiter();
    await blocker.query("ROLLBACK");
    expect(await calling).toMatchObject(expected as object);
    const [run] = await store.get(["a"]);
    expect(run?.turns).toBe((await store.history("a")).length);
  });

  test("W1 who listens hears again after the connection was lost", async () => {
    const schema = database.newSchema();
    const [here, there] = [await database.open({ schema }), await database.open({ schema })];
    let woken = 0;
    there.watch(({ work }) => {
      if (work === true) woken++;
    });
    await database.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast' AND datname = current_database() AND query LIKE 'LISTEN%'",
    );
    // It says that anything may have happened once it hears again.
    await until(() => woken > 0, "a new connection");
    const before = woken;
    await until(async () => {
      await here.create([newRun(`r${Math.random()}`)]);
      return woken > before;
    }, "a hint from the other instance");
  });
});

test("HF_STORE_UNAVAILABLE comes when patience is over, and the store works on once there is a server", async () => {
  const { wire, url } = await Wire.to(database.url);
  const schema = database.newSchema();
  const store = await database.open({ connectionString: url, schema, patience: 200 });
  await store.create([newRun("a")]);
  await wire.close();
  await expect(store.create([newRun("b")])).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE", retryable: true });
  await expect(store.get(["a"])).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
});

test("HF_STORE_UNAVAILABLE comes to all who wait for one call together, and not to one after the other", async () => {
  const { wire, url } = await Wire.to(database.url);
  const store = await database.open({ connectionString: url, schema: database.newSchema(), patience: 1_000 });
  await store.create([newRun("a")]);
  await wire.close();
  // Each waiting for its own turn, with patience of its own, they would take longer than a test may.
  const sends = await Promise.allSettled(range(60).map((i) => store.send([{ runId: "a", message: { job: signal(`s${i}`) } }])));
  expect(new Set(sends.map((sent) => sent.status === "rejected" && sent.reason.code))).toEqual(new Set(["HF_STORE_UNAVAILABLE"]));
});
