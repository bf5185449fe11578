// Opens a store and creates a run in it; prints how that went.

import { SqliteStore } from "../../../src/store/sqlite/store.ts";

const [path = ""] = process.argv.slice(2);
const run = { workflow: "order", version: undefined, input: "null", queue: "default", priority: 0, attributes: {}, seed: "seed" };
try {
  const store = new SqliteStore(path);
  await store.open();
  await store.create([{ ...run, id: `run of ${process.pid}`, onConflict: "reject" }]);
  await store.close();
  process.stdout.write("opened\n");
} catch (error) {
  process.stdout.write(`${(error as { code?: string }).code ?? String(error)}\n`);
}
