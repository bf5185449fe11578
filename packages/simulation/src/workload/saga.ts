// Sagas: steps that are undone in reverse order when a later one fails for good.
// Owns: what was done and undone, as the steps themselves saw it.
// Invariants: S1 (reverse order of completion, all of them), S2 (a crash in between changes nothing), D6 (exactly once in a transaction).

import { FatalError, workflow } from "@holdfast/core";
import type { Ledger } from "../checks/effects.ts";
import type { Stage } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scene } from "../scenario.ts";
import type { Hands } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  /** How many steps, and after which it fails; undefined: it does not. */
  readonly steps: number;
  readonly failsAfter: number | undefined;
  readonly transactions: boolean;
  readonly pause: number;
}

export function saga(random: Random, name: string): Scene {
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
  const code = (hands: Hands) =>
    workflow(name, async (ctx, plan: Plan) => {
      for (let i = 0; i < plan.steps; i++) {
        if (i === plan.failsAfter) throw new FatalError("It can't be done.");
        const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
        const rollback = (_: unknown, info: Parameters<Hands["step"]>[0]) =>
          hands.step(info, undefined, { takes: 5 }).then(() => undefined);
        const done =
          plan.transactions && i % 2 === 1
            ? await ctx.transaction(`do${i}`, (tx: unknown, info) => hands.transaction(tx, info, i), { retry, rollback })
            : await ctx.step(`do${i}`, (info) => hands.step(info, i), { retry, rollback });
        if (done !== i) throw new FatalError(`WRONG: step ${i} gave ${String(done)}`);
        if (plan.pause > 0) await ctx.sleep(plan.pause);
      }
      if (plan.failsAfter === plan.steps) throw new FatalError("It can't be done.");
      return "done";
    });
  return {
    name,
    workflows: (hands) => [code(hands)],
    async play(stage) {
      await Promise.all(
        plans.map(async (plan) => {
          await stage.sleep(stage.random.span(500));
          await stage.start(name, plan, { id: plan.id });
          const told = await stage.end(plan.id);
          const expected = plan.failsAfter === undefined ? "done" : "RunFailedError";
          const got = "value" in told ? told.value : told.error.name;
          if (got !== expected) stage.violate("outcome", "S1", `${plan.id} gave ${String(got)}, not ${expected}`);
        }),
      );
    },
    verify: (stage, ledger) => {
      for (const plan of plans) check(plan, stage, ledger);
    },
  };
}

function check(plan: Plan, stage: Stage, ledger: Ledger): void {
  const undone = new Set<string>();
  const order: number[] = [];
  for (const { key } of ledger.effects) {
    const match = /rollback.*do(\d+)|do(\d+)#?.*rollback/.exec(key.slice(plan.id.length));
    if (!key.startsWith(`${plan.id}/`) || match === null) continue;
    if (!undone.has(key)) order.push(Number(match[1] ?? match[2]));
    undone.add(key);
  }
  const expected = plan.failsAfter === undefined ? [] : Array.from({ length: plan.failsAfter }, (_, i) => (plan.failsAfter ?? 0) - 1 - i);
  if (JSON.stringify(order) !== JSON.stringify(expected))
    stage.violate("sagas", "S1", `${plan.id} undid [${order.join()}], not [${expected.join()}]`);
}
