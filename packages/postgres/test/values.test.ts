// Values: what goes in comes out, whatever letters and bytes it has, and a person can read what is in between.

import { type Command, type Job, jsonCodec, type Turn } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { compareAsBytes, text } from "../src/columns.ts";
import { commandOf, jobOf, type RecordFields, toFields } from "../src/runs/recordCodec.ts";
import { COMPLETED, claim, draft, heldOf, inboxOf, newRun, range, running, signal, turnOf, useDatabase } from "./support.ts";

const database = useDatabase();
const payload = (value: unknown): string => jsonCodec.encode(value);
const value = payload({ amount: 12, at: new Date(0), odd: "\0\ud800", $x: 1 });
const bytes = new Uint8Array([0, 255, 1]);
const at = { seq: 3, unit: "a/~1", name: "charge", n: 0 };
const error = { name: "Error", message: "no\0", data: { $x: [1, null], list: [{ $date: "not one" }] } };
const retry = { maxAttempts: Number.POSITIVE_INFINITY, nonRetryable: ["TypeError"] };

const JOBS: readonly Job[] = [
  { type: "start", runId: "a", workflow: "order", version: "2", input: value, seed: "s", startedAt: 5, execution: 2, attempt: 1, parentId: "p", retry: { maxAttempts: Number.POSITIVE_INFINITY, initialInterval: 1, backoff: 2, maxInterval: 3, jitter: 0.1 } },
  { type: "resolve", seq: 1, outcome: { status: "completed", value } },
  { type: "resolve", seq: 1, outcome: { status: "completed", value: bytes } },
  { type: "resolve", seq: 1, outcome: { status: "failed", error, attempts: 3 } },
  { type: "resolve", seq: 1, outcome: { status: "canceled", reason: "late" } },
  { type: "fire", seq: 2 },
  { type: "childStarted", seq: 2, runId: "c\0" },
  { type: "signal", id: "s1", name: "go\ud800", payload: bytes, refused: "why" },
  { type: "update", id: "u1", name: "set", input: value, validate: false },
  { type: "cancel" },
  { type: "cancel", reason: "enough" },
  { type: "expire", error },
  { type: "resume", attempt: 2, voids: [1, 2] },
]; // biome-ignore format: one per line
const COMMANDS: readonly Command[] = [
  { type: "step", ...at },
  { type: "step", ...at, n: 4, timeout: 5, retry, rollback: true },
  { type: "step", ...at, timeout: 5 },
  { type: "step", ...at, retry },
  { type: "step", ...at, rollback: true },
  { type: "step", ...at, name: "odd\0\ud800\u001a0000", unit: "x\0" },
  { type: "activity", ...at, input: value, queue: "q", retry, startToClose: 1 },
  { type: "child", ...at, input: bytes, id: "c", parentClose: "abandon", detached: true },
  { type: "sleep", ...at, duration: 5 },
  { type: "signalRun", ...at, runId: "b", signal: "go", payload: value },
  { type: "sideEffect", ...at, value },
  { type: "sideEffect", ...at, error },
  { type: "signal", ...at, names: ["a", "b\0"], count: 2 },
  { type: "join", ...at, keys: ["a", "b"] },
  { type: "attributes", ...at, attributes: { a: 1, b: null, $c: "x" } },
  { type: "settle", seq: 3, status: "completed", messages: ["s1"] },
  { type: "settle", seq: 3, status: "completed", messages: [] },
  { type: "dispatch", seq: 3, unit: "r/~h0", message: "s1" },
  { type: "acceptUpdate", seq: 3, id: "u1" },
  { type: "completeUpdate", seq: 3, id: "u1", status: "failed", error },
  { type: "commit", seq: 3, unit: "work", count: 2, value, state: value, messages: [{ type: "signal", id: "s", name: "x", payload: bytes }, { type: "update", id: "u", name: "x", input: value }, { type: "fire", seq: 3 }], trim: 1 },
  { type: "fail", error, causes: [1], retryAfter: 5, rollbackError: error },
  { type: "canceled", reason: "x", value },
  { type: "continueAsNew", input: value, version: "3", signals: [{ id: "s", name: "x", payload: value }] },
] as unknown as readonly Command[]; // biome-ignore format: one per line

/** As the server would give it back. */
const read = ({ y, q, u, m, n, f, d, v }: RecordFields) => ({
  type: y,
  seq: q ?? null,
  unit: u ?? null,
  name: m ?? null,
  n: n ?? null,
  refs: f ?? null,
  data: d ?? null,
  value: v ?? null,
});

describe("records", () => {
  test.each(JOBS)("P8 the job $type comes back as it was", (job) => {
    expect(jobOf(read(toFields(job)))).toEqual(job);
  });
  test.each(COMMANDS)("P8 the command $type comes back as it was", (command) => {
    expect(commandOf(read(toFields(command)))).toEqual(command);
  });
  test.each(JOBS)("V4 the job $type without one of the columns it needs is not a record", (job) => {
    const fields = read(toFields(job));
    for (const column of ["seq", "name", "refs"] as const) {
      if (fields[column] !== null) expect(() => jobOf({ ...fields, [column]: null }), column).toThrow(TypeError);
    }
    if (job.type !== "start" && fields.value !== null) expect(() => jobOf({ ...fields, value: null })).toThrow(TypeError);
  });
  const MAY_LACK_VALUE = ["sideEffect", "completeUpdate", "canceled"];
  test.each(COMMANDS)("V4 the command $type without one of the columns it needs is not a record", (command) => {
    const fields = read(toFields(command));
    for (const column of ["seq", "unit", "name", "n"] as const) {
      if (fields[column] !== null) expect(() => commandOf({ ...fields, [column]: null }), column).toThrow(TypeError);
    }
    if (command.type !== "settle" && fields.refs !== null) expect(() => commandOf({ ...fields, refs: null })).toThrow(TypeError);
    if (!MAY_LACK_VALUE.includes(command.type) && fields.value !== null)
      expect(() => commandOf({ ...fields, value: null })).toThrow(TypeError);
  });
  test("P8 an unknown kind comes back as it was", () => {
    const record = { type: "novelty", seq: 1, deep: { value: "x", list: [1n, undefined] }, value: "{}", bytes } as unknown as Command;
    expect(commandOf(read(toFields(record)))).toEqual(record);
  });
  test("P8 every kind, any number, through the server", async () => {
    const store = await database.open({ schema: database.newSchema() });
    const held = await running(store, "a");
    const turns: Turn[] = [0, 1, 2, 3, 5, 7, 17, 40].map((count) => {
      const pick = <T>(list: readonly T[]) => range(count).map((i) => list[(i * 7 + count) % list.length] as T);
      const commands = pick(COMMANDS.filter(({ type }) => type !== "commit"));
      return { ...turnOf(held, { jobs: pick(JOBS), commands }), ...(count % 2 === 1 && { state: bytes }) };
    });
    for (const turn of turns) await store.commit([draft(held, { turn })]);
    expect(await store.history("a")).toEqual(turns);
  });
  test("P8 a start leaves out what its execution says, however the run began, and comes back whole", async () => {
    const schema = database.newSchema();
    const store = await database.open({ schema });
    const start = (id: string): Job => ({
      type: "start",
      runId: id,
      workflow: "order",
      input: payload(id),
      seed: `seed of ${id}`,
      startedAt: 9,
    });
    const first = { runId: "first", execution: 1, epoch: 1, workerId: "w1", turns: 0 };
    const turn = turnOf(first, { jobs: [start("first")] });
    await store.create([newRun("first", { first: { workerId: "w1", lease: 1_000, commit: draft(first, { turn }) } })]);
    const claimed = await running(store, "claimed");
    const other = turnOf(claimed, { jobs: [start("claimed")] });
    await store.commit([draft(claimed, { turn: other })]);
    expect([await store.history("first"), await store.history("claimed")]).toEqual([[turn], [other]]);
    const rows = await database.sql(`SELECT data, value FROM "${schema}".records WHERE type = 'start'`);
    expect(rows).toEqual([{ data: '{"startedAt":9}', value: null }, { data: '{"startedAt":9}', value: null }]); // biome-ignore format: a pair
  });
});

describe("odd letters", () => {
  const odd = [
    "\0",
    "a\0b",
    "\ud800",
    "\udc00x",
    "\u001a",
    "\u001a0000",
    "\u0001",
    "\\",
    "\\u0000",
    "'; DROP SCHEMA holdfast; --",
    "$1",
    "\n\t",
    "\u2028",
    "🚀",
    "e\u0301",
  ];

  test("P8 no two texts become one", () => {
    expect(new Set(odd.map(text)).size).toBe(odd.length);
  });
  test.each(odd)("P8 %j in names, versions, attributes, reasons, errors and values comes back as it was", async (name) => {
    const store = await database.open({ schema: database.newSchema() });
    const attributes = { [`key ${name}`]: name };
    await store.create([
      newRun("a", {
        workflow: name,
        version: name,
        queue: name,
        seed: name,
        attributes,
        input: name,
        messages: [{ job: signal("s1", name) }],
      }),
    ]);
    const [claimed] = await claim(store, { queue: name, workerId: name, serves: [{ workflow: name, versions: [name] }] });
    if (claimed === undefined) throw new Error("nothing claimed");
    const { run, inbox } = claimed;
    expect([run.workflow, run.version, run.queue, run.seed, run.input, run.workerId, run.attributes]).toEqual([
      name,
      name,
      name,
      name,
      name,
      name,
      attributes,
    ]);
    expect(inbox.map(({ job }) => job)).toEqual([signal("s1", name)]);
    expect((await store.list({ limit: 9, attributes, workflow: name, queue: name })).runs).toHaveLength(1);
    const held = heldOf(claimed);
    const failure = { name, message: name, data: { [name]: name } };
    const turn = turnOf(held, { jobs: [signal("s1", name)], commands: [{ type: "step", seq: 1, unit: name, name, n: 0 }], state: name });
    const attempts = [{ seq: 1, number: 1, status: "failed", startedAt: 1, endedAt: 2, workerId: name, error: failure }] as const;
    await store.commit([draft(held, { turn, state: name, waitingFor: [name], attempts, attributes: { other: name } })]);
    expect(await store.history("a")).toEqual([turn]);
    expect([...(await store.workers("a"))]).toEqual([[0, name]]);
    expect(await store.attempts("a")).toEqual(attempts);
    const [row] = await store.get(["a"]);
    expect([row?.state, row?.waitingFor, row?.attributes]).toEqual([name, [name], { ...attributes, other: name }]);
    await store.commit([draft(held, { status: "failed", close: { status: "failed", error: failure, output: name } })]);
    const [end] = await store.get(["a"]);
    expect([end?.error, end?.output]).toEqual([failure, name]);
  });
  test.each(odd)("P8 %j in ids and keys comes back as it was, and meets no other", async (id) => {
    const store = await database.open({ schema: database.newSchema() });
    const update = { type: "update", id, name: "x", input: value } as const;
    expect(await store.create([newRun(id, { idempotencyKey: id }), newRun(`other ${id}`)])).toMatchObject([
      { status: "created", id },
      { status: "created", id: `other ${id}` },
    ]);
    expect(await store.create([newRun("another", { idempotencyKey: id })])).toMatchObject([{ status: "existing", id }]);
    const sent = [{ job: signal(id), idempotencyKey: id }, { job: signal(id), idempotencyKey: id }, { job: update }];
    expect((await store.send(sent.map((message) => ({ runId: id, message })))).map(({ status }) => status)).toEqual([
      "sent",
      "duplicate",
      "sent",
    ]);
    const claimed = (await claim(store)).find(({ run }) => run.id === id);
    if (claimed === undefined) throw new Error("not claimed");
    expect(claimed.inbox.map(({ job }) => job)).toEqual([signal(id), update]);
    const held = heldOf(claimed);
    const parent = { runId: id, execution: 1, seq: 2, parentClose: "cancel", announce: true } as const;
    const [result] = await store.commit([
      draft(held, {
        turn: turnOf(held),
        children: [newRun(`child ${id}`, { parent, idempotencyKey: `child ${id}` })],
        sends: [{ seq: 3, runId: `other ${id}`, message: { job: signal(id), idempotencyKey: id } }],
        updates: [{ id, outcome: { status: "completed", value } }],
      }),
    ]);
    expect(result).toMatchObject({ status: "committed", sent: [{ status: "sent" }] });
    expect(result?.status === "committed" && result.inbox.slice(2).map(({ job }) => job)).toMatchObject([
      { type: "childStarted", runId: `child ${id}` },
      { type: "resolve", seq: 3 },
    ]);
    expect(await store.updates([{ runId: id, id }])).toEqual([{ status: "completed", value }]);
    expect((await store.list({ limit: 9, parentId: id })).runs.map((run) => [run.id, run.parent?.runId])).toEqual([[`child ${id}`, id]]);
    expect((await store.get([id, `${id} `])).map((run) => run?.id)).toEqual([id, undefined]);
  });
  test("a message that is refused takes no other with it, though they share a call", async () => {
    const store = await database.open({ schema: database.newSchema() });
    const held = await running(store, "a");
    const bad = {
      ...signal("bad"),
      get payload(): string {
        throw new Error("this one can't be read");
      },
    };
    const jobs = [signal("s1"), bad, signal("s2"), signal("s3")];
    const results = await Promise.allSettled(jobs.map((job) => store.send([{ runId: "a", message: { job } }])));
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    // Separate calls of the store may overtake each other: the batcher in front of it keeps the order of a run's messages.
    expect((await inboxOf(store, held)).map(({ job }) => "id" in job && job.id).sort()).toEqual(["s1", "s2", "s3"]);
  });
});

test("P8 values can be read, and found, with plain SQL", async () => {
  const schema = database.newSchema();
  const store = await database.open({ schema });
  const held = await running(store, "order-1", { input: payload({ item: "a lamp" }), attributes: { customer: "c1" } });
  await store.commit([draft(held, { turn: turnOf(held), state: payload({ paid: true }) })]);
  await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
  const [run] =
    await database.sql(`SELECT id, status, input::json ->> 'item' AS item, state::json ->> 'paid' AS paid, output, attributes ->> 'customer' AS customer,
    finished > created - interval '1 s' AS ended FROM "${schema}".run_details WHERE input::json ->> 'item' = 'a lamp'`);
  expect(run).toEqual({
    id: "order-1",
    status: "completed",
    item: "a lamp",
    paid: "true",
    output: payload("done"),
    customer: "c1",
    ended: true,
  });
  const history = await database.sql(
    `SELECT turn, direction, type, seq, name, worker FROM "${schema}".history WHERE run_id = 'order-1' ORDER BY turn, position`,
  );
  expect(history).toEqual([
    { turn: 0, direction: "command", type: "step", seq: 1, name: "step-0", worker: "w1" },
    { turn: 1, direction: "command", type: "step", seq: 2, name: "step-1", worker: "w1" },
  ]);
});

test("P9 a batch of more than a call carries goes in several, in order", async () => {
  const store = await database.open({ schema: database.newSchema() });
  const big = payload("x".repeat(2_000_000));
  const runs = range(12).map((i) => newRun(`r${i}`, { input: big }));
  expect((await store.create(runs)).map(({ status }) => status)).toEqual(runs.map(() => "created"));
  const held = await running(store, "a");
  const turns = range(9).map(() => turnOf(held, { commands: [{ type: "sideEffect", seq: 1, unit: "", name: "x", n: 0, value: big }] }));
  expect((await store.commit(turns.map((turn) => draft(held, { turn })))).map(({ status }) => status)).toEqual(
    turns.map(() => "committed"),
  );
  expect((await store.history("a")).map(({ index }) => index)).toEqual(range(9));
}, 60_000);

test("D3 runs are locked in the order of the column, whatever letters their ids have", async () => {
  const ids = ["a", "B", "ä", "\uffee", "\ue000", "\u{1f600}", "\u{1f600}a", "z", "\ud7ff", ""];
  const sorted = await database.sql<{ id: string }>(
    `SELECT id FROM unnest(ARRAY[${ids.map((id) => `'${id}'`).join(", ")}]) AS id ORDER BY id COLLATE "C"`,
  );
  expect([...ids].sort(compareAsBytes)).toEqual(sorted.map(({ id }) => id));
  expect(compareAsBytes("a", "a")).toBe(0);
});

test("D2 a turn counts, whatever the clock says", async () => {
  const store = await database.open({ schema: database.newSchema(), clock: () => 0 });
  await store.create([newRun("a"), newRun("b")]);
  const [a, b] = (await claim(store)).map(heldOf);
  if (a === undefined || b === undefined) throw new Error("two runs were to be claimed");
  await store.commit([
    draft(a, { turn: turnOf(a, { time: 0 }), lease: "park", status: "sleeping", wakeAt: 0 }),
    draft(b, { turn: turnOf(b, { time: 0 }), ...COMPLETED }),
  ]);
  expect((await store.get(["a", "b"])).map((row) => [row?.turns, row?.historyLength])).toEqual([
    [1, 1],
    [1, 1],
  ]);
});

/** As many letters of three bytes as a text may have, in no order: an index can't make them shorter. */
function longest(seed: number, length = 512): string {
  let state = seed;
  const next = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 16;
  };
  return String.fromCharCode(...range(length).map(() => 0x4e00 + (next() % 0x5000)));
}
test("P9 texts that are as long as they may be are found again, whatever letters they have", async () => {
  const store = await database.open({ schema: database.newSchema() });
  const [id, queue, version, idempotencyKey, childId] = range(5).map((i) => longest(i + 1)) as [string, string, string, string, string];
  const [name, activity, code] = range(3).map((i) => longest(i + 10, 255)) as [string, string, string];
  const attributes = { [longest(20)]: longest(21) };
  const long = { workflow: name, queue, version, attributes };
  const run = newRun(id, { ...long, idempotencyKey, messages: [{ job: signal(longest(30), longest(31, 255)), idempotencyKey }] });
  expect(await store.create([run])).toMatchObject([{ status: "created" }]);
  expect(await store.create([{ ...run, id: "another" }])).toMatchObject([{ status: "existing", id }]);
  const request = { workerId: longest(40), queue, serves: [{ workflow: name, versions: [version] }] };
  const [claimed] = await claim(store, request);
  if (claimed === undefined) throw new Error("It can't be claimed.");
  const held = heldOf(claimed);
  const child = newRun(childId, { ...long, parent: { runId: id, execution: 1, seq: 1, parentClose: "abandon", announce: false } });
  const retry = { maxAttempts: 1, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 };
  const task = { seq: 2, activity, queue, input: jsonCodec.encode(1), retry, location: longest(50) };
  const blocked = { error: { name: "E", message: "m" }, code };
  const commit = { turn: turnOf(held), children: [child], tasks: [task], status: "blocked", lease: "park", blocked } as const;
  expect(await store.commit([draft(held, commit)])).toMatchObject([{ status: "committed" }]);
  const { tasks } = await store.claimTasks({ workerId: "w1", queue, activities: [activity], limit: 1, lease: 1_000 });
  expect(tasks).toMatchObject([{ activity, queue }]);
  const updated = await store.send([
    { runId: id, message: { job: { type: "update", id: longest(60), name: "u", input: jsonCodec.encode(1) } } },
  ]);
  expect(updated).toMatchObject([{ status: "sent" }]);
  expect((await claim(store, request)).map(({ run: { id: found } }) => found).toSorted()).toEqual([id, childId].toSorted());
  for (const filter of [{ workflow: name }, { queue }, { attributes }])
    expect((await store.list({ limit: 9, ...filter })).runs).toHaveLength(2);
  expect((await store.list({ limit: 9, parentId: id })).runs).toHaveLength(1);
});
