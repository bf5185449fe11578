// Rushes: more runs than the workers have slots for, with different priorities.
// Owns: the priority of each run.
// Invariants: W2 (the checks of the store verify the order of every claim), W3 (every run ends).

import { workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly priority: number;
  readonly pause: number;
  readonly naps: number;
}

export function rush(random: Random, name: string): Scenario {
  const plans = Array.from(
    { length: random.between(3, 10) },
    (_, i): Plan => ({
      id: `${name}-${i}`,
      priority: random.between(-1, 2),
      pause: random.chance(0.2) ? random.between(1, 1_000) : random.between(0, 3),
      naps: random.between(0, 2),
    }),
  );
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await Promise.all(
        plans.map(async ({ id, priority, pause, naps }) => {
          await clients.sleep(pause);
          await clients.start(name, naps, { id, priority, attributes: { naps, isUrgent: priority > 0 } });
          const told = await clients.end(id);
          const got = "value" in told ? told.value : told.error.message;
          if (got !== naps) clients.violate("rushes", "W3", `${id} gave ${String(got)}`);
        }),
      );
    },
  };
}

function code(bodies: StepBodies, name: string) {
  const retry = { maxAttempts: 60, initialInterval: 10, maxInterval: 50 };
  return workflow(name, async (ctx, naps: number) => {
    for (let nap = 0; nap < naps; nap++) {
      await ctx.step("work", (info) => bodies.step(info, nap), { retry });
      await ctx.sleep(20);
    }
    return naps;
  });
}
