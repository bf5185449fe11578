// Namesakes: starts of several workflows under the same idempotency keys and run ids.
// Owns: which run each key has started, according to the answers that clients got.
// Invariants: M3 (keys belong to a workflow; a start never returns a run of another workflow; a repeated start returns the same run).

import { RunAlreadyExistsError, workflow } from "@holdfast/core";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";

interface Plan {
  readonly workflow: string;
  readonly key: string | undefined;
  readonly id: string;
  readonly onConflict: "reject" | "use-existing" | "restart-if-closed";
  readonly pause: number;
}

export function namesakes(random: Random, name: string): Scenario {
  const names = [`${name}-a`, `${name}-b`];
  const plans = Array.from(
    { length: random.between(4, 12) },
    (): Plan => ({
      workflow: random.pick(names),
      key: random.chance(0.7) ? `k${random.between(0, 2)}` : undefined,
      id: `${name}-${random.between(0, 4)}`,
      onConflict: random.pick(["reject", "use-existing", "restart-if-closed"]),
      pause: random.span(60),
    }),
  );
  return {
    name,
    workflows: () => names.map(code),
    async play(clients) {
      const started = new Map<string, string>();
      await Promise.all(plans.map((plan) => play(clients, plan, started)));
      const ids = new Set(plans.map(({ id }) => id));
      for (const id of ids) if (clients.checks.seen.all.has(id)) await clients.end(id);
    },
  };
}

async function play(clients: Clients, plan: Plan, started: Map<string, string>): Promise<void> {
  const { workflow: name, key, id, onConflict, pause } = plan;
  await clients.sleep(pause);
  const told = await clients.told(`start ${name} as ${id} under ${key}`, (engine) =>
    engine.start(name, undefined, { id, onConflict, ...(key !== undefined && { idempotencyKey: key }) }),
  );
  if ("error" in told) {
    if (told.error instanceof RunAlreadyExistsError) return; // the checks of the store verify which workflow it is of
    return clients.violate("namesakes", "M3", `a start of ${name} as ${id} was answered ${told.error.name}`);
  }
  const run = told.value;
  const row = await clients.row(run.id);
  if (row?.workflow !== name) clients.violate("namesakes", "M3", `a start of ${name} returned ${run.id}, a run of ${row?.workflow}`);
  if (key === undefined) return;
  const known = started.get(`${name} ${key}`);
  if (known !== undefined && known !== run.id)
    clients.violate("namesakes", "M3", `key ${key} of ${name} started ${known}, and then ${run.id}`);
  started.set(`${name} ${key}`, run.id);
}

function code(name: string) {
  return workflow(name, async (ctx) => {
    await ctx.sleep(20);
    return name;
  });
}
