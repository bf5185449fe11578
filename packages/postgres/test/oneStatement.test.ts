// A run alone: what goes in one plain statement is there once, as a function would have left it, or not at all.

import { type Command, jsonCodec } from "@holdfast/core";
import type { NewRun, TurnCommit } from "holdfast/store";
import { describe, expect, test } from "vitest";
import {
  COMPLETED,
  claim,
  draft,
  type Held,
  heldOf,
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
const value = jsonCodec.encode(1);

async function watched(options: { listen?: boolean } = {}): Promise<{ store: TestStore; wire: Wire; schema: string }> {
  const { wire, url } = await Wire.to(database.url);
  const schema = database.newSchema();
  return { store: await database.open({ connectionString: url, schema, ...options }), wire, schema };
}
const functionsOf = (wire: Wire): string[] => wire.statements.flatMap((sql) => /^SELECT .*\.(\w+_1)\(/.exec(sql)?.[1] ?? []);
/** A statement that has a name is sent once on each connection: what was sent before is not seen. */
const first = (held: Held, more: Partial<TurnCommit> = {}): NewRun["first"] => ({
  workerId: held.workerId,
  lease: 30_000,
  commit: draft(held, { turn: turnOf(held), ...more }),
});
const firstRun = (id: string): NewRun => newRun(id, { first: first({ runId: id, execution: 1, epoch: 1, workerId: "w1", turns: 0 }) });

describe("one statement", () => {
  test("is all that a new run, its turns and its end take, and they are what they are by a function", async () => {
    const left: unknown[] = [];
    for (const listen of [true, false]) {
      const { store, wire } = await watched({ listen });
      await running(store, "before");
      const from = wire.statements.length;
      await store.create([firstRun("a")]);
      const held: Held = { runId: "a", execution: 1, epoch: 1, workerId: "w1", turns: 1 };
      const resolve = { type: "resolve", seq: 1, outcome: { status: "completed", value } } as const;
      await store.commit([draft(held, { turn: turnOf(held, { jobs: [resolve], state: jsonCodec.encode("published") }) })]);
      await store.commit([draft(held, { turn: turnOf(held, { jobs: [{ type: "fire", seq: 2 }] }) })]);
      await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held, { commands: [{ type: "complete", value }] as Command[] }) })]);
      const asked = wire.statements.slice(from).filter((sql) => /create_runs_1|commit_turns_1/.test(sql));
      expect(asked.length > 0).toBe(!listen);
      const [run] = await store.get(["a"]);
      left.push({ ...run, createdAt: 0, startedAt: 0, finishedAt: 0 }, await store.history("a"), [...(await store.workers("a"))]);
      await store.close();
      await wire.close();
    }
    expect(left.slice(0, 3)).toEqual(left.slice(3));
  });
  test("D4 writes nothing for a claim that is over", async () => {
    const { store, wire, schema } = await watched();
    const held = await running(store, "a");
    const stale = { ...held, epoch: held.epoch + 1 };
    expect(await store.commit([draft(stale, { turn: turnOf(stale) })])).toEqual([{ status: "stale" }]);
    expect(await store.commit([draft(stale, { ...COMPLETED, turn: turnOf(stale) })])).toEqual([{ status: "stale" }]);
    expect(await database.sql(`SELECT 1 FROM "${schema}".records`)).toEqual([]);
    expect(await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })])).toMatchObject([{ status: "committed" }]);
    expect(await store.commit([draft(held, { turn: turnOf(held) })])).toEqual([{ status: "stale" }]);
    await wire.close();
  });
  test("M1 leaves what has news to the function, and is taken again after that", async () => {
    const { store, wire } = await watched();
    const held = await running(store, "a");
    await store.send([{ runId: "a", message: { job: signal("s1") } }]);
    const [told] = await store.commit([draft(held, { turn: turnOf(held), seen: 0 })]);
    const inbox = told?.status === "committed" ? told.inbox : [];
    expect(inbox.map(({ job }) => job.type)).toEqual(["signal"]);
    const before = functionsOf(wire).length;
    expect(await store.commit([draft(held, { turn: turnOf(held), seen: inbox[0]?.id ?? 0 })])).toEqual([
      { status: "committed", inbox: [] },
    ]);
    expect(functionsOf(wire).length).toBe(before);
    await wire.close();
  });
  test("P10 does not create what is there", async () => {
    const { store, wire } = await watched();
    await running(store, "before");
    await store.create([newRun("a")]);
    expect(await store.create([newRun("a")])).toMatchObject([{ status: "conflict" }]);
    expect(await store.create([newRun("a", { onConflict: "use-existing", input: jsonCodec.encode("other") })])).toMatchObject([{ status: "existing", execution: 1 }]); // biome-ignore format: one call
    expect(await store.create([firstRun("a")])).toMatchObject([{ status: "conflict" }]);
    expect((await store.history("a")).length).toBe(0);
    expect((await store.get(["a"]))[0]?.input).toBe(newRun("a").input);
    await wire.close();
  });
  test("an end that reaches others goes through the function", async () => {
    const { store, wire } = await watched();
    const parent = await running(store, "a");
    const link = { runId: "a", execution: 1, seq: 1, parentClose: "cancel", announce: false } as const;
    await store.commit([draft(parent, { turn: turnOf(parent), children: [newRun("c", { parent: link, queue: "children" })] })]);
    const [child] = await claim(store, { queue: "children" });
    await store.commit([draft(heldOf(child as NonNullable<typeof child>), { ...COMPLETED, turn: turnOf(heldOf(child as NonNullable<typeof child>)) })]); // biome-ignore format: one call
    const [renewed] = await store.renew("w1", 30_000, [{ runId: "a", epoch: parent.epoch, seen: 0 }]);
    expect(renewed?.inbox.map(({ job }) => job.type)).toEqual(["resolve"]);
    await wire.close();
  });
  test("D4 D9 nothing is written for a run that has parked, under the epoch that it parked with", async () => {
    const { store, wire } = await watched();
    const held = await running(store, "a");
    await store.commit([draft(held, { turn: turnOf(held), lease: "park", status: "sleeping" })]);
    expect(await store.commit([draft(held, { turn: turnOf(held) })])).toEqual([{ status: "stale" }]);
    expect(await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })])).toEqual([{ status: "stale" }]);
    expect(await store.get(["a"])).toMatchObject([{ status: "sleeping", turns: 1 }]);
    await wire.close();
  });
  test.each([
    ["cancel", ["cancel"]],
    ["terminate", []],
    ["abandon", []],
  ] as const)("K6 the end of a run with an open child goes through the function (%s)", async (parentClose, arrived) => {
    const { store, wire } = await watched();
    const parent = await running(store, "a");
    const link = { runId: "a", execution: 1, seq: 1, parentClose, announce: false } as const;
    await store.commit([draft(parent, { turn: turnOf(parent), children: [newRun("c", { parent: link, queue: "children" })] })]);
    const [child] = await claim(store, { queue: "children" });
    expect(await store.commit([draft(parent, { ...COMPLETED, turn: turnOf(parent) })])).toMatchObject([{ status: "committed" }]);
    const [renewed] = await store.renew("w1", 30_000, [{ runId: "c", epoch: child?.run.epoch ?? 0, seen: 0 }]);
    expect(renewed?.inbox.map(({ job }) => job.type)).toEqual(arrived);
    expect((await store.get(["c"]))[0]?.status).toBe(parentClose === "terminate" ? "terminated" : "running");
    await wire.close();
  });
  test("D2 as the first call of its slot it does nothing, and the function all of it", async () => {
    const { store, wire, schema } = await watched();
    const held = await running(store, "a");
    for (const last of [false, true]) {
      const other = await database.open({ schema });
      const commit = draft(held, { turn: turnOf(held), ...(last && COMPLETED) });
      expect(await other.commit([commit])).toMatchObject([{ status: "committed" }]);
    }
    expect((await store.history("a")).map(({ index }) => index)).toEqual([0, 1]);
    await wire.close();
  });
  test("finds rows by index, whatever the tables were like when its plan was made", async () => {
    const schema = database.newSchema();
    /** The server counts them when a connection ends. */
    const scans = (records: number) =>
      until(async () => {
        const sql =
          "SELECT relname, seq_scan::integer AS scans, n_tup_ins::integer AS rows FROM pg_stat_all_tables WHERE schemaname = $1 ORDER BY 1";
        const rows = await database.sql<{ relname: string; scans: number; rows: number }>(sql, [schema]);
        const isCounted = rows.some(({ relname, rows }) => relname === "records" && rows >= records);
        return isCounted && rows.flatMap(({ relname, scans }) => (relname === "runs" || relname === "tasks" ? [scans] : []));
      });
    const filling = await database.open({ schema });
    const held = await running(filling, "a");
    await filling.commit([draft(held, { turn: turnOf(held) })]);
    await filling.create(range(40).map((i) => newRun(`few ${i}`)));
    await filling.close();
    for (const table of ["runs", "tasks", "calls"]) await database.sql(`ANALYZE "${schema}".${table}`);
    const before = await scans(1);
    const store = await database.open({ schema });
    for (const i of range(12)) {
      const other: Held = { runId: `alone ${i}`, execution: 1, epoch: 1, workerId: "w1", turns: 1 };
      await store.commit([draft(held, { turn: turnOf(held) })]);
      await store.create([firstRun(other.runId)]);
      await store.commit([draft(other, { ...COMPLETED, turn: turnOf(other) })]);
    }
    await store.close();
    const after = await scans(1 + 12 * 3);
    expect(after).toHaveLength(2);
    // The look for damaged rows at `open` reads each table once; the turns add nothing to that.
    for (const [i, count] of after.entries()) expect(count - (before[i] ?? 0)).toBeLessThanOrEqual(1);
  });
  test("turns of every size and shape come back as they went in", async () => {
    const { store, wire } = await watched();
    const held = await running(store, "a");
    const turns = range(150).map((i) => {
      const commands = range(i % 7).map((n) => ({ type: "step", seq: i * 10 + n + 1, unit: "", name: `it's "${n}"`, n, ...(i % 3 === 0 && { retry: { maxAttempts: i + 1 } }) })) as Command[]; // biome-ignore format: one line
      const jobs = i % 2 === 0 ? [] : [{ type: "signal", id: `s${i}`, name: "poke", payload: value } as const];
      return turnOf(held, { commands, jobs, ...(i % 5 === 0 && { state: jsonCodec.encode(i) }) });
    });
    for (const turn of turns) expect(await store.commit([draft(held, { turn })])).toMatchObject([{ status: "committed" }]);
    expect(await store.history("a")).toEqual(turns);
    await wire.close();
  });
});

describe("an answer that is lost", () => {
  const lost = async (work: (store: TestStore, wire: Wire, schema: string) => Promise<void>): Promise<void> => {
    const { store, wire, schema } = await watched();
    await running(store, "before");
    await work(store, wire, schema);
    expect(wire.lost).toBe(1);
    await store.close();
    await wire.close();
  };
  test("D2 of a new run: it is new", () =>
    lost(async (store, wire) => {
      wire.loseAnswerOf("WITH given");
      expect(await store.create([firstRun("a")])).toMatchObject([{ status: "created", execution: 1 }]);
      expect(await store.create([firstRun("a")])).toMatchObject([{ status: "conflict" }]);
      expect((await store.history("a")).length).toBe(1);
    }));
  test("D2 of a new run that was there before: it still was", () =>
    lost(async (store, wire) => {
      await store.create([newRun("a")]);
      wire.loseAnswerOf("WITH given");
      expect(await store.create([firstRun("a")])).toMatchObject([{ status: "conflict" }]);
      expect((await store.history("a")).length).toBe(0);
    }));
  test("D2 of a turn: it is written once, and the next follows it", () =>
    lost(async (store, wire) => {
      const held = await running(store, "a");
      wire.loseAnswerOf("WITH held");
      expect(await store.commit([draft(held, { turn: turnOf(held) })])).toEqual([{ status: "committed", inbox: [] }]);
      expect(await store.commit([draft(held, { turn: turnOf(held) })])).toEqual([{ status: "committed", inbox: [] }]);
      expect((await store.history("a")).map(({ index }) => index)).toEqual([0, 1]);
    }));
  test("D2 D9 of a turn, and a message comes before it is asked again: it is written once, and the message waits", () =>
    lost(async (store, wire, schema) => {
      const held = await running(store, "a");
      const other = await database.open({ schema });
      wire.loseAnswerOf("WITH held");
      const committing = store.commit([draft(held, { turn: turnOf(held) })]);
      await until(() => wire.lost === 1);
      await other.send([{ runId: "a", message: { job: signal("s1") } }]);
      expect(await committing).toMatchObject([{ status: "committed" }]);
      expect((await store.history("a")).map(({ index }) => index)).toEqual([0]);
      const [renewed] = await store.renew("w1", 30_000, [{ runId: "a", epoch: held.epoch, seen: 0 }]);
      expect(renewed?.inbox.map(({ job }) => job.type)).toEqual(["signal"]);
    }));
  test("D2 of an end, in a slot whose last call had more to say: it is this call's answer that comes", () =>
    lost(async (store, wire) => {
      const held = await running(store, "a");
      const [b, c] = [await running(store, "b"), await running(store, "c")];
      const stale = { ...b, epoch: b.epoch + 1 };
      const before = await store.commit([draft(stale, { turn: turnOf(stale) }), draft(c, { turn: turnOf(c) })]);
      expect(before.map(({ status }) => status)).toEqual(["stale", "committed"]);
      wire.loseAnswerOf("SET status = $8");
      expect(await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })])).toEqual([{ status: "committed", inbox: [] }]);
    }));
  test("D2 of an end: it has ended, and it was this call that ended it", () =>
    lost(async (store, wire) => {
      const held = await running(store, "a");
      wire.loseAnswerOf("SET status = $8");
      expect(await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })])).toEqual([{ status: "committed", inbox: [] }]);
      expect(await store.get(["a"])).toMatchObject([{ status: "completed", turns: 1, historyLength: 1 }]);
    }));
});

describe("the same rows as by a function", () => {
  const TABLES = ["runs", "executions", "records", "states", "inbox", "updates", "attempts", "tasks"];
  const ODD = [
    "plain",
    "nul\0x",
    "lone\ud800y",
    "q'uo\"te",
    "back\\slash",
    "sub\u001a0000",
    "new\nline",
    "😀",
    "{a,b}",
    "NULL",
    "",
    '{"$payload":"base64"}',
  ];
  const BYTES = new Uint8Array([0, 1, 2, 255, 26]);
  /** What is in the tables afterwards, and what was answered. */
  async function left(listen: boolean, work: (store: TestStore) => Promise<unknown[]>): Promise<unknown> {
    const schema = database.newSchema();
    const store = await database.open({ schema, listen, clock: () => 5_000_000 });
    await running(store, "before");
    const answers = await work(store);
    const tables: Record<string, unknown> = {};
    for (const table of TABLES) {
      const rows = await database.sql<{ row: string }>(
        `SELECT (to_jsonb(x) - 'key' - 'run')::text AS row FROM "${schema}".${table} x ORDER BY 1`,
      );
      tables[table] = rows.map(({ row }) => row);
    }
    await store.close();
    return { tables, answers };
  }
  const answered = (answer: Promise<unknown>): Promise<unknown> => answer.catch((error: { code?: string }) => error.code ?? String(error));

  test.each<[string, (store: TestStore) => Promise<unknown[]>]>([
    [
      "P8 new runs",
      async (store) => {
        const runs: NewRun[] = [
          ...ODD.map((odd, i) => newRun(`${odd} ${i}`, { workflow: `w${odd}`, version: odd, queue: `q${odd}`, seed: odd, attributes: { [odd || "k"]: odd, n: 1.5 }, input: odd })), // biome-ignore format: one line
          newRun("bytes", { input: BYTES }),
          newRun("delay", { delay: 10.2, priority: -5 }),
          newRun("moment", { startAt: 99.5, deadlineAt: 100.1, version: "" }),
          newRun("deadline", { deadline: 100.1 }),
          newRun("never", { deadline: Number.POSITIVE_INFINITY }),
          newRun("retry", { retry: { maxAttempts: 5, initialInterval: 5, backoff: 2, maxInterval: 10, jitter: 0 } }),
        ];
        for (const [i, more] of [
          {},
          { rollbacks: 2 },
          { waitingFor: ["a'b"] },
          { status: "rolling_back" },
          { status: "sleeping" },
        ].entries()) {
          const held: Held = { runId: `first ${i}`, execution: 1, epoch: 1, workerId: "w1", turns: 0 };
          runs.push(newRun(held.runId, { first: first(held, more as Partial<TurnCommit>) }));
        }
        const answers: unknown[] = [];
        for (const run of runs) answers.push(await answered(store.create([run])));
        return answers;
      },
    ],
    [
      "Y7 turns",
      async (store) => {
        const held = await running(store, "a");
        const answers: unknown[] = [];
        for (const odd of ODD) {
          const commands = [{ type: "step", seq: 1, unit: odd, name: odd, n: 0 }, { type: "sideEffect", seq: 2, unit: "", name: odd, n: 1, value: odd }] as Command[]; // biome-ignore format: one line
          const jobs = [{ type: "signal", id: odd, name: odd, payload: odd }, { type: "resolve", seq: 1, outcome: { status: "failed", error: { name: odd, message: odd } } }] as const; // biome-ignore format: one line
          answers.push(await answered(store.commit([draft(held, { turn: turnOf(held, { commands, jobs, state: odd }) })])));
        }
        for (const more of [{ rollbacks: 1 }, { rollbacks: 1 }, {}, { status: "rolling_back" }, {}, { waitingFor: ["x"] }, {}, { seen: 5 }, { wakeAt: 7 }] as Partial<TurnCommit>[]) // biome-ignore format: one line
          answers.push(await answered(store.commit([draft(held, { turn: turnOf(held, { state: BYTES }), ...more })])));
        answers.push(await answered(store.commit([draft(held, { turn: turnOf(held, { commands: [] }) })])));
        return [...answers, await store.history("a"), await store.get(["a"])];
      },
    ],
    [
      "D10 ends",
      async (store) => {
        const error = { name: "E", message: 'it\'s "so"' };
        const ends = [
          ...ODD.map((output) => ({ status: "completed", output })),
          { status: "completed", output: BYTES },
          { status: "failed", error, resumable: true },
          { status: "failed", error, resumable: false },
          { status: "failed", error },
          { status: "canceled", error, output: "1" },
        ] as NonNullable<TurnCommit["close"]>[];
        const answers: unknown[] = [];
        for (const [i, close] of ends.entries()) {
          const held = await running(store, `end ${i}`);
          if (i % 2 === 1) await store.commit([draft(held, { turn: turnOf(held) })]);
          const turn = turnOf(held, i % 3 === 0 ? { commands: [] } : { state: "5" });
          answers.push(await answered(store.commit([draft(held, { turn, status: close.status, close })])));
        }
        return [...answers, await store.get(ends.map((_, i) => `end ${i}`))];
      },
    ],
  ])("%s", async (_, work) => {
    expect(await left(true, work)).toEqual(await left(false, work));
  });
});
