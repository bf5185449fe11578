// Drains: runs that consume signals until no more arrive, and clients that send until the run has ended.
// Owns: which signals and cancellations were acknowledged, and which signals each run returns as consumed.
// Invariants: M1 D9 (every acknowledged signal is in the output, whether the wait ends by a timeout, a sleep, a step, an activity or a
// child), M3 M7 (once), K1 (a run whose cancellation was acknowledged ends canceled).

import { type AnyWorkflow, activity, Receive, signal, workflow } from "@holdfast/core";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

const KINDS = ["listen", "race", "step", "errand", "child", "receive", "cancel"] as const;
type Kind = (typeof KINDS)[number];
interface Plan {
  readonly id: string;
  readonly kind: Kind;
  /** Milliseconds without a signal after which the run ends. */
  readonly timeout: number;
  /** The largest number of signals that one wait consumes. */
  readonly count: number;
  /** For each client, the pauses before its signals: about as long as the timeout. */
  readonly clients: readonly (readonly number[])[];
}
const RETRY = { maxAttempts: 60, initialInterval: 10, maxInterval: 50 };

export function drains(random: Random, name: string): Scenario {
  const plans = Array.from({ length: random.between(1, 2) }, (_, i): Plan => {
    const timeout = random.between(5, 60);
    const pause = (): number => (random.chance(0.8) ? timeout * (0.5 + random.next()) : random.next() * 5 * timeout);
    const clients = Array.from({ length: random.between(1, 2) }, () => Array.from({ length: random.between(1, 12) }, pause));
    return { id: `${name}-${i}`, kind: random.pick(KINDS), timeout, count: random.pick([1, 2, 100]), clients };
  });
  return {
    name,
    activities: (bodies) => [errand(bodies, name)],
    workflows: (bodies) => code(bodies, name),
    async play(clients) {
      await Promise.all(plans.map((plan) => (plan.kind === "cancel" ? playCancel(clients, name, plan) : playDrain(clients, name, plan))));
    },
  };
}

async function playDrain(clients: Clients, name: string, { id, kind, ...plan }: Plan): Promise<void> {
  await clients.start(`${name}-${kind}`, plan, { id });
  const acknowledged = (await Promise.all(plan.clients.map((pauses, client) => sender(clients, id, client, pauses)))).flat();
  const told = await clients.end(id);
  const broken = (rule: string, message: string): void => clients.violate("drains", rule, `${id} (${kind}) ${message}`);
  if ("error" in told) return broken("P1", `gave ${told.error.message}`);
  const heard = told.value as readonly string[];
  for (const key of acknowledged)
    if (!heard.includes(key)) broken("D9", `ended without ${key}, which was acknowledged; it consumed ${heard.join(" ")}`);
  for (const key of heard) if (!acknowledged.includes(key)) broken("M12", `consumed ${key}, which was refused`);
  if (new Set(heard).size !== heard.length) broken("M7", `consumed a signal twice: ${heard.join(" ")}`);
}
/** Sends signals until one is refused because the run has ended. Returns the keys of the acknowledged ones. */
async function sender(clients: Clients, id: string, client: number, pauses: readonly number[]): Promise<string[]> {
  const acknowledged: string[] = [];
  for (const [n, pause] of pauses.entries()) {
    await clients.sleep(pause);
    const key = `${client}-${n}`;
    const told = await clients.signal(id, "tick", key, key);
    if ("error" in told) break;
    acknowledged.push(key);
  }
  return acknowledged;
}

async function playCancel(clients: Clients, name: string, { id, kind, ...plan }: Plan): Promise<void> {
  await clients.start(`${name}-${kind}`, plan, { id });
  await clients.sleep(plan.clients[0]?.[0] ?? 0);
  const told = await clients.cancel(id);
  await clients.end(id);
  const row = await clients.row(id);
  if ("value" in told && row?.status !== "canceled")
    clients.violate("drains", "K1", `the cancellation of ${id} was acknowledged, but it ended ${row?.status}`);
}

const errand = (bodies: StepBodies, name: string) =>
  activity<number, number>(`${name}-work`, (n, info) => bodies.activity(info, n, { takes: n }), { retry: RETRY });

function code(bodies: StepBodies, name: string): AnyWorkflow[] {
  const work = errand(bodies, name);
  const sleeper = workflow(`${name}-sleeper`, (ctx, length: number) => ctx.sleep(length));
  const named = (kind: Kind) => ({ name: `${name}-${kind}`, signals: { tick: signal<string>() } });
  type Input = Omit<Plan, "id" | "kind">;
  return [
    workflow(named("listen"), async (ctx, { timeout, count }: Input) => {
      const heard: string[] = [];
      for (;;) {
        const batch = await ctx.listen(["tick"], { count, timeout });
        if (batch.length === 0) return heard;
        heard.push(...batch.map(({ payload }) => payload as string));
      }
    }),
    workflow(named("race"), async (ctx, { timeout }: Input) => {
      const heard: string[] = [];
      for (;;) {
        const { winner, value } = await ctx.race("first", {
          tick: (branch) => branch.waitForSignal("tick"),
          time: (branch) => branch.sleep(timeout),
        });
        if (winner === "time") return heard;
        heard.push(value as string);
      }
    }),
    workflow(named("step"), async (ctx, { timeout }: Input) => {
      const heard: string[] = [];
      await ctx.race("first", {
        work: (branch) => branch.step("work", (info) => bodies.step(info, 1, { takes: 2 * timeout }), { retry: RETRY }),
        ticks: async (branch) => {
          for (;;) heard.push(await branch.waitForSignal("tick"));
        },
      });
      return heard;
    }),
    workflow(named("errand"), async (ctx, { timeout }: Input) => {
      const heard: string[] = [];
      await ctx.race("first", {
        work: (branch) => branch.activity(work, 2 * timeout),
        ticks: async (branch) => {
          for (;;) heard.push(await branch.waitForSignal("tick"));
        },
      });
      return heard;
    }),
    sleeper,
    workflow(named("child"), async (ctx, { timeout }: Input) => {
      const heard: string[] = [];
      await ctx.race("first", {
        work: (branch) => branch.child(sleeper, 2 * timeout),
        ticks: async (branch) => {
          for (;;) heard.push(await branch.waitForSignal("tick"));
        },
      });
      return heard;
    }),
    workflow(named("receive"), async (ctx, { timeout }: Input) => {
      const { state } = await ctx.receive<string[]>([], {
        signals: { tick: (key, heard) => Receive.noreply([...heard, key]) },
        timeout: 3 * timeout,
      });
      return state;
    }),
    workflow(named("cancel"), async (ctx, { timeout }: Input) => {
      await ctx.step("first", (info) => bodies.step(info, 1, { takes: timeout }), { retry: RETRY });
      return ctx.step("last", (info) => bodies.step(info, 1), { retry: RETRY });
    }),
  ];
}
