// Runs that fail and are tried again, by their policy or by somebody who resumes them.
// Owns: how often each is to fail.
// Invariants: D10 (completed steps do not run again, caught failures stay caught), D8 (attempts as the policy says).

import { FatalError, workflow } from "@holdfast/core";
import type { Ledger } from "../checks/effects.ts";
import type { Random } from "../random.ts";
import type { Scene } from "../scenario.ts";
import type { Hands } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly failures: number;
  readonly by: "policy" | "client";
  readonly where: "step" | "code";
  readonly caught: boolean;
}

export function again(random: Random, name: string): Scene {
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
  // Something outside that does not work at first.
  const refusals = new Map<string, number>();
  const refuse = ({ id, failures }: Plan): boolean => {
    const before = refusals.get(id) ?? 0;
    refusals.set(id, before + 1);
    return before < failures;
  };
  return {
    name,
    workflows: (hands) => [code(hands, name, refuse)],
    async play(stage) {
      await Promise.all(
        plans.map(async (plan) => {
          const retry = { maxAttempts: 50, initialInterval: 50, maxInterval: 200 };
          await stage.start(name, plan, { id: plan.id, ...(plan.by === "policy" && { retry }) });
          let told = await stage.end(plan.id);
          for (let i = 0; i < 50 && plan.by === "client" && "error" in told; i++) {
            await stage.told(`resume ${plan.id}`, (engine) => engine.run(plan.id).resume());
            told = await stage.end(plan.id);
          }
          const got = "value" in told ? told.value : told.error.message;
          if (got !== "done") stage.violate("again", "D10", `${plan.id} gave ${String(got)}`);
        }),
      );
    },
    verify: (stage, ledger) => {
      for (const plan of plans) check(plan, ledger, (message) => stage.violate("again", "D10", message));
    },
  };
}

function code(hands: Hands, name: string, refuse: (plan: Plan) => boolean) {
  return workflow(name, async (ctx, plan: Plan) => {
    const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
    const first = await ctx.step("first", (info) => hands.step(info, 1), { retry });
    if (plan.caught) {
      try {
        await ctx.step("caught", (info) => hands.step(info, 1, { fails: true }), { retry: { maxAttempts: 1 } });
        throw new FatalError("WRONG: it can't succeed");
      } catch (error) {
        if (!(error instanceof Error) || error.name !== "StepFailedError") throw error;
      }
    }
    if (plan.where === "code") {
      if (ctx.run.attempt <= plan.failures) throw new Error(`Attempt ${ctx.run.attempt} fails.`);
    } else
      await ctx.step("flaky", (info) => (refuse(plan) ? Promise.reject(new Error("Not yet.")) : hands.step(info, 1)), {
        retry: { maxAttempts: 1 },
      });
    const last = await ctx.step("last", (info) => hands.step(info, first), { retry });
    return last === 1 ? "done" : "WRONG";
  });
}

/** The step that failed and was caught is not tried again. */
function check(plan: Plan, ledger: Ledger, broken: (message: string) => void): void {
  const attempts = ledger.attemptsOf(`${plan.id}/caught`);
  if (plan.caught && attempts > 1) broken(`a step of ${plan.id} whose failure was caught ran ${attempts} times`);
}
