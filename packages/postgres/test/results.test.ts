// How other processes learn that runs have ended: notices that name the runs, and notices that don't, because others may have ended with them.

import { randomUUID } from "node:crypto";
import { jsonCodec } from "@holdfast/core";
import { Holdfast, Receive, workflow } from "holdfast";
import type { TurnCommit, Wakeup } from "holdfast/store";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  COMPLETED,
  claim,
  draft,
  type Held,
  newRun,
  range,
  running,
  type SettledStore,
  signal,
  TestStore,
  turnOf,
  until,
  useDatabase,
} from "./support.ts";

const database = useDatabase();

/** Two stores that notify each other, and the results that the second is notified of. */
async function twoStores(): Promise<{ store: TestStore; channel: string; told: Wakeup[] }> {
  const schema = database.newSchema();
  const [store, beside] = [await database.open({ schema }), await database.open({ schema })];
  const told: Wakeup[] = [];
  let heard = 0;
  beside.watch((wakeup) => {
    heard++;
    if (wakeup.results === true) told.push(wakeup);
  });
  await until(async () => {
    await store.create([newRun(`first ${Math.random()}`, { queue: "unserved" })]);
    return heard > 0;
  }, "a hint");
  return { store, channel: `holdfast:${schema}`, told };
}
const ending = (held: Held, more: Partial<TurnCommit> = {}): TurnCommit => draft(held, { ...COMPLETED, turn: turnOf(held), ...more });
const named = (told: readonly Wakeup[]): string[] => told.flatMap(({ ended = [] }) => ended);
/** A caller that waits for that run looks at it. */
const isLookedAt = (told: readonly Wakeup[], id: string): boolean => told.some(({ ended }) => ended === undefined || ended.includes(id));

describe("notices that name the runs that have ended", () => {
  const ODD = [
    "a",
    'x["',
    "]",
    "w m t r p",
    "\\",
    "ß 日本語 😀",
    "a\nb",
    "\0",
    "\u001a0000",
    "half \ud800",
    "\udc00",
    " ",
    "y".repeat(2_000),
  ];

  test("M10 D9 a run that ends alone is named, whatever its id", async () => {
    const { store, told } = await twoStores();
    for (const id of ODD) {
      const held = await running(store, id, { queue: "odd" });
      await store.commit([ending(held)]);
      await until(() => named(told).includes(id), `the end of ${JSON.stringify(id)}`);
    }
    expect(told.filter(({ ended }) => ended === undefined)).toEqual([]);
    expect(new Set(named(told))).toEqual(new Set(ODD));
  });
  test("M10 D9 runs that end together are named together; where they are too many, everybody looks", async () => {
    const { store, told } = await twoStores();
    const endAll = async (ids: readonly string[]): Promise<void> => {
      told.length = 0;
      const held: Held[] = [];
      for (const id of ids) held.push(await running(store, id));
      await store.commit(held.map((one) => ending(one)));
      await until(() => told.length > 0, "a hint");
    };
    await endAll(range(20).map((i) => `few ${i}`));
    expect(new Set(named(told))).toEqual(new Set(range(20).map((i) => `few ${i}`)));
    // Of every length up to more than a notice can take: none is lost.
    for (const length of [300, 340, 360, 380, 400, 500]) {
      await endAll(range(20).map((i) => `${length} ${"ü".repeat((length - 10) / 2)} ${i}`));
      for (const i of range(20)) expect(isLookedAt(told, `${length} ${"ü".repeat((length - 10) / 2)} ${i}`)).toBe(true);
    }
    expect(told).toEqual([expect.not.objectContaining({ ended: expect.anything() })]);
  });
  test("M10 V4 a run that is created and ends at once, that is blocked, or that answers an update, is named; one that goes on is not", async () => {
    const { store, told } = await twoStores();
    const turn = turnOf({ runId: "born", execution: 1, epoch: 1, workerId: "w1", turns: 0 });
    const commit: TurnCommit = { runId: "born", execution: 1, epoch: 1, workerId: "w1", lease: "keep", ...COMPLETED, turn };
    await store.create([newRun("born", { first: { workerId: "w1", lease: 30_000, commit } })]);
    await until(() => named(told).includes("born"), "the end of born");
    const blocked = await running(store, "blocked");
    const error = { name: "Error", message: "no" };
    await store.commit([draft(blocked, { status: "blocked", lease: "park", blocked: { error, code: "c" } })]);
    await until(() => named(told).includes("blocked"), "that it is blocked");
    const next = { input: jsonCodec.encode(1), version: undefined, seed: "s", carried: [] };
    const continued = await running(store, "continued");
    await store.commit([draft(continued, { turn: turnOf(continued), status: "running", close: { status: "continued", next } })]);
    const answers = await running(store, "answers");
    const updates = [{ id: "u1", outcome: { status: "completed", value: jsonCodec.encode(1) } }] as const;
    await store.commit([draft(answers, { turn: turnOf(answers), updates })]);
    await until(() => named(told).includes("answers"), "the answer");
    expect([new Set(named(told)), told.every(({ ended }) => ended !== undefined)]).toEqual([new Set(["born", "blocked", "answers"]), true]);
  });
});

describe("notices that name no run", () => {
  const childOf = (runId: string, parentClose: "cancel" | "terminate") => ({ runId, execution: 1, seq: 1, parentClose, announce: false });

  /** A parent that is held, and a child of it that no worker has begun. */
  async function family(store: SettledStore, parentClose: "cancel" | "terminate" = "cancel"): Promise<Held> {
    const parent = await running(store, "p");
    const child = newRun("c", { parent: childOf("p", parentClose), queue: "of c" });
    await store.commit([draft(parent, { turn: turnOf(parent), children: [child] })]);
    return parent;
  }
  const ends: [string, (store: SettledStore) => Promise<unknown>][] = [
    ["its parent ends", async (store) => store.commit([ending(await family(store))])],
    [
      "its parent ends with a turn that has more to do",
      async (store) => store.commit([ending(await family(store), { attributes: { a: 1 } })]),
    ],
    [
      "its parent ends in one batch with an earlier turn",
      async (store) => {
        const parent = await family(store);
        return store.commit([draft(parent, { turn: turnOf(parent) }), ending(parent)]);
      },
    ],
    [
      "its parent ends in one batch with others",
      async (store) => store.commit([ending(await running(store, "x")), ending(await family(store)), ending(await running(store, "y"))]),
    ],
    [
      "its parent cancels it",
      async (store) => {
        const parent = await family(store);
        return store.commit([draft(parent, { turn: turnOf(parent), cancelChildren: [1] })]);
      },
    ],
    [
      "its parent cancels it while another run ends",
      async (store) => {
        const parent = await family(store);
        return store.commit([draft(parent, { turn: turnOf(parent), cancelChildren: [1] }), ending(await running(store, "x"))]);
      },
    ],
    [
      "its parent ends and it was to be terminated",
      async (store) => {
        const parent = await family(store, "terminate");
        await claim(store, { queue: "of c" });
        return store.commit([ending(parent)]);
      },
    ],
    [
      "another run cancels it",
      async (store) => {
        const held = await running(store, "x");
        await store.create([newRun("c")]);
        const sends = [{ seq: 1, runId: "c", message: { job: { type: "cancel" } } }] as const;
        return store.commit([draft(held, { turn: turnOf(held), sends })]);
      },
    ],
    [
      "a client cancels it",
      async (store) => {
        await store.create([newRun("c")]);
        return store.send([{ runId: "c", message: { job: { type: "cancel" } } }]);
      },
    ],
    [
      "a client terminates its parent",
      async (store) => {
        await family(store);
        return store.terminate([{ runId: "p", reason: "enough" }]);
      },
    ],
    [
      "the deadline of its parent is over",
      async (store) => {
        const held = await running(store, "p", { deadline: 3_000 });
        await store.commit([draft(held, { turn: turnOf(held), children: [newRun("c", { parent: childOf("p", "cancel") })] })]);
        return until(async () => (await store.expire()).expired > 0, "the deadline");
      },
    ],
    [
      "it is canceled by mail",
      async (store) => {
        await store.create([newRun("c")]);
        const client = await database.client();
        await client.query("BEGIN");
        await store.within?.(client).send([{ runId: "c", message: { job: { type: "cancel" } } }]);
        return client.query("COMMIT");
      },
    ],
  ];
  test.each(ends)("M10 D9 K9 a caller that waits for a run that ends without its own turn looks, when %s", async (_, end) => {
    const { store, told } = await twoStores();
    await end(store);
    await until(async () => ["canceled", "terminated"].includes((await store.get(["c"]))[0]?.status ?? ""), "its end");
    await until(() => isLookedAt(told, "c"), "a hint of it");
  });
  test("M10 D9 a caller that waits for an update that its run has left unanswered is answered when it ends", async () => {
    const { store, told } = await twoStores();
    const held = await running(store, "a");
    const update = { type: "update", id: "u1", name: "u", input: jsonCodec.encode(1) } as const;
    await store.send([{ runId: "a", message: { job: update } }]);
    await store.commit([ending(held)]);
    expect(await store.updates([{ runId: "a", id: "u1" }])).toMatchObject([{ status: "rejected" }]);
    await until(() => isLookedAt(told, "a"), "a hint of it");
  });
});

describe("notices that sum up several", () => {
  type Act = (store: SettledStore) => Promise<unknown>;
  const ends =
    (id: string): Act =>
    async (store) =>
      store.commit([ending(await running(store, id))]);
  const isTerminated: Act = async (store) => {
    await store.create([newRun("t")]);
    return store.terminate([{ runId: "t", reason: undefined }]);
  };
  const isSent: Act = async (store) => {
    await store.create([newRun("s", { messages: [{ job: signal("s1") }] })]);
    return store.send([{ runId: "s", message: { job: signal("s2") } }]);
  };
  /** A notice is on its way until it is let go or lost: whatever comes up meanwhile shares the next. */
  async function holdUp(store: SettledStore, channel: string): Promise<{ letGo(): Promise<unknown>; lose(): Promise<unknown> }> {
    const [client, schema] = [await database.client(), channel.replace("holdfast:", "")];
    await client.query("SELECT pg_advisory_lock(1)");
    await database.sql(`CREATE OR REPLACE FUNCTION "${schema}".notify_1(p_channel text, p_notice text) RETURNS void LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock_shared(1); PERFORM pg_notify(p_channel, p_notice); END $$`);
    await store.create([newRun("a")]);
    const waiting = "FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    await until(async () => (await client.query(`SELECT 1 ${waiting}`)).rowCount === 1, "a notice that is held up");
    return {
      letGo: () => client.query("SELECT pg_advisory_unlock(1)"),
      lose: () => client.query(`SELECT pg_terminate_backend(pid) ${waiting}`),
    };
  }
  test.each<[string, readonly Act[], readonly string[] | undefined]>([
    ["ends of which all are known", [ends("b"), ends("c"), ends("d")], ["b", "c", "d"]],
    ["news, then an end", [isSent, ends("b")], ["b"]],
    ["an end, then news", [ends("b"), isSent], ["b"]],
    ["an end, then one that is not named", [ends("b"), isTerminated], undefined],
    ["one that is not named, then an end", [isTerminated, ends("b")], undefined],
    ["one that is not named, then news", [isTerminated, isSent], undefined],
    ["one that is not named among others", [isSent, ends("b"), isTerminated, isSent, ends("c")], undefined],
  ])("D9 M10 one that says of %s names all that have ended, or none", async (_, acts, expected) => {
    const { store, channel, told } = await twoStores();
    const held = await holdUp(store, channel);
    for (const act of acts) await act(store);
    expect(told).toEqual([]);
    await held.letGo();
    await until(() => told.length > 0, "the notice");
    expect(told.map(({ ended }) => ended)).toEqual([expected]);
  });
  test("D9 one that is lost takes those with it that it says, and no others", async () => {
    const { store, channel, told } = await twoStores();
    const held = await holdUp(store, channel);
    await ends("b")(store);
    await held.lose();
    await held.letGo();
    await until(() => told.length > 0, "the next notice");
    expect(named(told)).toEqual(["b"]);
  });
});

describe("notices of others", () => {
  const SENDER = "ABCDEFGHIJKL"; // as long as the name of a process
  test.each([
    ["r", undefined],
    ["wmr", undefined],
    ['r["a","[b]"]', ["a", "[b]"]],
    ["r[]", []],
    ["r[", undefined],
    ['r["a"', undefined],
    ['r["a"] and more', undefined],
    ["r[1,null,{}]", undefined],
    ["r[[[", undefined],
    ['r["a",["b"]]', undefined],
  ])("D9 %s is taken as a hint, as far as it can be read", async (letters, ended) => {
    const { channel, told } = await twoStores();
    for (const sender of [SENDER, "*"]) {
      told.length = 0;
      await database.sql("SELECT pg_notify($1, $2)", [channel, sender + letters]);
      await until(() => told.length > 0, "the hint");
      expect(told).toMatchObject([{ results: true }]);
      expect(told[0]?.ended).toEqual(ended);
    }
  });
  test("D9 what another program says on the channel does no harm: hints go on being heard", async () => {
    const { store, channel, told } = await twoStores();
    const words = [
      "",
      "[",
      "hello",
      "hello [world",
      "*[",
      "*p[{",
      "?",
      "+",
      "!",
      "{}",
      '"',
      "[[[[[[[[[[[[[[[[",
      `${SENDER}[`,
      `${SENDER}t["`,
      "x".repeat(7_900),
    ];
    for (const word of words) await database.sql("SELECT pg_notify($1, $2)", [channel, word]);
    await store.commit([ending(await running(store, "a"))]);
    await until(() => isLookedAt(told, "a"), "a hint");
  });
});

const later = (ms: number, callback: () => void) => {
  const timer = setTimeout(callback, ms).unref();
  return { cancel: () => clearTimeout(timer) };
};
/** The real one, except for periodic work. */
const withoutLooks: NonNullable<Parameters<typeof Holdfast.with>[0]["environment"]> = {
  now: () => Date.now(),
  steady: () => Math.floor(performance.now()),
  elapsed: () => performance.now(),
  worked: () => performance.now(),
  after: later,
  patience: later,
  every: () => ({ cancel: () => undefined }),
  stayAlive: () => {
    const timer = setInterval(() => undefined, 60_000);
    return { cancel: () => clearInterval(timer) };
  },
  soon: (callback) => void setImmediate(callback),
  random: () => Math.random(),
  uuid: () => randomUUID(),
};

describe("engines", () => {
  /** An engine that never looks by itself, and how often it has looked; another one works. */
  async function twoEngines(): Promise<{ waiting: Holdfast; working: Holdfast; looks: () => number }> {
    const schema = database.newSchema();
    const open = () => new TestStore({ connectionString: database.url, schema });
    const [store, other] = [open(), open()];
    let looks = 0;
    const { get } = store;
    store.get = async (ids) => {
      const rows = await get.call(store, ids);
      looks++;
      return rows;
    };
    const waiting = await Holdfast.with({ store, environment: withoutLooks });
    const working = await Holdfast.with({ store: other });
    onTestFinished(async () => void (await Promise.all([waiting.close(), working.close()])));
    return { waiting, working, looks: () => looks };
  }
  const TIMEOUT = { timeout: "8s" } as const;
  const codeOf = (result: Promise<unknown>): Promise<unknown> => result.catch((error: { code?: string }) => error.code);
  const waits = workflow("waits", async (ctx) => ctx.waitForSignal("go"));

  test.each(["a", 'b["\\', "😀 \ud800"])(
    "M10 D9 the result of run %j that another process ends comes without a look now and then",
    async (id) => {
      const { waiting, working, looks } = await twoEngines();
      await working.worker({ workflows: [waits] });
      const run = await waiting.start(waits, undefined, { id });
      const [result, again] = [run.result(TIMEOUT), waiting.run(id, waits).result(TIMEOUT)];
      await until(() => looks() > 0, "the first look");
      await working.run(id, waits).signal("go", "there");
      expect(await Promise.all([result, again])).toEqual(["there", "there"]);
    },
  );
  test("M10 D9 the reply to an update that another process answers comes without a look now and then", async () => {
    const { waiting, working, looks } = await twoEngines();
    const asked = workflow("asked", async (ctx) => {
      await ctx.receive(0, { updates: { slowly: () => Receive.async(async (inner) => inner.waitForSignal("go"), 0) } });
    });
    await working.worker({ workflows: [asked] });
    const run = await waiting.start(asked, undefined, { id: "asked" });
    const reply = run.update("slowly", undefined, TIMEOUT);
    await until(() => looks() > 0, "the first look");
    await working.run("asked", asked).signal("go", "there");
    expect(await reply).toBe("there");
  });
  test("K6 K9 M10 a child that has not begun when its parent is done is reported at once", async () => {
    const { waiting, working, looks } = await twoEngines();
    const parent = workflow("parent", async (ctx) => {
      await ctx.startChild(waits, undefined, { id: "child", queue: "unserved" });
      await ctx.waitForSignal("go");
    });
    await working.worker({ workflows: [parent] });
    const run = await waiting.start(parent, undefined, { id: "parent" });
    await until(async () => (await working.count({ queue: "unserved" })).pending > 0, "the child");
    const [end, endOfChild] = [run.result(TIMEOUT), codeOf(waiting.run("child", waits).result(TIMEOUT))];
    await until(() => looks() > 0, "the first look");
    await working.run("parent", parent).signal("go");
    expect(await Promise.all([end, endOfChild])).toEqual([undefined, "HF_CANCELED"]);
  });
  test("K9 M10 a run that has not begun when a workflow cancels it is reported at once", async () => {
    const { waiting, working, looks } = await twoEngines();
    const cancels = workflow("cancels", async (ctx) => ctx.cancelRun("later"));
    await working.worker({ workflows: [cancels] });
    const later = await waiting.start(waits, undefined, { id: "later", queue: "unserved" });
    const end = codeOf(later.result(TIMEOUT));
    await until(() => looks() > 0, "the first look");
    await working.start(cancels, undefined);
    expect(await end).toBe("HF_CANCELED");
  });
});
