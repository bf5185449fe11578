// The Postgres store implements the port, on a real server, through crashes: an instance is dropped unclosed and another opens its schema.
// Owns: the tests of the port, with the shortcuts of the store (a statement for a single turn, sets of usual turns, plain runs and plain
// messages) and without. Nothing tells which calls of the port take a shortcut, so all tests run both ways, each way in a file of its own.

import { storeConformance } from "@holdfast/conformance";
import type { Store } from "holdfast/store";
import { expect, onTestFinished, test } from "vitest";
import { GENERAL_WAY, type InternalOptions } from "../../src/options.ts";
import { COMPLETED, draft, newRun, running, signal, turnOf, useDatabase } from "../support.ts";

export function postgresConformance({ shortcuts }: { readonly shortcuts: boolean }): void {
  const database = useDatabase();
  const opened = new Map<Store, { schema: string; clock: () => number }>();
  const open = async (schema: string, clock: () => number): Promise<Store> => {
    const store = await database.openBare({ schema, clock, connections: 4, [GENERAL_WAY]: !shortcuts } as InternalOptions);
    opened.set(store, { schema, clock });
    return store;
  };
  const again = (store: Store): Promise<Store> => {
    const { schema, clock } = opened.get(store) ?? { schema: "", clock: Date.now };
    return open(schema, clock);
  };
  const schemaOf = (store: Store): string => opened.get(store)?.schema ?? "";
  /** Every change of rows of runs whose ids begin with "bad" is refused. */
  async function refuseBad(store: Store): Promise<void> {
    const s = schemaOf(store);
    const refuse = (name: string, id: string): string =>
      `CREATE FUNCTION ${s}.${name}() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record := coalesce(NEW, OLD); BEGIN
         IF ${id} LIKE 'bad%' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN r; END $$`;
    await database.sql(refuse("refuse_run", "r.id"));
    await database.sql(refuse("refuse_row", `(SELECT id FROM ${s}.runs WHERE key = r.run)`));
    for (const [table, name] of [
      ["runs", "refuse_run"],
      ...["records", "inbox", "tasks", "attempts"].map((table) => [table, "refuse_row"]),
    ])
      await database.sql(
        `CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON ${s}.${table} FOR EACH ROW EXECUTE FUNCTION ${s}.${name}()`,
      );
    // The schema is used again.
    onTestFinished(async () => void (await database.sql(`DROP FUNCTION ${s}.refuse_run, ${s}.refuse_row CASCADE`)));
  }
  async function lock(store: Store, runId: string): Promise<() => Promise<void>> {
    const client = await database.client();
    await client.query("BEGIN");
    await client.query(`SELECT 1 FROM ${schemaOf(store)}.runs WHERE id = $1 FOR UPDATE`, [runId]);
    return async () => void (await client.query("ROLLBACK"));
  }
  storeConformance({
    name: "Postgres",
    hasQueues: true,
    test,
    makeStore: async ({ clock }) => open(await database.emptySchema(), clock),
    reopen: again,
    beside: again,
    refuseBad,
    lock,
  });

  test("its calls go the way that the suite is meant to try", async () => {
    const schema = database.newSchema();
    const store = await database.open({ schema, [GENERAL_WAY]: !shortcuts } as InternalOptions);
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
    expect(trace.map(({ what }) => what)).toEqual(shortcuts ? [] : ["committed", "created", "delivered"]);
  });
}
