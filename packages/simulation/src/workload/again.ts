// Runs that fail and are retried by their policy or resumed by a client.
// Owns: how often each run fails.
// Invariants: D10 (completed steps do not run again, caught failures stay caught), D8 (attempts follow the policy).

import { FatalError, workflow } from "@holdfast/core";
import type { Effects } from "../checks/effects.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly failures: number;
  readonly by: "policy" | "client";
  readonly where: "step" | "code";
  readonly caught: boolean;
}

export function again(random: Random, name: string): Scenario {
  const plans = Array.from(
    { length: random.between(1, 2) },
    (_, i): Plan => ({
      id: `${name}-${i}`,
      failures: random.between(0, 3),
      by: random.pick(["policy", "client"] as const),
      where: random.pick(["step", "code"] as const),
      caught: random.chance(0.5),
    }),
  );
  // An outside service that fails at first.
  const refusals = new Map<string, number>();
  const refuse = ({ id, failures }: Plan): boolean => {
    const before = refusals.get(id) ?? 0;
    refusals.set(id, before + 1);
    return before < failures;
  };
  return {
    name,
    workflows: (bodies) => [code(bodies, name, refuse)],
    async play(clients) {
      await Promise.all(
        plans.map(async (plan) => {
          const retry = { maxAttempts: 50, initialInterval: 50, maxInterval: 200 };
          await clients.start(name, plan, { id: plan.id, ...(plan.by === "policy" && { retry }) });
          let told = await clients.end(plan.id);
          for (let i = 0; i < 50 && plan.by === "client" && "error" in told; i++) {
            await clients.told(`resume ${plan.id}`, (engine) => engine.run(plan.id).resume());
            told = await clients.end(plan.id);
          }
          const got = "value" in told ? told.value : told.error.message;
          if (got !== "done") clients.violate("again", "D10", `${plan.id} gave ${String(got)}`);
        }),
      );
    },
    verify: (clients, effects) => {
      for (const plan of plans) check(plan, effects, (message) => clients.violate("again", "D10", message));
    },
  };
}

function code(bodies: StepBodies, name: string, refuse: (plan: Plan) => boolean) {
  return workflow(name, async (ctx, plan: Plan) => {
    const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
    const first = await ctx.step("first", (info) => bodies.step(info, 1), { retry });
    if (plan.caught) {
      try {
        await ctx.step("caught", (info) => bodies.step(info, 1, { fails: true }), { retry: { maxAttempts: 1 } });
        throw new FatalError("WRONG: a step that always fails succeeded");
      } catch (error) {
        if (!(error instanceof Error) || error.name !== "StepFailedError") throw error;
      }
    }
    if (plan.where === "code") {
      if (ctx.run.attempt <= plan.failures) throw new Error(`Attempt ${ctx.run.attempt} fails.`);
    } else
      await ctx.step("flaky", (info) => (refuse(plan) ? Promise.reject(new Error("Not yet.")) : bodies.step(info, 1)), {
        retry: { maxAttempts: 1 },
      });
    const last = await ctx.step("last", (info) => bodies.step(info, first), { retry });
    return last === 1 ? "done" : "WRONG";
  });
}

/** A step whose failure was caught does not run again. */
function check(plan: Plan, effects: Effects, broken: (message: string) => void): void {
  const attempts = effects.attemptsOf(`${plan.id}/caught`);
  if (plan.caught && attempts > 1) broken(`a step of ${plan.id} whose failure was caught ran ${attempts} times`);
}
