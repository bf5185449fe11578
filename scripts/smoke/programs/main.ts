import { type Run, workflow } from "holdfast";
import { testEngine } from "holdfast/testing";
import { play } from "./trip.mjs";

const typed = workflow("typed", async (ctx, input: { n: number }) => ctx.step("double", () => input.n * 2));
const engine = await testEngine({ workflows: [typed] });
const run: Run<number> = await engine.start(typed, { n: 21 });
const doubled: number = await run.result();
await engine.close();
if (doubled !== 42) throw new Error("wrong result");

await play();
