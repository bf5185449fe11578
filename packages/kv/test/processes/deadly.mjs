// node deadly.mjs <folder> <ledger>: a run in a LevelDB whose step kills its process. Each attempt leaves a line in the ledger first.
// Waits for its next attempt, and says on stdout how the run has ended, if it does.

import { appendFileSync } from "node:fs";
import { runWorkflow, workflow } from "@holdfast/kv";
import { LevelStore } from "@holdfast/kv/level";

const [, , folder, ledger] = process.argv;
const deadly = workflow("deadly", async (ctx) => {
  const before = await ctx.step("before", async () => appendFileSync(ledger, "before\n"));
  try {
    await ctx.step(
      "deadly",
      ({ attempt }) => {
        appendFileSync(ledger, `attempt ${attempt}\n`);
        process.kill(process.pid, "SIGKILL");
        return new Promise(() => {});
      },
      { retry: { maxAttempts: 3, initialInterval: 1 } },
    );
  } catch (error) {
    return [before, error.message];
  }
});
const store = await LevelStore.open(folder);
const result = await runWorkflow({ driver: store.driver("r"), workflow: deadly, id: "r", mode: "live" }).result();
process.stdout.write(JSON.stringify(result));
await store.close();
