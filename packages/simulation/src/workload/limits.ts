// Limits: runs that are cancelled or reach their deadline at any moment, and have to clean up.
// Owns: the deadline and the time of cancellation of each run.
// Invariants: K1 K2 K3 (cancellation reaches every operation, cleanup runs to its end), K7 (deadlines), K9.

import { workflow } from "@holdfast/core";
import type { Effects } from "../checks/effects.ts";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly lengths: readonly number[];
  readonly delay: number | undefined;
  readonly deadline: number | undefined;
  readonly cancelAfter: number | undefined;
  readonly twice: boolean;
}

export function limits(random: Random, name: string): Scenario {
  const plans = Array.from({ length: random.between(1, 2) }, (_, i): Plan => {
    const isLimited = random.chance(0.5);
    return {
      id: `${name}-${i}`,
      lengths: Array.from({ length: random.between(1, 4) }, () => random.between(1, 900)),
      delay: random.chance(0.3) ? random.between(1, 1_500) : undefined,
      deadline: isLimited ? random.between(1, 3_000) : undefined,
      cancelAfter: !isLimited || random.chance(0.2) ? random.between(0, 2_500) : undefined,
      twice: random.chance(0.3),
    };
  });
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await Promise.all(
        plans.map(async (plan) => {
          const { id, delay, deadline } = plan;
          await clients.start(name, plan, { id, ...(delay !== undefined && { delay }), ...(deadline !== undefined && { deadline }) });
          if (plan.cancelAfter !== undefined) {
            await clients.sleep(plan.cancelAfter);
            await clients.cancel(id);
            if (plan.twice) await clients.cancel(id);
          }
          await clients.end(id);
        }),
      );
    },
    verify: async (clients, effects) => {
      for (const plan of plans) await verify(clients, plan, effects);
    },
  };
}

function code(bodies: StepBodies, name: string) {
  return workflow(name, async (ctx, plan: Plan) => {
    const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
    try {
      for (const [i, length] of plan.lengths.entries()) {
        if (i % 2 === 0) await ctx.sleep(length);
        else
          await ctx.join("both", {
            step: (ctx) => ctx.step("work", (info) => bodies.step(info, i, { takes: length / 4 }), { retry }),
            sleep: (ctx) => ctx.sleep(length),
          });
      }
      return "done";
    } finally {
      await ctx.shield(async (ctx) => {
        await ctx.step("clean", (info) => bodies.step(info, undefined), { retry });
      });
    }
  });
}

async function verify(clients: Clients, plan: Plan, effects: Effects): Promise<void> {
  const row = await clients.row(plan.id);
  if (row === undefined) return;
  const broken = (rule: string, message: string): void => clients.violate("limits", rule, `${plan.id} ${message}`);
  const { status, error } = row;
  const isExpired = error?.name === "DeadlineExceededError";
  if (plan.deadline === undefined && isExpired) broken("K7", "exceeded a deadline although it has none");
  if (status === "failed" && !isExpired) broken("K3", `failed: ${error?.message}`);
  if (status === "canceled" && plan.cancelAfter === undefined) broken("K3", "was canceled although no client cancelled it");
  const cleaned = effects.all.some(({ key }) => key.startsWith(`${plan.id}/`) && key.includes("clean"));
  if (status === "completed" && !cleaned) broken("K2", "completed without cleaning up");
  if (status === "canceled" && row.turns > 0 && !cleaned) broken("K2", "was canceled without cleaning up");
}
