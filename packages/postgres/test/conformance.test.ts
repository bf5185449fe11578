// The Postgres store keeps the port, on a real server, through crashes: an instance is dropped unclosed and another opens its schema. With its
// shortcuts (a statement for a turn alone, sets of usual turns, plain runs and plain messages) and without: there is no row that says which
// of its calls take one, so that both ways take all rows.

import { storeConformance } from "@holdfast/conformance";
import type { Store } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { GENERAL_WAY, type InternalOptions } from "../src/options.ts";
import { COMPLETED, draft, newRun, running, signal, turnOf, useDatabase } from "./support.ts";

const database = useDatabase();

describe.each([
  ["with shortcuts", false],
  ["without shortcuts", true],
])("PostgresStore %s", (_, isGeneral) => {
  const opened = new Map<Store, { schema: string; clock: () => number }>();
  const open = async (schema: string, clock: () => number): Promise<Store> => {
    const store = await database.open({ schema, clock, connections: 4, [GENERAL_WAY]: isGeneral } as InternalOptions);
    opened.set(store, { schema, clock });
    return store;
  };
  const again = (store: Store): Promise<Store> => {
    const { schema, clock } = opened.get(store) ?? { schema: "", clock: Date.now };
    return open(schema, clock);
  };
  storeConformance({
    name: "Postgres",
    test,
    makeStore: async ({ clock }) => open(await database.emptySchema(), clock),
    reopen: again,
    beside: again,
  });

  test("its calls go the way that the suite is meant to try", async () => {
    const schema = database.newSchema();
    const store = await open(schema, Date.now);
    // The functions of the general way leave a trace.
    const general = { create_run_1: "created", commit_turn_1: "committed", deliver_1: "delivered" };
    await database.sql(`CREATE TABLE "${schema}".trace (what text)`);
    for (const [name, what] of Object.entries(general)) {
      await database.sql(`DO $do$ DECLARE d text; BEGIN
        SELECT pg_get_functiondef(p.oid) INTO d FROM pg_proc p WHERE p.proname = '${name}' AND p.pronamespace = '${schema}'::regnamespace;
        EXECUTE regexp_replace(d, '\\nBEGIN\\n', E'\\nBEGIN\\n  INSERT INTO "${schema}".trace VALUES (''${what}'');\\n');
      END $do$`);
    }
    const held = await running(store, "a");
    await store.create([newRun("b"), newRun("c")]);
    await store.commit([draft(held, { turn: turnOf(held) })]);
    await store.send([{ runId: "a", message: { job: signal("s") } }]);
    await store.commit([draft(held, { turn: turnOf(held), ...COMPLETED })]);
    const trace = await database.sql<{ what: string }>(`SELECT DISTINCT what FROM "${schema}".trace ORDER BY 1`);
    expect(trace.map(({ what }) => what)).toEqual(isGeneral ? ["committed", "created", "delivered"] : []);
  });
});
