// Commands that load the project's workflows: `runs query` and `doctor`. They run in a process of their own, from what is built.

import { join } from "node:path";
import { Holdfast, workflow } from "holdfast";
import { beforeAll, expect, test } from "vitest";
import { build } from "../code/built.ts";
import { project, write } from "../code/projects.ts";
import { holdfast } from "./run.ts";

beforeAll(build);

const WORKFLOWS = `import { workflow } from "holdfast";
console.log("text of user code");
export const order = workflow(
  { name: "order", queries: { total: (state: { total: number }, factor = 1) => state.total * factor, breaks: () => { throw new Error("no total"); } } },
  async (ctx) => ctx.publishState({ total: 0 }),
);
`;

test("a query loads the entry, and prints the answer alone", async () => {
  const cwd = project({ "workflows/order.ts": WORKFLOWS });
  const engine = await Holdfast.open(`file:${join(cwd, ".holdfast/holdfast.db")}`);
  await engine.worker({ workflows: [workflow("order", async (ctx) => ctx.publishState({ total: 21 }))] });
  const run = await engine.start("order", undefined, { id: "order-1" });
  await run.result();
  await engine.close();
  const query = (...args: string[]) => holdfast(["runs", "query", "order-1", ...args, "--json"], { cwd });
  expect(await query("total", "2")).toMatchObject({ code: 0, out: "42\n", err: "" });
  const broken = await query("breaks");
  expect([broken.code, broken.out, broken.problem.code, broken.problem.status]).toEqual([4, "", "HF_QUERY_FAILED", 422]);
  expect((await query("missing")).code).toBe(4);
  expect((await holdfast(["runs", "query", "no-such-run", "total"], { cwd })).code).toBe(3);
});

test("doctor finds the workflows of a project that init has made, and says where others break", async () => {
  const cwd = project();
  expect((await holdfast(["init"], { cwd })).code).toBe(0);
  const entryOf = async () => (await holdfast(["doctor", "--json"], { cwd })).json.checks.find(({ id }: { id: string }) => id === "entry");
  expect(await entryOf()).toMatchObject({ status: "ok", text: "1 file: hello", fix: null });
  write(cwd, { "workflows/bad.ts": '\n\nthrow new Error("at load");\n' });
  expect(await entryOf()).toMatchObject({ status: "fail", text: expect.stringContaining("workflows/bad.ts:3"), fix: expect.any(String) });
});
