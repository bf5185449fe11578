// Opens an engine whose clock is off by so many milliseconds, sets a schedule as every process of an application does when it starts, and
// works until it is killed. Prints when it is open, and each tick that it is about to start and has started.

import { workflow } from "@holdfast/core";
import { Holdfast } from "../../../src/api/holdfast.ts";
import type { Tick } from "../../../src/store/schedulePort.ts";
import { SqliteStore } from "../../../src/store/sqlite/store.ts";

const [path = "", offset = "0", overlap = "allow"] = process.argv.slice(2);

class PrintingStore extends SqliteStore {
  override async tick(ticks: readonly Tick[]) {
    for (const { run } of ticks) process.stdout.write(`tick ${run?.id}\n`);
    const results = await super.tick(ticks);
    for (const [i, { run }] of ticks.entries()) process.stdout.write(`${results[i]} ${run?.id}\n`);
    return results;
  }
}

const report = workflow("report", async (ctx) => {
  await ctx.step("write", () => {});
  return ctx.run.tick;
});
const store = new PrintingStore(path, { clock: () => Date.now() + Number(offset) });
const engine = await Holdfast.with({ store });
await engine.worker({ workflows: [report], lease: "1s" });
await engine.schedules.set("s", { workflow: report, every: "1h", overlap: overlap as "allow" });
process.stdout.write("open\n");
