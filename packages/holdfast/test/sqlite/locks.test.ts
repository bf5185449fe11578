// Transactions: shared ones, failed ones, and locks of others.

import { payload, range, signal } from "@holdfast/conformance/bench";
import { Holdfast, workflow } from "holdfast";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { StoreBusyError } from "../../src/store/errors.ts";
import { Connection } from "../../src/store/sqlite/connection.ts";
import { SqliteFailure } from "../../src/store/sqlite/failures.ts";
import { Session } from "../../src/store/sqlite/session.ts";
import { Writer } from "../../src/store/sqlite/writer.ts";
import { newPath, openBench, openShell, openStore } from "./support.ts";

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

async function openWriter(patience?: number) {
  const path = newPath();
  const db = await Connection.open(path, { synchronous: "NORMAL", patience });
  db.exec("CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT NOT NULL UNIQUE)");
  const session = new Session(db);
  const commits: number[] = [];
  const count = () => Number(db.get("SELECT count(*) FROM notes", [])?.[0]);
  const writer = new Writer(session, { notify: () => commits.push(count()) });
  const note = (text: string | null, weight = 1) =>
    writer.write(weight, () => {
      session.changed("work");
      db.run("INSERT INTO notes (note) VALUES (?)", [text]);
      return text;
    });
  return { path, db, writer, note, commits, count };
}

describe("group commit", () => {
  test("D3 writes of one turn of the event loop share a transaction", async () => {
    const { note, commits } = await openWriter();
    await Promise.all(range(50).map((i) => note(`note ${i}`)));
    expect(commits).toEqual([50]);
    await note("alone");
    expect(commits).toEqual([50, 51]);
  });

  test("D3 a thousand runs that are started at once leave the event loop its turns", async () => {
    const engine = await Holdfast.with({ store: await openStore() }, { logger: SILENT });
    onTestFinished(() => engine.close());
    let turns = 0;
    let isDone = false;
    const tick = (): void => {
      turns++;
      if (!isDone) setImmediate(tick);
    };
    setImmediate(tick);
    const flow = workflow("flow", async (_ctx, n: number) => n);
    await engine.startMany(flow, range(1_000).map((input) => ({ input }))); // biome-ignore format: one call
    isDone = true;
    expect(turns).toBeGreaterThanOrEqual(4);
  });
  test("D3 a transaction takes no more than it can do in a short while; the order stays", async () => {
    const { note, commits, db } = await openWriter();
    await Promise.all(range(5).map((i) => note(`note ${i}`, 120)));
    expect(commits).toEqual([2, 4, 5]);
    await note("more than there is room for", 5_000);
    expect(commits).toEqual([2, 4, 5, 6]);
    expect(db.all("SELECT note FROM notes ORDER BY id", []).map(([text]) => text)).toEqual([
      ...range(5).map((i) => `note ${i}`),
      "more than there is room for",
    ]);
  });

  /** Writes down when the event loop comes round. */
  function countTurns(order: string[], most: number, turn = 1): void {
    setImmediate(() => {
      order.push(`turn ${turn}`);
      if (turn < most) countTurns(order, most, turn + 1);
    });
  }

  test("D3 before what a transaction had no room for, the event loop has a turn", async () => {
    const { note, writer } = await openWriter();
    const order: string[] = [];
    countTurns(order, 2);
    for (const text of ["a", "b", "c"]) void note(text, 1_000).then(() => order.push(text));
    await writer.drain();
    expect(order).toEqual(["a", "turn 1", "b", "turn 2", "c"]);
  });

  test("D2 between writes that are made one by one, since one has failed, the event loop has a turn", async () => {
    const { note, writer } = await openWriter();
    const order: string[] = [];
    countTurns(order, 3);
    for (const text of ["a", null, "b"])
      void note(text).then(
        () => order.push(`${text}`),
        () => order.push("failed"),
      );
    await writer.drain();
    expect(order).toEqual(["turn 1", "a", "turn 2", "failed", "turn 3", "b"]);
  });

  test("D2 a transaction that can't be made use of is taken back, and begun again", async () => {
    const { path, db, note, count } = await openWriter();
    vi.spyOn(db, "get").mockImplementationOnce(() => {
      throw new SqliteFailure("locked", 6, undefined);
    });
    await note("a");
    expect(count()).toBe(1);
    const other = openShell(path);
    other.exec("BEGIN IMMEDIATE; COMMIT");
    other.close();
  });

  test("D2 a write that fails takes no other with it, and leaves nothing of itself", async () => {
    const { note, writer, count, db } = await openWriter();
    const half = writer.write(1, () => {
      db.run("INSERT INTO notes (note) VALUES ('half')", []);
      throw new Error("a mistake");
    });
    const results = await Promise.allSettled([note("a"), half, note("b"), note(null), note("b"), note("c")]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "rejected", "rejected", "fulfilled"]);
    expect(count()).toBe(3);
    await expect(half).rejects.toThrow("a mistake");
  });

  test("lanes and workers that a rollback took back are not remembered", async () => {
    const path = newPath();
    const bench = await openBench(path);
    const { store } = bench;
    const broken = store.create([bench.newRun("a", { queue: "q1" }), { ...bench.newRun("b", { queue: "q1" }), input: undefined as never }]);
    await expect(broken).rejects.toThrow();
    await bench.created("c", { queue: "q1" });
    await bench.claimRun("c");
    const shell = openShell(path);
    expect(shell.rows("SELECT count(*) AS n FROM holdfast_runs r JOIN holdfast_lanes l ON l.lane = r.lane")).toEqual([{ n: 1 }]);
    shell.close();
  });

  test("calls of every kind share one transaction", async () => {
    const path = newPath();
    const bench = await openBench(path);
    const held = await bench.running("a");
    const shell = openShell(path);
    const version = () => shell.rows("PRAGMA data_version")[0]?.["data_version"];
    const before = Number(version());
    await Promise.all([
      bench.create("b"),
      bench.sent("a", signal("s1")),
      bench.commit(held, { turn: bench.turn(held) }),
      bench.store.transact?.({ ...held, seq: 9 }, () => payload(1)),
    ]);
    expect(Number(version()) - before).toBe(1);
    shell.close();
  });

  test("a large batch is answered in order", async () => {
    const bench = await openBench();
    const results = await bench.store.create(range(1_700).map((i) => bench.newRun(`run-${i}`, { queue: "default" })));
    expect(results.map(({ id }) => id)).toEqual(range(1_700).map((i) => `run-${i}`));
    expect((await bench.store.count({})).pending).toBe(1_700);
  });
});

describe("very many at once", () => {
  test("K7 deadlines that pass together are all met", async () => {
    const bench = await openBench();
    await bench.store.create(range(1_200).map((i) => bench.newRun(`run-${i}`, { queue: "default", deadline: 10 })));
    bench.time += 10;
    expect((await bench.store.expire()).expired).toBe(1_200);
    expect((await bench.store.expire()).expired).toBe(0);
    expect((await bench.store.count({})).failed).toBe(1_200);
  });
});

describe("locks of others", () => {
  test("a write waits, and the event loop goes on meanwhile", async () => {
    const { path, note, count } = await openWriter();
    const other = openShell(path);
    other.exec("BEGIN IMMEDIATE");
    let answered = false;
    const waiting = note("patient").then(() => {
      answered = true;
    });
    for (const _ of range(20)) await new Promise((done) => setImmediate(done));
    expect(answered).toBe(false);
    const late = note("came while it was locked");
    other.exec("COMMIT");
    await Promise.all([waiting, late]);
    expect(count()).toBe(2);
    other.close();
  });

  test("reads do not wait for a writer", async () => {
    const path = newPath();
    const bench = await openBench(path);
    await bench.created("a");
    const other = openShell(path);
    other.exec("BEGIN IMMEDIATE; UPDATE holdfast_runs SET priority = 7");
    expect((await bench.row("a")).priority).toBe(0);
    expect((await bench.claim()).runs).toEqual([]);
    other.exec("ROLLBACK");
    other.close();
  });

  test("a lock that is never released is a typed error that says what to do, and nothing was written", async () => {
    const { path, note, count } = await openWriter(50);
    const other = openShell(path);
    other.exec("BEGIN IMMEDIATE");
    const [one, two] = await Promise.allSettled([note("a"), note("b")]);
    for (const result of [one, two]) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "HF_STORE_BUSY", retryable: true } });
    }
    expect((one as PromiseRejectedResult).reason).toBeInstanceOf(StoreBusyError);
    other.exec("COMMIT");
    expect(count()).toBe(0);
    await note("c");
    expect(count()).toBe(1);
    other.close();
  });

  test("a caller that comes while others wait has its own time limit", async () => {
    const { path, note, count } = await openWriter(50);
    const other = openShell(path);
    other.exec("BEGIN IMMEDIATE");
    const first = note("a");
    await new Promise((done) => setImmediate(done));
    const late = note("b");
    await expect(first).rejects.toMatchObject({ code: "HF_STORE_BUSY" });
    other.exec("COMMIT");
    await late;
    expect(count()).toBe(1);
    other.close();
  });

  test("callers that still wait when the store closes share one time limit", async () => {
    const { path, note, writer } = await openWriter(1_000);
    const clock = vi.spyOn(performance, "now");
    const other = openShell(path);
    other.exec("BEGIN IMMEDIATE");
    clock.mockReturnValue(0);
    const first = note("a");
    await new Promise((done) => setImmediate(done));
    const late = note("b");
    late.catch(() => {});
    clock.mockReturnValue(1_000);
    await expect(first).rejects.toMatchObject({ code: "HF_STORE_BUSY" });
    const drained = writer.drain(); // time stands still: a write that begins to wait now waits forever
    await expect(late).rejects.toMatchObject({ code: "HF_STORE_BUSY" });
    await drained;
    clock.mockRestore();
    other.close();
  });

  test("two stores on one file take turns", async () => {
    const path = newPath();
    const [one, two] = [await openBench(path), await openBench(path)];
    await Promise.all(
      range(60).flatMap((i) => [one.create(`one-${i}`), two.create(`two-${i}`)].map((created) => created.then(async () => undefined))),
    );
    expect((await one.store.count({})).pending).toBe(120);
    expect((await two.store.count({})).pending).toBe(120);
  });
});
