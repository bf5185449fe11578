import { CanceledError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, until } from "./engine/engines.ts";
describe("x", () => {
  const engines = enginesOn("memory");
  for (let i = 0; i < 400; i++) test(`S3 ${i}`, async () => {
    const engine = await engines.open();
    const undone: string[] = [];
    const make = (name: string, rollbackOnCancel: boolean) =>
      workflow({ name, rollbackOnCancel }, async (ctx) => {
        await ctx.step("a", () => name, { rollback: (a) => void undone.push(a) });
        await ctx.sleep("1h");
      });
    const [asks, doesNot] = [make("asks", true), make("does not", false)];
    await engine.worker({ workflows: [asks, doesNot] });
    const runs = [await engine.start(asks, undefined), await engine.start(doesNot, undefined)];
    try { await until(async () => (await engine.count()).sleeping === 2); } catch (e) { for (const r of runs) console.log(await r.describe(), JSON.stringify(await r.history()), engines.log); throw e; }
    for (const run of runs) {
      await run.cancel();
      try {
      await expect(run.result({ timeout: "3s" })).rejects.toThrow(CanceledError);
      } catch (e) { console.log(await run.describe(), JSON.stringify(await run.history(), null, 1), engines.log); throw e; }
    }
  });
});
