// Code that changes while its runs are in progress: patches, versions, and builds that diverge from existing histories.
// Owns: what each build does.
// Invariants: V1 V2 V4 (divergence blocks a run without harming it; the right code continues it), Y1.

import { FatalError, type UnitContext, workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly kind: "patched" | "diverging" | "versioned";
  readonly pause: number;
}

export function deploy(random: Random, name: string): Scenario {
  const kind = random.pick(["patched", "patched", "diverging", "versioned"] as const);
  const plans = Array.from({ length: random.between(1, 3) }, (_, i): Plan => ({ id: `${name}-${i}`, kind, pause: random.between(0, 800) }));
  return {
    name,
    mayBlock: kind !== "versioned",
    needsBuilds: true,
    workflows: (bodies, build) => [code(bodies, name, kind, build)],
    async play(clients) {
      await Promise.all(
        plans.map(async (plan) => {
          await clients.sleep(clients.random.span(1_000));
          await clients.start(name, plan, { id: plan.id });
          const told = await clients.end(plan.id);
          const got = "value" in told ? String(told.value) : told.error.message;
          if (!/^a(b|xb|x)c$/.test(got)) clients.violate("versions", "V4", `${plan.id} gave ${got}`);
        }),
      );
    },
  };
}

type Step = (what: string) => Promise<string>;

function stepsOf(bodies: StepBodies, ctx: UnitContext): Step {
  return async (what) => {
    const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
    const value = await ctx.step(what, (info) => bodies.step(info, what), { retry });
    if (value !== what) throw new FatalError(`WRONG: ${String(value)}`);
    return value;
  };
}

/** Builds alternate between two versions of the code: a worker with the other version retries blocked runs at once. */
function code(bodies: StepBodies, name: string, kind: Plan["kind"], build: number) {
  const isEven = build % 2 === 0;
  if (kind === "versioned") {
    return workflow({ name, version: String(build), serves: [String(build - 1)] }, async (ctx, plan: Plan) => {
      const step = stepsOf(bodies, ctx);
      let got = await step("a");
      await ctx.sleep(plan.pause);
      got += Number(ctx.version) % 2 === 0 ? await step("x") : await step("b");
      await ctx.sleep(plan.pause);
      return got + (await step("c"));
    });
  }
  if (kind === "patched" ? build === 1 : !isEven) {
    return workflow(name, async (ctx, plan: Plan) => {
      const step = stepsOf(bodies, ctx);
      let got = await step("a");
      await ctx.sleep(plan.pause);
      got += await step("b");
      await ctx.sleep(plan.pause);
      return got + (await step("c"));
    });
  }
  return workflow(name, async (ctx, plan: Plan) => {
    const step = stepsOf(bodies, ctx);
    let got = await step("a");
    await ctx.sleep(plan.pause);
    if (kind === "diverging" || ctx.patched("with-x")) got += await step("x");
    if (kind === "patched") got += await step("b");
    await ctx.sleep(plan.pause);
    return got + (await step("c"));
  });
}
