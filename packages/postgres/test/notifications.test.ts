// News from other processes: whatever the schema is called, and though LISTEN may not work at first.

import type { Logger } from "holdfast";
import type { Wakeup } from "holdfast/store";
import { expect, onTestFinished, test } from "vitest";
import { newRun, range, until, useDatabase } from "./support.ts";

const database = useDatabase();

/** A role of its own, for one connection at a time. */
async function roleForOne(): Promise<{ role: string; url: string }> {
  const role = `holdfast_single_${process.pid}`;
  const [row] = await database.sql<{ name: string }>("SELECT current_database() AS name");
  await database.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'secret' CONNECTION LIMIT 1`);
  await database.sql(`GRANT CREATE ON DATABASE ${row?.name} TO ${role}`);
  onTestFinished(async () => {
    await database.sql(`DROP OWNED BY ${role} CASCADE`);
    await database.sql(`DROP ROLE ${role}`);
  });
  const url = new URL(database.url);
  url.username = role;
  url.password = "secret";
  return { role, url: url.href };
}

test("W1 a store that can't listen at first polls, says so once, and listens as soon as it can", async () => {
  const schema = database.newSchema();
  const { role, url } = await roleForOne();
  const warnings: string[] = [];
  const logger: Logger = { debug() {}, info() {}, warn: (message) => void warnings.push(message), error() {} };
  // Its one connection is for calls.
  const store = await database.open({ connectionString: url, schema, connections: 1, logger });
  onTestFinished(() => store.close());
  const heard: Wakeup[] = [];
  store.watch((wakeup) => heard.push(wakeup));
  await until(() => heard.length > 0, "a look for news");
  expect(warnings).toEqual([expect.stringMatching(/no connection left.*connections=…/)]);
  await database.sql(`ALTER ROLE ${role} CONNECTION LIMIT -1`);
  await until(async () => (await database.sql(`SELECT 1 FROM ${schema}.instances`)).length > 0, "it to listen");
  heard.length = 0;
  const beside = await database.open({ schema });
  await beside.create([newRun("a")]);
  await until(() => heard.some(({ work, results }) => work === true && results !== true), "the news of the run");
  expect(warnings).toHaveLength(1);
}, 60_000);

const LONG = ["s".repeat(63), "ä".repeat(31), `${"漢".repeat(20)}abc`];
test.each(LONG)("W1 processes hear of each other in a schema whose name takes all the bytes there are: %s", async (schema) => {
  const [store, beside] = [await database.open({ schema }), await database.open({ schema })];
  const heard: Wakeup[] = [];
  store.watch((wakeup) => heard.push(wakeup));
  await beside.create([newRun("a")]);
  // Not a look for news, which would be for all kinds.
  await until(() => heard.some(({ work, results }) => work === true && results !== true), "the news of the run");
  expect((await store.get(["a"]))[0]?.id).toBe("a");
});

test("W1 processes of schemas with long names that begin alike do not hear each other", async () => {
  const [schema, other] = range(2).map((i) => `${"s".repeat(62)}${i}`);
  const [store, beside, stranger] = [
    await database.open({ schema }),
    await database.open({ schema }),
    await database.open({ schema: other }),
  ];
  const heard: Wakeup[] = [];
  store.watch((wakeup) => heard.push(wakeup));
  const twin = await database.open({ schema: other });
  await stranger.create([newRun("a")]);
  // One after the other, through the same queue of the server.
  const told = new Promise<void>((resolve) => void twin.watch(() => resolve()));
  await stranger.create([newRun("b")]);
  await told;
  await beside.create([newRun("c", { queue: "elsewhere" })]);
  await until(() => heard.length > 0, "news of its own schema");
  expect(heard).toHaveLength(1);
});
