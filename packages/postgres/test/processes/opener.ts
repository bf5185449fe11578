// Says that it is ready; on request, opens a store and creates a run in it, and prints how that went.

import { PostgresStore } from "../../src/index.ts";

const [connectionString = "", schema = "", id = ""] = process.argv.slice(2);
const run = { workflow: "order", version: undefined, input: "null", queue: "default", priority: 0, attributes: {}, seed: "seed" };

async function openAndCreate(): Promise<string> {
  const store = new PostgresStore({ connectionString, schema, connections: 1 });
  await store.open();
  const [created] = await store.create([{ ...run, id, onConflict: "reject" }]);
  await store.close();
  return String(created === "busy" ? created : created?.status);
}

process.stdout.write("ready\n");
process.stdin.once("data", () => {
  void openAndCreate()
    .catch((error: unknown) => String((error as Error).stack))
    .then((outcome) => process.stdout.write(`${outcome}\n`, () => process.exit()));
});
