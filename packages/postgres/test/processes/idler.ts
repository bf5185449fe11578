// Opens a store, creates a run and writes a turn of it, says how that went, and leaves everything open.

import { PostgresStore } from "../../src/index.ts";

const [connectionString = "", schema = ""] = process.argv.slice(2);
const run = { workflow: "order", version: undefined, input: "null", queue: "default", priority: 0, attributes: {}, seed: "seed" };

const store = new PostgresStore({ connectionString, schema });
await store.open();
await store.create([{ ...run, id: "a", onConflict: "reject" }]);
const serves = [{ workflow: "order", versions: "*" }] as const;
await store.claim({ workerId: "w1", queue: "default", serves, limit: 1, lease: 30_000, cached: () => undefined });
const step = { type: "step", seq: 1, unit: "", name: "one", n: 0 } as const;
const turn = { index: 0, time: 1, historyLength: 0, jobs: [], commands: [step] };
const [committed] = await store.commit([{ runId: "a", execution: 1, epoch: 1, workerId: "w1", status: "running", lease: "keep", turn }]);
process.stdout.write(`${committed === "busy" ? committed : committed?.status}\n`);
