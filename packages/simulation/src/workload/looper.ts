// Loops that commit and trim: long runs with a short history.
// Owns: the expected sum.
// Invariants: L1–L4 (each iteration counts once, history is bounded, replay starts at the commit).

import { FatalError, Loop, signal, workflow } from "@holdfast/core";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Input {
  readonly times: number;
  readonly commitInterval: number;
  readonly historyEvery: number;
  readonly historyKeep: number;
  readonly pause: number;
  readonly signals: boolean;
}

export function looper(random: Random, name: string): Scenario {
  const id = `${name}-0`;
  const input: Input = {
    times: random.between(1, 9),
    commitInterval: random.between(1, 3),
    historyEvery: random.between(1, 4),
    historyKeep: random.between(0, 2),
    pause: random.chance(0.4) ? random.between(1, 800) : 0,
    signals: random.chance(0.4),
  };
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await clients.start(name, input, { id });
      if (input.signals) for (let i = 0; i < input.times; i++) await clients.signal(id, "tick", i, `tick${i}`);
      const told = await clients.end(id);
      const wanted = {
        sum: (input.times * (input.times - 1)) / 2,
        ticks: input.signals ? Array.from({ length: input.times }, (_, i) => i) : [],
      };
      const got = "value" in told ? JSON.stringify(told.value) : told.error.message;
      if (got !== JSON.stringify(wanted)) clients.violate("loops", "L3", `${id} gave ${got}, not ${JSON.stringify(wanted)}`);
      const row = await clients.row(id);
      const most = 12 * (input.historyEvery + input.historyKeep + input.commitInterval + 3);
      if (row !== undefined && row.historyLength > most)
        clients.violate("loops", "L4", `${id} has ${row.historyLength} records, more than ${most}`);
    },
  };
}

function code(bodies: StepBodies, name: string) {
  return workflow({ name, signals: { tick: signal<number>() } }, async (ctx, input: Input) => {
    const { times, commitInterval, historyEvery, historyKeep } = input;
    const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
    const before = await ctx.step("before", (info) => bodies.step(info, "b"), { retry });
    const result = await ctx.loop(
      { name: "go", state: { i: 0, sum: 0, ticks: [] as number[] }, commitInterval, historyEvery, historyKeep },
      async (ctx, { i, sum, ticks }) => {
        const value = await ctx.step("add", (info) => bodies.step(info, i), { retry });
        if (value !== i) throw new FatalError(`WRONG: ${String(value)}`);
        if (input.pause > 0) await ctx.sleep(input.pause);
        const tick = input.signals ? [await ctx.waitForSignal("tick")] : [];
        const state = { i: i + 1, sum: sum + value, ticks: [...ticks, ...tick] };
        return state.i >= times ? Loop.break({ sum: state.sum, ticks: state.ticks }) : Loop.continue(state);
      },
    );
    const after = await ctx.step("after", (info) => bodies.step(info, before), { retry });
    if (after !== "b") throw new FatalError(`WRONG: ${String(after)}`);
    return result;
  });
}
