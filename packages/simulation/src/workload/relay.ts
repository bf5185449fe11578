// Relays: long executions, one after the other, each on any worker.
// Owns: nothing; each execution passes the time that it saw to the next.
// Invariants: P7 P10 (time never goes back within a run, although the clocks of workers differ).

import { workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Input {
  readonly left: number;
  /** The time of the turn that ended the previous execution. */
  readonly at: number;
}

export function relay(random: Random, name: string): Scenario {
  const ids = Array.from({ length: random.between(1, 2) }, (_, i) => `${name}-${i}`);
  const left = random.between(2, 5);
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await Promise.all(
        ids.map(async (id) => {
          await clients.start(name, { left, at: 0 } satisfies Input, { id });
          const told = await clients.end(id);
          const got = "value" in told ? told.value : told.error.message;
          if (got !== "done") clients.violate("time", "P7", `${id} gave ${String(got)}`);
        }),
      );
    },
  };
}

function code(bodies: StepBodies, name: string) {
  return workflow(name, async (ctx, { left, at }: Input) => {
    const began = ctx.now().getTime();
    if (began < at) return `WRONG: an execution ended at ${at}, and the next began at ${began}`;
    await ctx.step("leg", (info) => bodies.step(info, left, { takes: 1_000 }), {
      retry: { maxAttempts: 50, initialInterval: 10, maxInterval: 50 },
    });
    return left === 0 ? "done" : ctx.continueAsNew({ left: left - 1, at: ctx.now().getTime() });
  });
}
