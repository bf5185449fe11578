// D12 X3: the timelines of random programs. Every operation appears once, with the status that `run.operations()` gives it, in a unit that
// is listed; what has ended has an end, and what is open has none.

import fc from "fast-check";
import { FatalError, Loop, type UnitContext, workflow } from "holdfast";
import { expect, test } from "vitest";
import { until } from "../engine/engines.ts";
import { expectSame, opened } from "./timelines.ts";

type Program = readonly Node[];
type Node =
  | { readonly do: "step" | "fatal" | "sleep" | "effect" | "wait" | "flaky" }
  | { readonly do: "try" | "shield"; readonly body: Program }
  | { readonly do: "loop"; readonly times: number; readonly body: Program }
  | { readonly do: "join" | "race" | "parallel"; readonly branches: readonly Program[] };

const { program } = fc.letrec<{ node: Node; program: Program }>((tie) => ({
  program: fc.array(tie("node"), { minLength: 1, maxLength: 3 }),
  node: fc.oneof(
    { maxDepth: 3 },
    fc.record({ do: fc.constantFrom("step", "step", "step", "fatal", "sleep", "effect", "wait", "flaky") }),
    fc.record({ do: fc.constantFrom("try", "shield"), body: tie("program") }),
    fc.record({ do: fc.constant("loop"), times: fc.integer({ min: 1, max: 3 }), body: tie("program") }),
    fc.record({ do: fc.constantFrom("join", "race", "parallel"), branches: fc.array(tie("program"), { minLength: 1, maxLength: 3 }) }),
  ) as fc.Arbitrary<Node>,
}));

async function carryOut(ctx: UnitContext, nodes: Program): Promise<void> {
  for (const node of nodes) await one(ctx, node);
}
async function one(ctx: UnitContext, node: Node): Promise<unknown> {
  switch (node.do) {
    case "step":
      return ctx.step("s", () => 1);
    case "fatal":
      return ctx.step("f", () => {
        throw new FatalError("no");
      });
    case "flaky":
      return ctx.step("y", ({ attempt }) => (attempt < 2 ? Promise.reject(new Error("again")) : 1), { retry: { initialInterval: 1 } });
    case "sleep":
      return ctx.sleep(1);
    case "effect":
      return ctx.sideEffect(() => 1);
    case "wait":
      return ctx.waitForSignal("never");
    case "try":
      return ctx.try("t", (body) => carryOut(body, node.body));
    case "shield":
      return ctx.shield((body) => carryOut(body, node.body));
    case "loop":
      return ctx.loop({ name: "l", state: 0 }, async (each, state) => {
        await carryOut(each, node.body);
        return state + 1 === node.times ? Loop.break(state) : Loop.continue(state + 1);
      });
    case "parallel":
      return ctx.parallel(node.branches.map((branch) => (unit) => carryOut(unit, branch)));
    default: {
      const branches = Object.fromEntries(node.branches.map((branch, i) => [`b${i}`, (unit: UnitContext) => carryOut(unit, branch)]));
      return node.do === "join" ? ctx.join("j", branches) : ctx.race("r", branches);
    }
  }
}

test("every operation of a random program appears once, as run.operations() has it, in a unit that is listed", async () => {
  const { engine, timeline } = await opened();
  const random = workflow("random", async (ctx, nodes: Program) => carryOut(ctx, nodes));
  await engine.worker({ workflows: [random] });
  const programs = fc.sample(program, 60);
  const runs = await engine.startMany(
    random,
    programs.map((input, i) => ({ input, id: `r${i}` })),
  );
  const SETTLED = new Set(["sleeping", "completed", "failed"]);
  for (const run of runs) {
    // A run that waits for a signal stays as it is; one that sleeps for a millisecond does not.
    await until(async () => {
      const { status, waitingFor } = await run.describe();
      return SETTLED.has(status) && waitingFor.every((text) => text.startsWith("signal "));
    });
    const found = await timeline(run.id);
    await expectSame(engine, run.id, found);
    const units = new Map(found.units.map((unit) => [unit.path, unit]));
    expect(units.size).toBe(found.units.length);
    expect(new Set(found.operations.map(({ seq }) => seq)).size).toBe(found.operations.length);
    for (const operation of found.operations) {
      const unit = units.get(operation.unit);
      expect(unit, operation.location).toBeDefined();
      if (operation.endedAt === null) expect(unit?.endedAt, operation.location).toBeNull();
      expect(operation.scheduledAt).toBeGreaterThanOrEqual(unit?.startedAt ?? Number.POSITIVE_INFINITY);
    }
    for (const { parent, path, endedAt, status } of found.units) {
      if (parent !== null) expect(units.has(parent), path).toBe(true);
      expect(status === "running").toBe(endedAt === null);
    }
    for (const { iterations, kept } of found.loops) expect(kept).toBeLessThanOrEqual(iterations);
  }
  await engine.close();
});
