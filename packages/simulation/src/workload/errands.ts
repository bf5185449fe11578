// Errands: activities, which any worker with a free slot carries out.
// Owns: the number of activities of each run, and their timeouts.
// Invariants: D11 (leases, timeouts, late answers), D6 (one outcome), C7 (cancelled activities are aborted).

import { activity, type BranchContext, FatalError, workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly count: number;
  readonly parallel: boolean;
  readonly startToClose: number | undefined;
  readonly heartbeat: number | undefined;
  readonly raced: boolean;
}

export function errands(random: Random, name: string): Scenario {
  const plans = Array.from(
    { length: random.between(1, 2) },
    (_, i): Plan => ({
      id: `${name}-${i}`,
      count: random.between(1, 3),
      parallel: random.chance(0.5),
      startToClose: random.chance(0.4) ? random.between(300, 3_000) : undefined,
      heartbeat: random.chance(0.3) ? random.between(200, 2_000) : undefined,
      raced: random.chance(0.3),
    }),
  );
  const errand = `${name}-errand`;
  // Workflows refer to the activity by name; the worker that claims it runs the body.
  const work = (bodies: StepBodies) =>
    activity<number, number>(errand, (n, info) => bodies.activity(info, n, { takes: 20 }), {
      retry: { maxAttempts: 60, initialInterval: 10, maxInterval: 50 },
    });
  return {
    name,
    activities: (bodies) => [work(bodies)],
    workflows: (bodies) => [
      workflow(name, async (ctx, plan: Plan) => {
        const options = {
          ...(plan.startToClose !== undefined && { startToClose: plan.startToClose }),
          ...(plan.heartbeat !== undefined && { heartbeat: plan.heartbeat }),
        };
        const one = work(bodies);
        const call = async (n: number, on: Pick<typeof ctx, "activity">): Promise<void> => {
          const value = await on.activity(one, n, options);
          if (value !== n) throw new FatalError(`WRONG: ${String(value)}`);
        };
        if (plan.raced) {
          const { winner } = await ctx.race("first", {
            errand: (ctx) => call(0, ctx).then(() => 1),
            time: (ctx) => ctx.sleep(30).then(() => 2),
          });
          ctx.publishState({ winner });
        }
        if (plan.parallel) {
          for (const end of await ctx.parallel(Array.from({ length: plan.count }, (_, n) => (ctx: BranchContext) => call(n, ctx)))) {
            if (end.status === "rejected") throw end.reason;
          }
        } else for (let n = 0; n < plan.count; n++) await call(n, ctx);
        return "done";
      }),
    ],
    async play(clients) {
      await Promise.all(
        plans.map(async (plan) => {
          await clients.start(name, plan, { id: plan.id });
          const told = await clients.end(plan.id);
          const got = "value" in told ? told.value : told.error.message;
          if (got !== "done") clients.violate("activities", "D11", `${plan.id} gave ${String(got)}`);
        }),
      );
    },
  };
}
