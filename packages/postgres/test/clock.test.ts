// W3: a clock of the server that is set back.

import { expect, test } from "vitest";
import { claim, running, until, useDatabase } from "./support.ts";

const database = useDatabase();

test("W3 a process that begins after the server's clock was set back ends the leases of the dead after their length", async () => {
  const schema = database.newSchema();
  const dead = await database.open({ schema });
  await running(dead, "a");
  // An hour back, seen from then: everything that was written lies in the future.
  await database.sql(`UPDATE ${schema}.runs SET available_at = available_at + 3600000, lease = 50`);
  await database.sql(`UPDATE ${schema}.calls SET at = at + interval '1 hour'`);
  const heir = await database.open({ schema });
  await heir.expire();
  const [taken] = await until(async () => {
    const runs = await claim(heir, { workerId: "w2", queue: "queue of a" });
    return runs.length > 0 && runs;
  }, "the run of the dead worker");
  expect(taken).toMatchObject({ run: { id: "a" }, recovered: true });
});
