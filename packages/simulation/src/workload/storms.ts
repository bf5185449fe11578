// Storms: many starts of one run, each of which replaces it or puts it off, from several clients at a time.
// Owns: the starts, and when they are made.
// Invariants: Q9 (the newest start is what the run begins with next; the signals of all starts are consumed once, in order; a caller's
// cancellation drops what would have followed).

import { jsonCodec, signal, workflow } from "@holdfast/core";
import type { Effects } from "../checks/effects.ts";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Start {
  readonly pause: number;
  readonly how: "replace" | "debounce";
  readonly delay: number | undefined;
  readonly maxDelay: number | undefined;
}
export interface Storm {
  readonly id: string;
  readonly key: string | undefined;
  readonly starts: readonly Start[];
  readonly cancelAfter: number | undefined;
}
interface Input {
  readonly n: number;
  readonly length: number;
}

export function drawnStorm(random: Random, id: string, key: string | undefined): Storm {
  return {
    id,
    key,
    starts: Array.from({ length: random.between(2, 7) }, () => ({
      pause: random.chance(0.4) ? 0 : random.between(1, 250),
      how: random.pick(["replace", "debounce"] as const),
      delay: random.chance(0.5) ? random.between(1, 200) : undefined,
      maxDelay: random.chance(0.5) ? random.between(1, 400) : undefined,
    })),
    cancelAfter: random.chance(0.25) ? random.between(0, 800) : undefined,
  };
}

/** Each start has its key: a client that repeats one does not replace what has begun since. */
export async function playStorm(clients: Clients, queue: string, { id, key, starts, cancelAfter }: Storm): Promise<void> {
  const plays: Promise<unknown>[] = [];
  if (cancelAfter !== undefined) plays.push(clients.sleep(cancelAfter).then(() => cancel(clients, id)));
  for (const [n, { pause, how, delay, maxDelay }] of starts.entries()) {
    if (pause > 0) await clients.sleep(pause);
    const given = {
      ...(key !== undefined && { key }),
      ...(delay !== undefined && { delay }),
      ...(maxDelay !== undefined && how === "debounce" && { maxDelay }),
    };
    const signals = [{ name: "n", payload: n }];
    const options = { id, queue, onConflict: how, idempotencyKey: `${id}/${n}`, signals, ...given };
    plays.push(clients.start(id, { n, length: 20 + 10 * n } satisfies Input, options));
  }
  await Promise.all(plays);
  const told = await clients.end(id);
  const row = await clients.row(id);
  const newest = row === undefined ? undefined : (jsonCodec.decode(row.input) as Input).n;
  if ("value" in told) {
    const got = told.value as readonly number[];
    if (got.at(-1) !== newest || new Set(got).size !== got.length)
      clients.violate("storms", "Q9", `${id}, started as ${newest}, consumed ${got.join(", ")}`);
  } else if (cancelAfter === undefined) clients.violate("storms", "Q9", `${id} ended with ${told.error.name}`);
}
async function cancel(clients: Clients, id: string): Promise<void> {
  const told = await clients.told(`cancel ${id}`, (engine) => engine.run(id).cancel("a client wants it"));
  const expected = ["RunNotFoundError", "RunClosedError"];
  if ("error" in told && !expected.includes(told.error.name))
    clients.violate("storms", "K1", `the cancellation of ${id} was answered ${told.error.name}`);
}

/** Each signal is consumed by one execution at most. */
export function verifyStorm(clients: Clients, { id, starts }: Storm, effects: Effects): void {
  for (const n of starts.keys()) {
    const name = `/got${n}`;
    const executions = new Set(effects.all.flatMap(({ key }) => (key.startsWith(`${id}/`) && key.endsWith(name) ? [key] : [])));
    if (executions.size > 1) clients.violate("storms", "Q9", `signal ${n} of ${id} was consumed by ${[...executions].join(" and ")}`);
  }
}

export function stormCode(bodies: StepBodies, name: string) {
  const retry = { maxAttempts: 60, initialInterval: 10, maxInterval: 50 };
  return workflow({ name, signals: { n: signal<number>() } }, async (ctx, { n, length }: Input): Promise<number[]> => {
    const got: number[] = [];
    do {
      const value = await ctx.waitForSignal("n");
      await ctx.step(`got${value}`, (info) => bodies.step(info, value, { takes: length }), { retry });
      got.push(value);
    } while (got.at(-1) !== n);
    await ctx.sleep(length);
    return got;
  });
}
