// Patience: updates that wait until a run accepts them or `acceptWithin` has passed.
// Owns: the answer to each update, and the updates that the run has counted.
// Invariants: M8 M10 (an accepted update is counted once, a rejected one never; the checks of the store verify each acceptance).

import { Receive, update, workflow } from "@holdfast/core";
import type { Asked } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly key: string;
  readonly pause: number;
  readonly acceptWithin: number;
}
interface Input {
  readonly rounds: number;
  readonly counted: readonly string[];
}

export function patience(random: Random, name: string): Scenario {
  const id = `${name}-0`;
  const rounds = random.between(1, 3);
  const plans = Array.from(
    { length: random.between(2, 8) },
    (_, i): Plan => ({ key: `u${i}`, pause: random.span(300), acceptWithin: Math.ceil(random.span(400)) + 1 }),
  );
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await clients.start(name, { rounds, counted: [] } satisfies Input, { id });
      const told = new Map<string, Asked<unknown>>();
      const asked = plans.map(async ({ key, pause, acceptWithin }) => {
        await clients.sleep(pause);
        told.set(key, await clients.update(id, "count", key, key, { acceptWithin }));
      });
      await Promise.all(asked);
      const end = await clients.end(id);
      if (!("value" in end)) return clients.violate("patience", "M8", `${id} ended with ${end.error.name}`);
      const counted = end.value as readonly string[];
      for (const [key, answer] of told) {
        const times = counted.filter((one) => one === key).length;
        if (times > 1) clients.violate("patience", "M8", `update ${key} of ${id} was counted ${times} times`);
        if ("value" in answer && times === 0) clients.violate("patience", "M8", `update ${key} of ${id} was accepted, but not counted`);
        if ("error" in answer && times > 0)
          clients.violate("patience", "M8", `update ${key} of ${id} was answered ${answer.error.name}, but was counted`);
      }
    },
  };
}

/** Each round works for a while and then accepts updates for a while; each round is a new execution. */
function code(bodies: StepBodies, name: string) {
  const retry = { maxAttempts: 60, initialInterval: 10, maxInterval: 50 };
  return workflow({ name, updates: { count: update<string, string>() } }, async (ctx, { rounds, counted }: Input) => {
    await ctx.step("work", (info) => bodies.step(info, rounds, { takes: 200 }), { retry });
    await ctx.sleep(100);
    const { state } = await ctx.receive(counted, {
      updates: { count: (key, before) => Receive.reply(key, [...before, key]) },
      timeout: 150,
    });
    return rounds > 1 ? ctx.continueAsNew({ rounds: rounds - 1, counted: state }) : state;
  });
}
