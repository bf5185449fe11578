// Crossings: timers fire while messages arrive and the run parks, many times over.
// Owns: the sleeps of each run and the pauses between its signals.
// Invariants: K8 (every sleep ends, none early), D9 (parking misses neither timers nor messages), M2 M7 (every signal once, in order).

import { FatalError, signal, workflow } from "@holdfast/core";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";

interface Plan {
  readonly id: string;
  readonly sleeps: readonly number[];
  readonly pauses: readonly number[];
}

export function crossing(random: Random, name: string): Scenario {
  const plans = Array.from({ length: random.between(1, 3) }, (_, i): Plan => {
    const short = (): number => random.between(1, 12);
    return {
      id: `${name}-${i}`,
      sleeps: Array.from({ length: random.between(2, 8) }, short),
      pauses: Array.from({ length: random.between(2, 12) }, () => random.span(4)),
    };
  });
  return {
    name,
    workflows: () => [code(name)],
    play: async (clients) => {
      await Promise.all(plans.map((plan) => play(clients, name, plan)));
    },
  };
}

async function play(clients: Clients, name: string, { id, sleeps, pauses }: Plan): Promise<void> {
  await clients.start(name, { sleeps, signals: pauses.length }, { id });
  for (const [i, pause] of pauses.entries()) {
    await clients.sleep(pause);
    await clients.signal(id, "n", i, `n${i}`);
  }
  const told = await clients.end(id);
  const got = "value" in told ? JSON.stringify(told.value) : told.error.message;
  const wanted = JSON.stringify({ slept: sleeps.length, got: pauses.map((_, i) => i) });
  if (got !== wanted) clients.violate("order", "M2", `${id} gave ${got}, not ${wanted}`);
}

function code(name: string) {
  return workflow({ name, signals: { n: signal<number>() } }, async (ctx, input: { sleeps: readonly number[]; signals: number }) => {
    const got: number[] = [];
    const ends = await ctx.parallel([
      async (ctx) => {
        for (const ms of input.sleeps) {
          const before = ctx.now().getTime();
          await ctx.sleep(ms);
          if (ctx.now().getTime() - before < ms) throw new FatalError(`WRONG: a sleep of ${ms} ms ended early`);
        }
      },
      async (ctx) => {
        while (got.length < input.signals) got.push(await ctx.waitForSignal("n"));
      },
    ]);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    return { slept: input.sleeps.length, got };
  });
}
