// Creates a run and commits turn after turn to it, several such runs at a time. Prints "run turn" once a commit is acknowledged.

import { SqliteStore } from "../../../src/store/sqlite/store.ts";

const [path = "", name = ""] = process.argv.slice(2);
const store = new SqliteStore(path);
await store.open();

async function work(id: string): Promise<never> {
  const run = { id, workflow: "order", version: undefined, input: "null", queue: name, priority: 0, attributes: {}, seed: "seed" };
  await store.create([{ ...run, onConflict: "reject" }]);
  const serves = [{ workflow: "order", versions: "*" }] as const;
  const { runs } = await store.claim({ workerId: name, queue: name, serves, limit: 1, lease: 60_000, cached: () => undefined });
  const claimed = runs[0]?.run.id ?? id;
  for (let index = 0; ; index++) {
    const jobs = [
      { type: "resolve", seq: index, outcome: { status: "completed", value: JSON.stringify({ index, text: "x".repeat(300) }) } },
    ] as const;
    const commands = [{ type: "step", seq: index + 1, unit: "", name: "step", n: index }] as const;
    const turn = { index, time: index, historyLength: index * 2, jobs, commands };
    const commit = {
      runId: claimed,
      execution: 1,
      epoch: 1,
      workerId: name,
      turn,
      status: "running",
      lease: "keep",
      state: JSON.stringify(index),
    } as const;
    const [result] = await store.commit([commit]);
    if (result?.status !== "committed") throw new Error("stale");
    process.stdout.write(`${claimed} ${index}\n`);
  }
}

await Promise.all(Array.from({ length: 5 }, (_, i) => work(`${name}-${i}`)));
