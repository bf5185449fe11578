// Conformance: finding runs.
// Owns: tests of filters, of the order of lists and of the limits of counts; a model of lists that looks at every run.
// Invariants tested: B1, B2.

import assert from "node:assert/strict";
import type { RunStatus } from "@holdfast/core";
import { type AttributeTest, compareTexts, meaningOf, passes, type RunFilter, type RunRow, type Scalar } from "holdfast/store";
import { type Bench, COMPLETED, payload, range, START, same } from "./bench.ts";
import type { Suite } from "./suite.ts";

const idsOf = async (bench: Bench, filter: RunFilter = {}): Promise<string[]> =>
  (await bench.store.list({ limit: 1_000, ...filter })).runs.map(({ id }) => id);
const found = async (bench: Bench, test: AttributeTest): Promise<string[]> =>
  (await idsOf(bench, { attributes: { key: test } })).toSorted();

/** One run for each value, which its id names. */
async function createEach(bench: Bench, values: Readonly<Record<string, Scalar>>): Promise<void> {
  await bench.store.create(Object.entries(values).map(([id, value]) => bench.newRun(id, { attributes: { key: value } })));
}

export function finding({ test }: Suite): void {
  test("B1 a list of values finds runs that have one of them, by type; an empty one finds none", async (bench) => {
    await createEach(bench, { a: "1", b: 1, c: true, d: 2, e: "2", f: false });
    same(await found(bench, { in: ["1", 2, true] }), ["a", "c", "d"]);
    same(await found(bench, { in: [1, 1, "1"] }), ["a", "b"]);
    same(await found(bench, { in: ["no"] }), []);
    same(await found(bench, { in: [] }), []);
    same(await found(bench, false), ["f"]);
  });
  test("B1 a range has its limits, and no values of another type", async (bench) => {
    await createEach(bench, { m: -5, z: 0, n: 1.5, o: 2, p: 1e300, q: "2", r: true, s: 5e-324 });
    same(await found(bench, { gt: 0 }), ["n", "o", "p", "s"]);
    same(await found(bench, { gte: 0 }), ["n", "o", "p", "s", "z"]);
    same(await found(bench, { gte: -0, lt: 2 }), ["n", "s", "z"]);
    same(await found(bench, { gte: 1.5, lte: 2 }), ["n", "o"]);
    same(await found(bench, { gt: 1.5, gte: 1, lt: 3, lte: 2 }), ["o"]);
    same(await found(bench, { lt: 0 }), ["m"]);
    same(await found(bench, { gt: 5, lt: 3 }), []);
    same(await found(bench, { gte: "0" }), ["q"]);
  });
  test("B1 numbers are found as they are: no sign of zero, all digits, the largest and the smallest", async (bench) => {
    const numbers = [
      0.1 + 0.2,
      0.3,
      2 ** 53,
      2 ** 53 - 1,
      -(2 ** 60),
      1.7976931348623157e308,
      2.225073858507201e-308,
      123456789012345680000,
      1e21,
    ];
    await createEach(bench, { zero: -0, ...Object.fromEntries(numbers.map((value, i) => [`n${i}`, value])) });
    same([await found(bench, 0), await found(bench, -0), await found(bench, { in: [-0] })], [["zero"], ["zero"], ["zero"]]);
    for (const [i, value] of numbers.entries()) {
      same(await found(bench, value), [`n${i}`], String(value));
      same(await found(bench, { gte: value, lte: value }), [`n${i}`], String(value));
      assert.equal((await found(bench, { gt: value })).includes(`n${i}`), false, String(value));
    }
  });
  test("B1 ranges and beginnings of texts go by code point", async (bench) => {
    const values = {
      a: "",
      b: "A",
      c: "a",
      d: "ab",
      e: "b",
      f: "é",
      g: "\uD7FF",
      h: "\uE000",
      i: "\uFFFD",
      j: "😀",
      k: "😀!",
      l: "\u{10FFFF}",
    };
    await createEach(bench, values);
    const ids = Object.keys(values);
    for (const [i, value] of Object.values(values).entries()) {
      same(await found(bench, { gte: value }), ids.slice(i), `from ${value}`);
      same(await found(bench, { lt: value }), ids.slice(0, i), `to ${value}`);
    }
    same(await found(bench, { prefix: "a" }), ["c", "d"]);
    same(await found(bench, { prefix: "😀" }), ["j", "k"]);
    same(await found(bench, { prefix: "\uD7FF" }), ["g"]);
    same(await found(bench, { prefix: "\u{10FFFF}" }), ["l"]);
    same(await found(bench, { prefix: "" }), ids);
  });
  test("B1 texts that no database keeps as they are, are found like others", async (bench) => {
    const odd = [
      "\u0000",
      "\u0000a",
      "\u0001",
      "\u0001\u0001",
      "\u001a",
      "\u001a0000",
      "a\u0000",
      "a\u0000b",
      "%_\\'\"",
      "\uD7FF-",
      "\uD800",
      "\uD800a",
      "\uDBFF",
      "\uDC00",
      "\uE000",
    ];
    const sorted = odd.toSorted(compareTexts);
    await createEach(bench, Object.fromEntries(sorted.map((value, i) => [`r${String(i).padStart(2, "0")}`, value])));
    const ids = sorted.map((_, i) => `r${String(i).padStart(2, "0")}`);
    for (const [i, value] of sorted.entries()) {
      same(await found(bench, value), [ids[i]], JSON.stringify(value));
      same(await found(bench, { gt: value }), ids.slice(i + 1), JSON.stringify(value));
      const meaning = meaningOf({ prefix: value });
      same(await found(bench, { prefix: value }), ids.filter((_, at) => passes(meaning, sorted[at])), JSON.stringify(value)); // biome-ignore format: one line
      same((await bench.row(ids[i] ?? "")).attributes, { key: value });
    }
    await createEach(bench, { long1: "x".repeat(1_024), long2: `${"x".repeat(1_023)}y`, wide: "😀".repeat(512) });
    same(await found(bench, "x".repeat(1_024)), ["long1"]);
    same(await found(bench, { gt: "x".repeat(1_024) }), ["long2", "wide", ...ids.slice(sorted.findIndex((value) => value > "y"))].toSorted()); // biome-ignore format: one line
    same(await found(bench, { prefix: "😀".repeat(512) }), ["wide"]);
    same(await found(bench, { prefix: "x".repeat(1_023) }), ["long1", "long2"]);
  });
  test("B1 names are found as they are", async (bench) => {
    const names = [
      "",
      "key",
      "Key",
      "k\u0000",
      "k\u0000y",
      "__proto__",
      "constructor",
      "n".repeat(128),
      `${"n".repeat(127)}m`,
      "\uD800",
      "a.b['c']",
    ];
    await bench.store.create(names.map((name, i) => bench.newRun(`r${i}`, { attributes: Object.fromEntries([[name, i]]) })));
    for (const [i, name] of names.entries()) {
      same(await idsOf(bench, { attributes: Object.fromEntries([[name, i]]) }), [`r${i}`], JSON.stringify(name));
      same(await idsOf(bench, { attributes: Object.fromEntries([[name, { gte: 0 }]]) }), [`r${i}`], JSON.stringify(name));
    }
  });
  test("B1 attributes are found as the last commit left them, also after an end, a continuation and a restart", async (bench) => {
    const held = await bench.running("a", { attributes: { key: "old", kept: 1 } });
    await bench.commit(held, { attributes: { key: "new", more: true } });
    same([await found(bench, "old"), await found(bench, "new")], [[], ["a"]]);
    same(await idsOf(bench, { attributes: { kept: 1, more: true } }), ["a"]);
    await bench.commit(held, { attributes: { key: 5 } });
    same([await found(bench, "new"), await found(bench, { gte: 5 })], [[], ["a"]]);
    await bench.close(
      held,
      { status: "continued", next: { input: payload(1), version: undefined, seed: "2", carried: [] } },
      { attributes: { key: 6, more: null } },
    );
    same([await found(bench, 5), await found(bench, 6)], [[], ["a"]]);
    same(await idsOf(bench, { attributes: { more: true } }), []);
    const again = await bench.hold("a");
    await bench.close(again, COMPLETED, { attributes: { key: 7 } });
    same([await found(bench, 6), await found(bench, 7)], [[], ["a"]]);
    await bench.create("a", { onConflict: "restart-if-closed", attributes: { other: 1 } });
    same([await found(bench, 7), await idsOf(bench, { attributes: { other: 1 } })], [[], ["a"]]);
    same(await idsOf(bench, { attributes: { kept: 1 } }), []);
  });
  test("B1 attributes of a first turn and of a child are found", async (bench) => {
    const commit = {
      runId: "a",
      execution: 1,
      epoch: 1,
      workerId: "w1",
      status: "running",
      lease: "keep",
      attributes: { key: "first" },
    } as const;
    await bench.created("a", { attributes: { kept: 1 }, first: { workerId: "w1", lease: 10_000, commit } });
    same([await found(bench, "first"), await idsOf(bench, { attributes: { kept: 1 } })], [["a"], ["a"]]);
    const held = await bench.running("p");
    const parent = { runId: "p", execution: 1, seq: 1, parentClose: "abandon", announce: false } as const;
    await bench.commit(held, { turn: bench.turn(held), children: [bench.newRun("c", { attributes: { key: "child" }, parent })] });
    same(await found(bench, "child"), ["c"]);
  });
  test("B1 runs are found by workflow, version, beginning of the id and time of their end", async (bench) => {
    await bench.created("order-1", { workflow: "order", version: "1" });
    await bench.created("order-2", { workflow: "order", version: "2" });
    await bench.created("ship-1", { workflow: "ship", version: "1" });
    await bench.created("\uD800odd", { workflow: "odd" });
    bench.time += 10;
    await bench.close(await bench.hold("order-1"));
    bench.time += 10;
    await bench.close(await bench.hold("ship-1"));
    same(await idsOf(bench, { workflow: ["order", "ship", "order"] }), ["ship-1", "order-2", "order-1"]);
    same(await idsOf(bench, { workflow: [] }), []);
    same(await idsOf(bench, { version: "1" }), ["ship-1", "order-1"]);
    same(await idsOf(bench, { version: "3" }), []);
    same(await idsOf(bench, { version: "1", workflow: ["order"] }), ["order-1"]);
    same(await idsOf(bench, { idPrefix: "order-" }), ["order-2", "order-1"]);
    same(await idsOf(bench, { idPrefix: "\uD800" }), ["\uD800odd"]);
    same(await idsOf(bench, { idPrefix: "order-1x" }), []);
    same(await idsOf(bench, { finishedSince: START + 10 }), ["ship-1", "order-1"]);
    same(await idsOf(bench, { finishedUntil: START + 20 }), ["order-1"]);
    same(await idsOf(bench, { finishedSince: START + 11, finishedUntil: START + 20 }), []);
    same(await idsOf(bench, { finishedSince: START, idPrefix: "ship", version: "1", status: ["completed"] }), ["ship-1"]);
    await bench.create("ship-1", { workflow: "ship", onConflict: "restart-if-closed" });
    same(await idsOf(bench, { finishedSince: START + 10 }), ["order-1"]);
  });
  test("B1 runs are found by their key and their schedule", async (bench) => {
    await bench.created("a", { key: "tenant-1" });
    await bench.created("b", { schedule: "hourly" });
    await bench.created("c", { key: "tenant-1", schedule: "hourly" });
    await bench.created("d");
    same(await idsOf(bench, { key: "tenant-1" }), ["c", "a"]);
    same(await idsOf(bench, { schedule: "hourly" }), ["c", "b"]);
    same(await idsOf(bench, { key: "tenant-1", schedule: "hourly" }), ["c"]);
    same(await idsOf(bench, { key: "hourly" }), []);
    await bench.store.terminate([{ runId: "a", reason: undefined }]);
    await bench.create("a", { onConflict: "restart-if-closed", key: "tenant-2" });
    same([await idsOf(bench, { key: "tenant-1" }), await idsOf(bench, { key: "tenant-2" })], [["c"], ["a"]]);
  });
  test("B1 runs of one moment are listed by id, the last first, on pages of any size", async (bench) => {
    const ids = ["b", "é", "a", "😀", "\uE000", "ab", "B", "10", "9"];
    await bench.store.create(ids.map((id) => bench.newRun(id, { attributes: { key: 1, id }, version: "1" })));
    const sorted = ids.toSorted(compareTexts).toReversed();
    for (const filter of [{}, { attributes: { key: 1 } }, { attributes: { key: { gte: 1 } } }, { workflow: "order", version: "1" }])
      for (const limit of [1, 2, 4, 100]) same(await paged(bench, filter, limit), sorted, JSON.stringify({ filter, limit }));
  });
  test("B1 a cursor stays where it is while runs come, go and change", async (bench) => {
    for (const i of range(12)) {
      if (i % 3 === 0) bench.time++;
      await bench.created(`r${String(i).padStart(2, "0")}`, { attributes: { key: "x" } });
    }
    const query = { attributes: { key: { in: ["x", "y"] } }, limit: 4 } as const;
    const first = await bench.store.list(query);
    same(first.runs.map(({ id }) => id), ["r11", "r10", "r09", "r08"]); // biome-ignore format: one line
    bench.time++;
    await bench.created("new", { attributes: { key: "x" } });
    for (const [id, key] of [["r08", null], ["r07", "y"], ["r06", "z"]] as const) await bench.commit(await bench.hold(id), { attributes: { key } }); // biome-ignore format: one line
    const second = await bench.store.list({ ...query, cursor: first.cursor });
    same(second.runs.map(({ id }) => id), ["r07", "r05", "r04", "r03"]); // biome-ignore format: one line
    const third = await bench.store.list({ ...query, cursor: second.cursor });
    same([third.runs.map(({ id }) => id), third.cursor], [["r02", "r01", "r00"], undefined]);
  });
  test("B2 a list sees what was committed before the call", async (bench) => {
    for (const i of range(20)) {
      await bench.created(`r${i}`, { attributes: { i } });
      same([await idsOf(bench, { attributes: { i } }), (await bench.store.count({ attributes: { i } })).pending], [[`r${i}`], 1]);
    }
  });
  test("B2 counts stop at 10,000, and name the statuses of which there are more", async (bench) => {
    const create = (from: number, to: number): Promise<unknown> =>
      bench.store.create(range(to - from).map((i) => bench.newRun(`r${from + i}`, { queue: "q", attributes: { key: 1 } })));
    for (const from of range(50)) await create(from * 200, from * 200 + 200);
    await bench.close(await bench.running("done", { attributes: { key: 1 } }));
    for (const filter of [{}, { workflow: "order" }, { attributes: { key: 1 } }, { since: START }]) {
      const { pending, completed, capped } = await bench.store.count(filter);
      same({ pending, completed, capped }, { pending: 10_000, completed: 1, capped: [] }, JSON.stringify(filter));
    }
    await create(10_000, 10_200);
    for (const filter of [{}, { workflow: "order" }, { attributes: { key: 1 } }, { attributes: { key: { gt: 0 } } }, { since: START }]) {
      const { pending, completed, capped } = await bench.store.count(filter);
      same({ pending, completed, capped }, { pending: 10_000, completed: 1, capped: ["pending"] }, JSON.stringify(filter));
    }
    same((await bench.store.count({ status: ["completed"], attributes: { key: 1 } })).pending, 0);
  });
  test("B1 broad tests among many runs, of which many are of one moment, list every run once", async (bench) => {
    const ids: string[] = [];
    for (const batch of range(15)) {
      if (batch % 3 === 0) bench.time++;
      const runs = range(200).map((i) => {
        const n = batch * 200 + i;
        const attributes = { region: n % 10 < 6 ? "eu" : "us", n: n % 100, tenant: `t${n % 50}`, ...(n % 500 === 3 && { rare: true }) };
        return bench.newRun(`r${(n * 7_919) % 3_000}`, {
          queue: "q",
          workflow: WORKFLOWS[n % 3] ?? "",
          version: n % 2 === 0 ? "1" : undefined,
          attributes,
        });
      });
      await bench.store.create(runs);
      ids.push(...runs.map(({ id }) => id));
    }
    const rows = (await bench.store.get(ids)).filter((row) => row !== undefined);
    const tenants = range(30).map((i) => `t${i}`);
    const filters: RunFilter[] = [
      { attributes: { region: "eu" } },
      { attributes: { region: { in: ["eu", "us"] } } },
      { attributes: { tenant: { in: tenants } } },
      { attributes: { tenant: { in: tenants }, region: "eu" } },
      { attributes: { n: { gte: 10 } } },
      { attributes: { n: { lt: 5 } }, workflow: ["order", "ship"] },
      { attributes: { tenant: { prefix: "t" }, region: "us" }, version: "1" },
      { attributes: { region: "eu", n: { gte: 90 } } },
      { attributes: { region: "us", tenant: "t3" } },
      { attributes: { region: "eu", rare: true } },
      { attributes: { region: "eu" }, status: ["pending", "failed"], since: START + 2, until: START + 4 },
      { attributes: { region: "eu" }, idPrefix: "r1" },
      { version: "1", workflow: "order" },
    ];
    for (const filter of filters) {
      const expected = lookedAt(rows, filter).map(({ id }) => id);
      same(await paged(bench, filter, 170), expected, JSON.stringify(filter));
      same((await bench.store.count(filter)).pending, expected.length, JSON.stringify(filter));
    }
  });
  for (const seed of [1, 2, 3]) {
    test(`B1 B2 lists and counts equal a look at every run, whatever is asked (${seed})`, async (bench) => {
      const dice = new Dice(seed);
      const ids = await livedThrough(bench, dice);
      const rows = (await bench.store.get(ids)).filter((row) => row !== undefined);
      for (const _ of range(60)) {
        const filter = question(dice, rows);
        const expected = lookedAt(rows, filter);
        const limit = dice.of([1, 2, 7, 50]);
        const asked = JSON.stringify({ ...filter, limit });
        same(await paged(bench, filter, limit), expected.map(({ id }) => id), asked); // biome-ignore format: one line
        const counts = await bench.store.count(filter);
        const byStatus = Object.fromEntries(STATUSES.map((status) => [status, expected.filter((row) => row.status === status).length]));
        same(counts, { ...byStatus, capped: [] }, asked);
      }
    });
  }
}

async function paged(bench: Bench, filter: RunFilter, limit: number): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await bench.store.list({ ...filter, limit, cursor });
    assert.ok(
      page.runs.length <= limit && (page.runs.length > 0 || page.cursor === undefined),
      "a page is never empty, except for the last",
    );
    seen.push(...page.runs.map(({ id }) => id));
    cursor = page.cursor;
  } while (cursor !== undefined);
  return seen;
}

// ── the model ──

const STATUSES: readonly RunStatus[] = [
  "pending", "running", "sleeping", "blocked", "rolling_back", "completed", "failed", "canceled", "terminated", "continued",
]; // biome-ignore format: one line reads best

/** Every run that matches, in the order of lists. */
export function lookedAt(rows: readonly RunRow[], filter: RunFilter): RunRow[] {
  return rows.filter((row) => matches(row, filter)).toSorted((a, b) => b.createdAt - a.createdAt || compareTexts(b.id, a.id));
}
function matches(row: RunRow, filter: RunFilter): boolean {
  const { status, workflow, version, queue, parentId, idPrefix, attributes = {} } = filter;
  const is = <T>(asked: T | undefined, value: T | undefined): boolean => asked === undefined || asked === value;
  const within = (value: number | undefined, since: number | undefined, until: number | undefined): boolean =>
    (since === undefined || (value !== undefined && value >= since)) && (until === undefined || (value !== undefined && value < until));
  return (
    (status === undefined || status.includes(row.status)) &&
    (workflow === undefined || [workflow].flat().includes(row.workflow)) &&
    is(version, row.version) &&
    is(queue, row.queue) &&
    is(filter.key, row.key) &&
    is(filter.schedule, row.schedule) &&
    is(parentId, row.parent?.runId) &&
    (idPrefix === undefined || row.id.startsWith(idPrefix)) &&
    within(row.createdAt, filter.since, filter.until) &&
    within(row.finishedAt, filter.finishedSince, filter.finishedUntil) &&
    Object.entries(attributes).every(([name, test]) => passesPlainly(test, row.attributes[name]))
  );
}
/** Not by the words of the port: written out once more, code point by code point. */
function passesPlainly(test: AttributeTest, value: Scalar | undefined): boolean {
  if (value === undefined) return false;
  if (typeof test !== "object") return test === value;
  if ("in" in test) return test.in.includes(value);
  if ("prefix" in test) return typeof value === "string" && [...test.prefix].every((char, i) => [...value][i] === char);
  const { gt, gte, lt, lte } = test;
  const isType = [gt, gte, lt, lte].every((limit) => limit === undefined || typeof limit === typeof value);
  const order = (limit: string | number): number =>
    typeof value === "string" ? comparePoints(value, String(limit)) : Number(value) - Number(limit);
  return (
    isType &&
    (gt === undefined || order(gt) > 0) &&
    (gte === undefined || order(gte) >= 0) &&
    (lt === undefined || order(lt) < 0) &&
    (lte === undefined || order(lte) <= 0)
  );
}
function comparePoints(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => Array.from(text, (char) => char.codePointAt(0) ?? 0));
  const at = range(Math.max(left?.length ?? 0, right?.length ?? 0)).find((i) => left?.[i] !== right?.[i]);
  return at === undefined ? 0 : (left?.[at] ?? -1) - (right?.[at] ?? -1);
}

// ── pasts and questions ──

/** Numbers that are the same each time. */
class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = seed;
  }
  below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * limit);
  }
  of<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
  maybe<T>(times: number, item: () => T): T | undefined {
    return this.below(times) === 0 ? item() : undefined;
  }
}
const NAMES = ["tier", "n", "odd \"name'"];
const VALUES: readonly Scalar[] = [
  "", "1", "a", "ab", "abc", "b", "Z", "é", "\uFFFD", "😀", "😀a", "\u0000", "\uD83D", "true",
  0, 1, -1, 1.5, 0.1 + 0.2, 1e21, -1e-7, 2 ** 53, true, false,
]; // biome-ignore format: values by type
const WORKFLOWS = ["order", "ship", "bill"];

function attributesOf(dice: Dice): Record<string, Scalar> {
  return Object.fromEntries(NAMES.flatMap((name) => (dice.below(3) === 0 ? [] : [[name, dice.of(VALUES)]])));
}
async function livedThrough(bench: Bench, dice: Dice): Promise<string[]> {
  const ids: string[] = [];
  for (const at of range(12)) {
    bench.time += dice.of([0, 0, 1, 5]);
    const runs = range(1 + dice.below(8)).map((i) =>
      bench.newRun(`${dice.of(["r", "R", "order-", "😀"])}${at}-${i}`, {
        workflow: dice.of(WORKFLOWS),
        version: dice.of([undefined, "1", "2"]),
        queue: dice.of(["q1", "q2"]),
        ...(dice.below(3) === 0 && { schedule: dice.of(["hourly", "daily"]) }),
        attributes: attributesOf(dice),
        ...(ids.length > 0 &&
          dice.below(4) === 0 && { parent: { runId: dice.of(ids), execution: 9, seq: i + 1, parentClose: "abandon", announce: false } }),
      }),
    );
    await bench.store.create(runs);
    ids.push(...runs.map(({ id }) => id));
    const serves = WORKFLOWS.map((workflow) => ({ workflow, versions: "*" as const }));
    const { runs: claimed } = await bench.claim({ queue: dice.of(["q1", "q2"]), serves, limit: 6 });
    for (const { run } of claimed) {
      const held = { runId: run.id, execution: run.execution, epoch: run.epoch, workerId: "w1", turns: run.turns };
      const attributes = dice.maybe(2, () => Object.fromEntries(NAMES.map((name) => [name, dice.of([null, ...VALUES])] as const)));
      const fate = dice.below(4);
      if (fate === 0) await bench.close(held, COMPLETED, { ...(attributes !== undefined && { attributes }) });
      else if (fate === 1) await bench.close(held, { status: "failed", error: { name: "Error", message: "no" }, resumable: false });
      else
        await bench.commit(held, {
          status: fate === 2 ? "running" : "sleeping",
          lease: fate === 2 ? "keep" : "park",
          ...(attributes !== undefined && { attributes }),
        });
    }
  }
  return ids;
}
function questionOfAttribute(dice: Dice): AttributeTest {
  const value = dice.of(VALUES);
  if (typeof value === "boolean") return dice.of([value, { in: [value, dice.of(VALUES)] }]);
  const other = dice.of(VALUES.filter((one): one is string | number => typeof one === typeof value && typeof one !== "boolean"));
  return dice.of<AttributeTest>([
    value,
    { in: [value, dice.of(VALUES), dice.of(VALUES)] },
    { in: [] },
    { gt: value },
    { gte: value, lt: other },
    { lte: value },
    { gt: value, lte: other },
    typeof value === "string" ? { prefix: value } : value,
  ]);
}
function question(dice: Dice, rows: readonly RunRow[]): RunFilter {
  const times = rows.map(({ createdAt }) => createdAt);
  const row = (): RunRow => dice.of(rows);
  const names = NAMES.filter(() => dice.below(2) === 0);
  return {
    status: dice.maybe(4, () => dice.of([[dice.of(STATUSES)], [dice.of(STATUSES), "pending", "completed"], STATUSES, []])),
    workflow: dice.maybe(4, () => dice.of([dice.of(WORKFLOWS), ["order", "bill"], "none"])),
    version: dice.maybe(6, () => dice.of(["1", "2", "3"])),
    queue: dice.maybe(6, () => "q1"),
    schedule: dice.maybe(8, () => dice.of(["hourly", "daily", "never"])),
    parentId: dice.maybe(12, () => row().parent?.runId),
    idPrefix: dice.maybe(6, () => dice.of(["r", "order-", "😀1", row().id])),
    attributes: dice.maybe(2, () => Object.fromEntries(names.map((name) => [name, questionOfAttribute(dice)]))),
    finishedSince: dice.maybe(8, () => dice.of(times)),
    finishedUntil: dice.maybe(8, () => dice.of(times) + 1),
    since: dice.maybe(6, () => dice.of(times)),
    until: dice.maybe(6, () => dice.of(times)),
  };
}
