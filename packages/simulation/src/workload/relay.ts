// Relays: executions that take long, one after the other, wherever there is a worker for the next.
// Owns: nothing; what each execution sees of time goes on to the next.
// Invariants: P7 P10 (time never goes back within a run, though estimates of workers differ).

import { workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scene } from "../scenario.ts";
import type { Hands } from "../stepBodies.ts";

interface Input {
  readonly left: number;
  /** The time of the turn that ended the execution before. */
  readonly at: number;
}

export function relay(random: Random, name: string): Scene {
  const ids = Array.from({ length: random.between(1, 2) }, (_, i) => `${name}-${i}`);
  const left = random.between(2, 5);
  return {
    name,
    workflows: (hands) => [code(hands, name)],
    async play(stage) {
      await Promise.all(
        ids.map(async (id) => {
          await stage.start(name, { left, at: 0 } satisfies Input, { id });
          const told = await stage.end(id);
          const got = "value" in told ? told.value : told.error.message;
          if (got !== "done") stage.violate("time", "P7", `${id} gave ${String(got)}`);
        }),
      );
    },
  };
}

function code(hands: Hands, name: string) {
  return workflow(name, async (ctx, { left, at }: Input) => {
    const began = ctx.now().getTime();
    if (began < at) return `WRONG: it ended at ${at} and went on at ${began}`;
    await ctx.step("leg", (info) => hands.step(info, left, { takes: 1_000 }), {
      retry: { maxAttempts: 50, initialInterval: 10, maxInterval: 50 },
    });
    return left === 0 ? "done" : ctx.continueAsNew({ left: left - 1, at: ctx.now().getTime() });
  });
}
