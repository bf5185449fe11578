// Sagas: steps that are rolled back in reverse order when the run fails.
// Owns: which steps each saga completes, and after which it fails.
// Invariants: S1 (every completed step is rolled back, last first), S2 (a crash in between changes nothing), D6 (transactions happen
// exactly once).

import { FatalError, workflow } from "@holdfast/core";
import type { Effects } from "../checks/effects.ts";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly steps: number;
  /** The number of steps after which it fails; undefined if it succeeds. */
  readonly failsAfter: number | undefined;
  readonly transactions: boolean;
  readonly pause: number;
}

export function saga(random: Random, name: string): Scenario {
  const plans = Array.from({ length: random.between(1, 2) }, (_, i): Plan => {
    const steps = random.between(1, 4);
    return {
      id: `${name}-${i}`,
      steps,
      failsAfter: random.chance(0.6) ? random.between(0, steps) : undefined,
      transactions: random.chance(0.5),
      pause: random.chance(0.4) ? random.between(1, 2_000) : 0,
    };
  });
  const code = (bodies: StepBodies) =>
    workflow(name, async (ctx, plan: Plan) => {
      for (let i = 0; i < plan.steps; i++) {
        if (i === plan.failsAfter) throw new FatalError("It can't be done.");
        const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
        const rollback = (_: unknown, info: Parameters<StepBodies["step"]>[0]) =>
          bodies.step(info, undefined, { takes: 5 }).then(() => undefined);
        const done =
          plan.transactions && i % 2 === 1
            ? await ctx.transaction(`do${i}`, (tx: unknown, info) => bodies.transaction(tx, info, i), { retry, rollback })
            : await ctx.step(`do${i}`, (info) => bodies.step(info, i), { retry, rollback });
        if (done !== i) throw new FatalError(`WRONG: step ${i} gave ${String(done)}`);
        if (plan.pause > 0) await ctx.sleep(plan.pause);
      }
      if (plan.failsAfter === plan.steps) throw new FatalError("It can't be done.");
      return "done";
    });
  return {
    name,
    workflows: (bodies) => [code(bodies)],
    async play(clients) {
      await Promise.all(
        plans.map(async (plan) => {
          await clients.sleep(clients.random.span(500));
          await clients.start(name, plan, { id: plan.id });
          const told = await clients.end(plan.id);
          const expected = plan.failsAfter === undefined ? "done" : "RunFailedError";
          const got = "value" in told ? told.value : told.error.name;
          if (got !== expected) clients.violate("outcome", "S1", `${plan.id} gave ${String(got)}, not ${expected}`);
        }),
      );
    },
    verify: (clients, effects) => {
      for (const plan of plans) check(plan, clients, effects);
    },
  };
}

function check(plan: Plan, clients: Clients, effects: Effects): void {
  const undone = new Set<string>();
  const order: number[] = [];
  for (const { key } of effects.all) {
    const match = /rollback.*do(\d+)|do(\d+)#?.*rollback/.exec(key.slice(plan.id.length));
    if (!key.startsWith(`${plan.id}/`) || match === null) continue;
    if (!undone.has(key)) order.push(Number(match[1] ?? match[2]));
    undone.add(key);
  }
  const expected = plan.failsAfter === undefined ? [] : Array.from({ length: plan.failsAfter }, (_, i) => (plan.failsAfter ?? 0) - 1 - i);
  if (JSON.stringify(order) !== JSON.stringify(expected))
    clients.violate("sagas", "S1", `${plan.id} undid [${order.join()}], not [${expected.join()}]`);
}
