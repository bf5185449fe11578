// Schedules: runs that start by the clock while processes come and go, and clients pause, change and trigger schedules.
// Owns: what each schedule says, and when clients touch it.
// Invariants: T1 (one tick, one run), T5 (nothing is lost), T6 (overlap), T7 (pause, trigger); each tick is also held against the oracle "ticks".

import { workflow } from "@holdfast/core";
import type { ScheduleSpec } from "holdfast";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

const ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham"] as const;

interface Plan {
  readonly id: string;
  readonly spec: Pick<ScheduleSpec, "timezone" | "overlap" | "catchUp" | "jitter"> & { cron?: string; every?: number };
  /** What a client does, one after the other, and how long it waits before each. */
  readonly deeds: readonly { readonly after: number; readonly do: "pause" | "resume" | "trigger" | "set" }[];
  readonly works: boolean;
}

export function clockwork(random: Random, name: string): Scenario {
  const plans = Array.from({ length: random.between(1, 2) }, (_, i): Plan => {
    const step = random.between(1, 4);
    const cron = random.pick([
      `*/${step} * * * * *`,
      `${random.between(0, 3)}-59/${step} * * * * *`,
      "0,3,7,20,21,40,59 * * * * *",
    ] as const);
    return {
      id: `${name}-${i}`,
      spec: {
        ...(random.chance(0.5) ? { cron } : { every: step * 1_000 }),
        timezone: random.pick(ZONES),
        overlap: random.pick(["skip", "allow", "queue"] as const),
        catchUp: random.pick([1_500, 86_400_000] as const),
        ...(random.chance(0.3) && { jitter: random.between(1, 1_500) }),
      },
      deeds: Array.from({ length: random.between(1, 5) }, () => ({
        after: random.between(1, 3_000),
        do: random.pick(["pause", "resume", "trigger", "set", "set"] as const),
      })),
      works: random.chance(0.5),
    };
  });
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await Promise.all(plans.map((plan) => play(clients, name, plan)));
    },
  };
}

async function play(clients: Clients, name: string, { id, spec, deeds, works }: Plan): Promise<void> {
  const set = (how: string): Promise<void> =>
    clients.ask(`set ${id}`, (engine) => engine.schedules.set(id, { ...spec, workflow: name, input: { works, how } } as never));
  await set("first");
  for (const [i, deed] of deeds.entries()) {
    await clients.sleep(deed.after);
    const verb = deed.do;
    if (verb === "set") await set(`deed ${i}`);
    else await clients.ask(`${verb} ${id}`, async (engine) => void (await engine.schedules[verb](id)));
  }
  await clients.ask(`resume ${id}`, (engine) => engine.schedules.resume(id));
  const { lastTick: before } = await clients.ask(`get ${id}`, (engine) => engine.schedules.get(id));
  // It ticks again, whatever has happened: unless the run of the last tick is open, and that ends.
  for (;;) {
    const { lastTick } = await clients.ask(`get ${id}`, (engine) => engine.schedules.get(id));
    if (lastTick !== undefined && lastTick.getTime() !== before?.getTime()) break;
    await clients.sleep(500);
  }
  await clients.ask(`delete ${id}`, (engine) => engine.schedules.delete(id));
  const { runs } = await clients.ask(`list ${name}`, (engine) => engine.list({ workflow: name, limit: 1_000 }));
  for (const { id: runId, schedule, tick } of runs.filter((run) => run.schedule === id)) {
    const told = await clients.end(runId);
    const expected = tick === undefined ? "triggered" : `${schedule}@${tick.toISOString().slice(0, 19)}Z`;
    const got = "value" in told ? told.value : told.error.message;
    if (got !== expected || (tick !== undefined && runId !== expected))
      clients.violate("clockwork", "T1", `${runId} of ${expected} gave ${String(got)}`);
  }
  if (spec.overlap !== "allow") await checkOverlap(clients, name, id);
}

/** T6: of these, no two are open, or have begun, at the same time. */
async function checkOverlap(clients: Clients, name: string, id: string): Promise<void> {
  const { runs } = await clients.ask(`list ${name} again`, (engine) => engine.list({ workflow: name, schedule: id, limit: 1_000 }));
  const ticks = runs.filter(({ tick }) => tick !== undefined).toSorted((a, b) => Number(a.tick) - Number(b.tick));
  for (const [i, { id: runId, startedAt }] of ticks.entries()) {
    const before = ticks[i - 1];
    if (before !== undefined && Number(startedAt) < Number(before.finishedAt))
      clients.violate("clockwork", "T6", `${runId} began before ${before.id} had ended`);
  }
}

function code(bodies: StepBodies, name: string) {
  return workflow(name, async (ctx, { works }: { works: boolean }) => {
    if (works) await ctx.step("work", (info) => bodies.step(info, 1), { retry: { maxAttempts: 50, initialInterval: 10, maxInterval: 50 } });
    else await ctx.sleep(1_200);
    const { tick, id } = ctx.run;
    return tick === undefined ? "triggered" : `${id.slice(0, id.indexOf("@"))}@${tick.toISOString().slice(0, 19)}Z`;
  });
}
