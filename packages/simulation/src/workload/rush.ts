// Rushes: more runs than there is room for, some more urgent than others.
// Owns: which run has which priority.
// Invariants: W2 (the witness holds the order of every claim), W3 (none is forgotten).

import { workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scene } from "../scenario.ts";
import type { Hands } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly priority: number;
  readonly pause: number;
  readonly naps: number;
}

export function rush(random: Random, name: string): Scene {
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
    workflows: (hands) => [code(hands, name)],
    async play(stage) {
      await Promise.all(
        plans.map(async ({ id, priority, pause, naps }) => {
          await stage.sleep(pause);
          await stage.start(name, naps, { id, priority });
          const told = await stage.end(id);
          const got = "value" in told ? told.value : told.error.message;
          if (got !== naps) stage.violate("rushes", "W3", `${id} gave ${String(got)}`);
        }),
      );
    },
  };
}

function code(hands: Hands, name: string) {
  const retry = { maxAttempts: 60, initialInterval: 10, maxInterval: 50 };
  return workflow(name, async (ctx, naps: number) => {
    for (let nap = 0; nap < naps; nap++) {
      await ctx.step("work", (info) => hands.step(info, nap), { retry });
      await ctx.sleep(20);
    }
    return naps;
  });
}
