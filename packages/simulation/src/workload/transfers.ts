// Transfers: many small transactions with few attempts each.
// Owns: nothing; `Effects` counts what they wrote.
// Invariants: D6 (a transaction's writes and its outcome are stored together or not at all, once).

import { FatalError, workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly count: number;
  readonly attempts: number;
  readonly isParallel: boolean;
}

export function transfers(random: Random, name: string): Scenario {
  const plans = Array.from(
    { length: random.between(1, 3) },
    (_, i): Plan => ({
      id: `${name}-${i}`,
      count: random.between(2, 8),
      attempts: random.between(1, 3),
      isParallel: random.chance(0.5),
    }),
  );
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await Promise.all(
        plans.map(async (plan) => {
          await clients.start(name, plan, { id: plan.id });
          const told = await clients.end(plan.id);
          if ("error" in told) clients.violate("transactions", "D6", `${plan.id}: ${told.error.message}`);
        }),
      );
    },
  };
}

function code(bodies: StepBodies, name: string) {
  return workflow(name, async (ctx, plan: Plan) => {
    const retry = { maxAttempts: plan.attempts, initialInterval: 1, maxInterval: 5 };
    const transfer = async (i: number): Promise<number> => {
      try {
        const value = await ctx.transaction(`t${i}`, (tx: unknown, info) => bodies.transaction(tx, info, i), { retry });
        if (value !== i) throw new FatalError(`WRONG: ${String(value)}`);
        return 1;
      } catch (error) {
        if (!(error instanceof Error) || error.name !== "StepFailedError") throw error;
        return 0;
      }
    };
    let done = 0;
    if (plan.isParallel) for (const one of await Promise.all(Array.from({ length: plan.count }, (_, i) => transfer(i)))) done += one;
    else for (let i = 0; i < plan.count; i++) done += await transfer(i);
    return done;
  });
}
