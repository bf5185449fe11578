// Entities: one run that many clients update at the same time.
// Owns: a model of the account: which outcomes of its updates are possible in one sequential order.
// Invariants: M1 M3 M10 (an acknowledged update was applied once), M11 (a query shows it), R3 R9 R10 A3 (no write is lost), R11
// (checkpoints change nothing).

import { Receive, signal, update, workflow } from "@holdfast/core";
import type { Asked, Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Plan {
  readonly id: string;
  readonly checkpointEvery: number | undefined;
  /** Handlers run steps, so that updates overlap. */
  readonly works: boolean;
  readonly clients: readonly (readonly Planned[])[];
  readonly end: "stop" | "cancel" | "terminate";
}
type Kind = "add" | "take" | "slow" | "read" | "bump";
interface Planned {
  readonly key: string;
  readonly kind: Kind;
  readonly n: number;
  readonly pause: number;
}
interface Account {
  readonly balance: number;
  readonly applied: readonly string[];
}
/** A client's request, when it was sent and answered, and the answer. */
interface Deed extends Planned {
  readonly asked: number;
  readonly answered: number;
  readonly told: Asked<unknown>;
}

export function entity(random: Random, name: string): Scenario {
  const plan: Plan = {
    id: `${name}-0`,
    checkpointEvery: random.chance(0.5) ? random.between(1, 4) : undefined,
    works: random.chance(0.5),
    end: random.chance(0.75) ? "stop" : random.pick(["cancel", "terminate"] as const),
    clients: Array.from({ length: random.between(1, 3) }, (_, c) =>
      Array.from({ length: random.between(1, 5) }, (_, i): Planned => {
        const kind = random.pick(["add", "take", "slow", "read", "bump"] as const);
        return {
          key: `${c}-${i}-${kind}`,
          kind,
          n: random.between(1, 9),
          pause: random.chance(0.3) ? random.between(1, 2_500) : random.between(0, 5),
        };
      }),
    ),
  };
  const deeds: Deed[] = [];
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await clients.start(name, plan, { id: plan.id });
      await Promise.all(plan.clients.map((planned) => client(clients, name, plan.id, planned, deeds)));
      if (plan.end === "stop") await clients.signal(plan.id, "stop", undefined, "stop");
      else await clients[plan.end](plan.id);
      await clients.end(plan.id);
    },
    verify: (clients) => verify(clients, plan, deeds),
  };
}

function code(bodies: StepBodies, name: string) {
  type Order = { key: string; n: number };
  const done = (state: Account, { key, n }: Order): Account => ({ balance: state.balance + n, applied: [...state.applied, key] });
  const messages = {
    signals: { bump: signal<Order>(), stop: signal() },
    updates: { add: update<Order, number>(), take: update<Order, number>(), slow: update<Order, number>(), read: update<Order, number>() },
    queries: { account: (state: Account | undefined) => state },
  };
  return workflow({ name, ...messages, cancellation: "enforced" }, async (ctx, plan: Plan) => {
    const retry = { maxAttempts: 50, initialInterval: 10, maxInterval: 50 };
    const { state } = await ctx.receive<Account>(
      { balance: 0, applied: [] },
      {
        ...(plan.checkpointEvery !== undefined && { checkpointEvery: plan.checkpointEvery }),
        signals: {
          bump: async (order, state, ctx) => {
            const next = done(state, order);
            ctx.publishState(next);
            return Receive.noreply(next);
          },
          stop: async (_, state) => Receive.stop(state),
        },
        updates: {
          add: async (order, state, ctx) => {
            if (plan.works) await ctx.step("check", (info) => bodies.step(info, order.n), { retry });
            const next = done(state, order);
            ctx.publishState(next);
            return Receive.reply(next.balance, next);
          },
          take: {
            validate: (order, state) => {
              if (order.n > state.balance + 5) throw new Error("Far too little.");
            },
            handle: async (order, state, ctx) => {
              if (order.n > state.balance) throw new Error("Too little.");
              const next = done(state, { key: order.key, n: -order.n });
              ctx.publishState(next);
              return Receive.reply(next.balance, next);
            },
          },
          slow: async (order, state) =>
            Receive.async(async (ctx) => {
              await ctx.step("slow", (info) => bodies.step(info, order.n, { takes: 50 }), { retry });
              let next: Account | undefined;
              const balance = await ctx.updateState((state: Account) => {
                next = done(state, order);
                return [next.balance, next] as const;
              });
              ctx.publishState(next);
              return balance;
            }, state),
          read: async (_, state) => Receive.reply(state.balance, state),
        },
      },
    );
    ctx.publishState(state);
    return state;
  });
}

async function client(clients: Clients, workflow: string, id: string, planned: readonly Planned[], deeds: Deed[]): Promise<void> {
  for (const one of planned) {
    await clients.sleep(one.pause);
    const asked = clients.world.age;
    const order = { key: one.key, n: one.n };
    const told =
      one.kind === "bump" ? await clients.signal(id, "bump", order, one.key) : await clients.update(id, one.kind, order, one.key);
    deeds.push({ ...one, asked, answered: clients.world.age, told });
    const seen = (await clients.query(id, workflow, "account")) as Account | undefined;
    const isDone = "value" in told && one.kind !== "bump" && one.kind !== "read";
    if (isDone && seen?.applied.includes(one.key) !== true)
      clients.violate("queries", "M11", `${one.key} of ${id} was acknowledged, but a query does not show it: ${JSON.stringify(seen)}`);
  }
}

async function verify(clients: Clients, plan: Plan, deeds: readonly Deed[]): Promise<void> {
  const row = await clients.row(plan.id);
  const state = (row?.state ?? { balance: 0, applied: [] }) as Account;
  const broken = (rule: string, message: string): void => clients.violate("linearizability", rule, `${plan.id}: ${message}`);
  const places = new Map<string, number>();
  for (const [i, key] of state.applied.entries()) {
    if (places.has(key)) broken("M3", `${key} was applied twice`);
    places.set(key, i);
  }
  const after = [0];
  for (const key of state.applied) {
    const deed = deeds.find((one) => one.key === key);
    if (deed === undefined) return broken("M3", `${key} was applied, but no client sent it`);
    after.push((after.at(-1) ?? 0) + (deed.kind === "take" ? -deed.n : deed.n));
  }
  for (const deed of deeds) {
    const place = places.get(deed.key);
    const isAcknowledged = "value" in deed.told;
    if (deed.kind === "read" || (!isAcknowledged && place === undefined)) {
      const failure = fits(deed, deeds, places, after);
      if (failure !== undefined) broken("M10", failure);
      continue;
    }
    if (place === undefined) {
      // A signal may be lost if the entity is cancelled or terminated before it consumes the signal (M12), but not if the entity stops.
      if (deed.kind !== "bump" || plan.end === "stop") broken("M1", `${deed.key} was acknowledged, but not applied`);
      continue;
    }
    if (!isAcknowledged && deed.kind !== "bump" && plan.end === "stop")
      broken("M10", `${deed.key} failed (${deed.told.error.message}), but was applied`);
    if (isAcknowledged && deed.kind !== "bump" && deed.told.value !== after[place + 1])
      broken("M10", `${deed.key} was answered ${String(deed.told.value)}, but the balance was ${after[place + 1]}`);
    for (const other of deeds) {
      const theirs = places.get(other.key);
      if (theirs !== undefined && deed.kind !== "bump" && other.asked > deed.answered && theirs < place)
        broken("M10", `${other.key} was sent after ${deed.key} had been answered, but was applied before it`);
    }
  }
}

/** A read or a refusal is possible if it was correct at some moment between the request and the answer. Returns what is wrong otherwise. */
function fits(deed: Deed, deeds: readonly Deed[], places: ReadonlyMap<string, number>, after: readonly number[]): string | undefined {
  if ("error" in deed.told && deed.kind !== "take") return undefined; // the entity had ended
  // Everything that was answered before the request had been applied; nothing that was sent after the answer had.
  let first = 0;
  let last = after.length - 1;
  for (const other of deeds) {
    const place = places.get(other.key);
    if (place === undefined) continue;
    if (other.kind !== "bump" && other.answered < deed.asked) first = Math.max(first, place + 1);
    if (other.asked > deed.answered) last = Math.min(last, place);
  }
  const balances = after.slice(first, last + 1);
  if ("value" in deed.told)
    return balances.includes(deed.told.value as number)
      ? undefined
      : `${deed.key} read ${String(deed.told.value)}; the balance was ${balances.join(" or ")}`;
  if (!/little/.test(deed.told.error.message) && !/little/.test(String((deed.told.error.cause as Error | undefined)?.message)))
    return undefined;
  return balances.some((balance) => balance < deed.n)
    ? undefined
    : `${deed.key} was refused ${deed.n}; the balance was ${balances.join(" or ")}`;
}
