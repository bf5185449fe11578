// Chains: runs that continue as new executions while clients send numbered signals.
// Owns: the order in which the signals were sent.
// Invariants: M2 M3 M7 (each signal is consumed once, in the order of arrival), P10 (across executions too).

import { FatalError, signal, workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Input {
  readonly wanted: number;
  readonly each: number;
  readonly how: "wait" | "listen" | "timeout";
  readonly works: boolean;
  readonly got: readonly number[];
}

export function chain(random: Random, name: string): Scenario {
  const id = `${name}-0`;
  const wanted = random.between(1, 8);
  const input: Input = {
    wanted,
    each: random.between(1, 4),
    how: random.pick(["wait", "listen", "timeout"] as const),
    works: random.chance(0.4),
    got: [],
  };
  const pauses = Array.from({ length: wanted }, () => (random.chance(0.2) ? random.between(1, 2_000) : random.between(0, 4)));
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await clients.start(name, input, { id });
      for (const [i, pause] of pauses.entries()) {
        await clients.sleep(pause);
        const told = await clients.signal(id, "n", i, `n${i}`);
        if ("error" in told) clients.violate("acknowledged", "M1", `signal ${i} was refused: ${told.error.message}`);
      }
      const told = await clients.end(id);
      const got = "value" in told ? JSON.stringify(told.value) : told.error.message;
      if (got !== JSON.stringify(pauses.map((_, i) => i))) clients.violate("order", "M2", `${id} consumed ${got}`);
    },
  };
}

function code(bodies: StepBodies, name: string) {
  return workflow({ name, signals: { n: signal<number>() } }, async (ctx, input: Input) => {
    const got = [...input.got];
    for (let taken = 0; taken < input.each && got.length < input.wanted; taken++) {
      if (input.how === "listen") {
        for (const { payload } of await ctx.listen(["n"], { count: Math.min(2, input.wanted - got.length) })) got.push(payload);
      } else if (input.how === "timeout") {
        const { timedOut, payload } = await ctx.waitForSignal("n", { timeout: 300 });
        if (!timedOut) got.push(payload);
      } else got.push(await ctx.waitForSignal("n"));
      ctx.publishState({ got });
      if (!input.works) continue;
      const value = await ctx.step("work", (info) => bodies.step(info, got.length), {
        retry: { maxAttempts: 50, initialInterval: 10, maxInterval: 50 },
      });
      if (value !== got.length) throw new FatalError(`WRONG: ${String(value)}`);
    }
    return got.length < input.wanted ? ctx.continueAsNew({ ...input, got }) : got;
  });
}
