// Opens a store, watches it, and has nothing more to do.

import { SqliteStore } from "../../../src/store/sqlite/store.ts";

const store = new SqliteStore(process.argv[2] ?? "");
await store.open();
store.watch(() => undefined);
process.stdout.write("watching\n");
