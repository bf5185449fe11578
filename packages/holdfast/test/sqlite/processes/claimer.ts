// Claims runs, a few at a time, until there are none; ends each. Prints the ids that it got, one per line.

import { SqliteStore } from "../../../src/store/sqlite/store.ts";

const [path = "", workerId = "", expected = "0"] = process.argv.slice(2);
const store = new SqliteStore(path, { synchronous: "NORMAL" });
await store.open();
process.stdout.write("ready\n");
// Until every run is over, whichever process ended it.
while ((await store.count({ status: ["completed"] })).completed < Number(expected)) {
  const serves = [{ workflow: "order", versions: "*" }] as const;
  const { runs } = await store.claim({ workerId, queue: "default", serves, limit: 7, lease: 60_000, cached: () => undefined });
  for (const { run } of runs) process.stdout.write(`${run.id}\n`);
  const results = await store.commit(
    runs.map(({ run }) => {
      const { id: runId, execution, epoch } = run;
      const turn = {
        index: 0,
        time: 0,
        historyLength: 0,
        jobs: [],
        commands: [{ type: "complete", value: JSON.stringify(workerId) }],
      } as const;
      return { runId, execution, epoch, workerId, turn, status: "completed", lease: "keep", close: { status: "completed", output: JSON.stringify(workerId) } } as const; // biome-ignore format: one line
    }),
  );
  if (results.some(({ status }) => status !== "committed")) throw new Error("a claim did not hold");
}
await store.close();
