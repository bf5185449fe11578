// The embedded host keeps the model, on a real PostgreSQL, through crashes: a store is dropped unclosed and another opens its schema.

import { PostgresStore } from "@holdfast/postgres";
import { ask, startServer, type TestServer } from "@holdfast/postgres-server";
import { afterAll, beforeAll, describe, test } from "vitest";
import { hostConformance } from "../../src/testing/index.ts";
import { EmbeddedHost } from "./embedded.ts";
import { LACKS } from "./lacks.ts";

let server: TestServer | undefined;
let connectionString = "";
beforeAll(async () => {
  server = await startServer();
  connectionString = await server.createDatabase();
}, 60_000);
afterAll(() => server?.stop(), 60_000);

const SCHEMA = "holdfast";
/** One host after the other has the schema: clearing it is faster than making another. */
async function clear(): Promise<void> {
  const [{ tables } = { tables: null }] = await ask<{ tables: string | null }>(
    connectionString,
    "SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') AS tables FROM pg_tables WHERE schemaname = $1 AND tablename <> 'migrations'",
    [SCHEMA],
  );
  if (tables !== null) await ask(connectionString, `TRUNCATE ${tables}`);
}

async function endLeases(at: number): Promise<void> {
  await ask(connectionString, `UPDATE ${SCHEMA}.runs SET available_at = $1 WHERE worker_id IS NOT NULL AND finished_at IS NULL`, [at]);
}

describe("the embedded host on Postgres", () => {
  hostConformance({
    name: "Postgres",
    test: (title, run) => test(title, { timeout: 240_000 }, run),
    lacks: LACKS.Postgres,
    makeHost: async ({ activities }) => {
      await clear();
      return EmbeddedHost.open({
        activities,
        openStore: (clock) => new PostgresStore({ connectionString, schema: SCHEMA, connections: 4, clock }),
        endLeases: (_, at) => endLeases(at),
      });
    },
  });
});
