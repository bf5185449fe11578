// Settings of servers, databases and roles that people have: what would change values is refused, all others change nothing.

import { jsonCodec } from "@holdfast/core";
import { expect, onTestFinished, test } from "vitest";
import { COMPLETED, claim, draft, heldOf, inboxOf, newRun, running, signal, TestStore, turnOf, useDatabase } from "./support.ts";

const database = useDatabase();
let databases = 0;

async function newDatabase(more = ""): Promise<{ name: string; url: string }> {
  const name = `holdfast_settings_${process.pid}_${++databases}`;
  await database.sql(`CREATE DATABASE ${name} ${more}`);
  onTestFinished(async () => {
    await database.sql(`DROP DATABASE ${name} WITH (FORCE)`);
  });
  return { name, url: database.server.url(name) };
}
async function open(url: string): Promise<TestStore> {
  const store = new TestStore({ connectionString: url });
  onTestFinished(() => store.close());
  await store.open();
  return store;
}

test.each(["LATIN1", "SQL_ASCII"])("HF_STORE_CANNOT_OPEN a database with the encoding %s is refused, with what to do", async (encoding) => {
  const [version] = await database.sql<{ number: number }>("SELECT current_setting('server_version_num')::integer AS number");
  const provider = (version?.number ?? 0) >= 150_000 ? "LOCALE_PROVIDER libc" : "";
  const { url } = await newDatabase(`ENCODING '${encoding}' TEMPLATE template0 ${provider} LC_COLLATE 'C' LC_CTYPE 'C'`);
  const refused = { code: "HF_STORE_CANNOT_OPEN", message: expect.stringMatching(new RegExp(`${encoding}.*\n.*ENCODING 'UTF8'`)) };
  await expect(open(url)).rejects.toMatchObject(refused);
});

test("HF_STORE_CANNOT_OPEN array_nulls = off is refused, with what to do", async () => {
  const { name, url } = await newDatabase();
  await database.sql(`ALTER DATABASE ${name} SET array_nulls = off`);
  const toDo = `ALTER DATABASE ${name} SET array_nulls = on`;
  await expect(open(url)).rejects.toMatchObject({ code: "HF_STORE_CANNOT_OPEN", message: expect.stringContaining(toDo) });
  await database.sql(toDo);
  await open(url);
});

const SETTINGS: readonly Readonly<Record<string, string>>[] = [
  { standard_conforming_strings: "off", backslash_quote: "off" },
  { default_transaction_isolation: "'serializable'" },
  { lock_timeout: "'1ms'" },
  {
    IntervalStyle: "sql_standard",
    DateStyle: "German, DMY",
    TimeZone: "'Asia/Kathmandu'",
    bytea_output: "escape",
    extra_float_digits: "-15",
    search_path: "''",
    transform_null_equals: "on",
    plan_cache_mode: "force_custom_plan",
    client_encoding: "LATIN1",
    row_security: "off",
  },
];

/** A bit of everything: what comes back has to be what went in. */
async function live(store: TestStore): Promise<void> {
  const text = "a\\b 'c' \"d\" \\n 漢 NULL {} $1";
  const value = jsonCodec.encode({ text });
  const child = { runId: text, execution: 1, seq: 1, parentClose: "terminate", announce: true } as const;
  await store.create([newRun(text, { input: value, attributes: { text }, queue: text, deadline: 3_600_000 })]);
  const [claimed] = await claim(store, { queue: text });
  if (claimed === undefined) throw new Error("It can't be claimed.");
  expect(claimed.run).toMatchObject({ id: text, input: value, attributes: { text } });
  const held = heldOf(claimed);
  const other = await running(store, `other ${text}`);
  // In one batch: records with and without what may be null.
  const results = await store.commit([
    draft(held, { turn: turnOf(held), state: value }),
    draft(other, { turn: turnOf(other, { commands: [{ type: "complete", value }] }) }),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["committed", "committed"]);
  await store.commit([draft(held, { turn: turnOf(held), children: [newRun(`child ${text}`, { parent: child })] })]);
  await store.send([{ runId: text, message: { job: signal(text), idempotencyKey: text } }]);
  expect(await inboxOf(store, held)).toMatchObject([{ job: { type: "childStarted" } }, { job: signal(text) }]);
  const history = await store.history(text);
  expect(history[0]?.commands).toEqual([{ type: "step", seq: 1, unit: "", name: "step-0", n: 0 }]);
  expect((await store.list({ limit: 10, attributes: { text } })).runs.map(({ id }) => id)).toEqual([text]);
  // What the server makes by itself: errors of runs that end with others, and of messages to runs that do not exist.
  const toMissing = { seq: 3, runId: "missing", message: { job: signal("s") } };
  await store.commit([draft(held, { turn: turnOf(held), sends: [toMissing] })]);
  const [answer] = (await inboxOf(store, held)).slice(-1);
  expect(answer?.job).toMatchObject({
    type: "resolve",
    outcome: { status: "failed", error: { name: "RunNotFoundError", message: expect.stringContaining("missing") } },
  });
  await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
  const [parent, ended] = await store.get([text, `child ${text}`]);
  expect(parent).toMatchObject({ status: "completed", state: value });
  expect(ended).toMatchObject({ status: "terminated", error: { name: "RunTerminatedError", message: expect.stringContaining(text) } });
  expect((await store.expire()).expired).toBe(0);
}

test.each(SETTINGS)("P8 %o changes nothing of what is written and read", async (settings) => {
  const { name, url } = await newDatabase();
  for (const [setting, value] of Object.entries(settings)) await database.sql(`ALTER DATABASE ${name} SET ${setting} = ${value}`);
  await live(await open(url));
});
