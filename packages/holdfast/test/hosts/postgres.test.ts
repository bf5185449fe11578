// The embedded host keeps the model, on a real PostgreSQL, through crashes: the connections of a dead process are cut, its store is never
// closed while the next one goes on, and that one opens the same schema.

import { hostConformance } from "@holdfast/conformance";
import { PostgresStore } from "@holdfast/postgres";
import { emptySchema, startServer, type TestServer } from "@holdfast/postgres-server";
import type { Store } from "holdfast/store";
import { Client, escapeIdentifier } from "pg";
import { afterAll, beforeAll, describe, test } from "vitest";
import { EmbeddedHost } from "./embedded.ts";
import { LACKS } from "./lacks.ts";

let server: TestServer | undefined;
let url = "";
/** Of the test itself. */
let admin = new Client();
beforeAll(async () => {
  server = await startServer();
  url = await server.createDatabase();
  admin = new Client({ connectionString: url });
  await admin.connect();
}, 60_000);
afterAll(async () => {
  await admin.end();
  await server?.stop();
}, 60_000);

/**
 * Schemas that no host has. Emptying one is much faster than making another; but hosts that live at the same time never share one: a
 * worker of one would be notified of runs of the other, and claim them.
 */
const free: string[] = [];
let schemas = 0;

async function freeSchema(): Promise<string> {
  const schema = free.pop();
  if (schema === undefined) return `host_${++schemas}`;
  await emptySchema(url, schema);
  return schema;
}

/** The name under which the server knows the connections of a store. */
const names = new WeakMap<Store, string>();
let processes = 0;

function openStore(schema: string, clock: () => number): PostgresStore {
  const name = `process ${++processes}`;
  const connectionString = new URL(url);
  connectionString.searchParams.set("application_name", name);
  const store = new PostgresStore({ connectionString: connectionString.href, schema, connections: 2, clock });
  names.set(store, name);
  return store;
}
/** When the machine closes the sockets of a dead process, the server ends what it was doing for it. */
async function bury(store: Store, schema: string, leasesEnd: number): Promise<void> {
  for (let left = true; left; ) {
    const sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    left = (await admin.query(sql, [names.get(store)])).rows.length > 0;
  }
  const sql = `UPDATE ${escapeIdentifier(schema)}.runs SET available_at = $1 WHERE worker_id IS NOT NULL AND finished_at IS NULL`;
  await admin.query(sql, [leasesEnd]);
}

describe("the embedded host on Postgres", () => {
  hostConformance({
    name: "Postgres",
    test: (title, run) => test(title, { timeout: 120_000 }, run),
    lacks: LACKS.Postgres,
    makeHost: async ({ activities }) => {
      const schema = await freeSchema();
      return EmbeddedHost.open({
        activities,
        openStore: (clock) => openStore(schema, clock),
        bury: (store, at) => bury(store, schema, at),
        closed: () => void free.push(schema),
      });
    },
  });
});
