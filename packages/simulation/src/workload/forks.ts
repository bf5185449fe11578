// Forks: runs that are forked before one of their steps, while they run or after their end.
// Owns: nothing.
// Invariants: F1 (steps before the cut have no effect in the fork, all others have), F2 (draws before the cut are the source's, later ones
// are not), F3 M3 (each signal is consumed once, in order, whether it follows the fork or is sent to it again under its key).

import { FatalError, InvalidInputError, RunAlreadyExistsError, signal, workflow } from "@holdfast/core";
import type { Clients } from "../clients.ts";
import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import type { StepBodies } from "../stepBodies.ts";

interface Result {
  readonly id: string;
  readonly draws: readonly string[];
  readonly got: readonly number[];
}
interface Plan {
  readonly id: string;
  readonly of: string;
  /** The number of the step. */
  readonly before: number;
  readonly signals: "keep" | "drop";
  readonly pause: number;
}

export function forks(random: Random, name: string): Scenario {
  const steps = random.between(1, 5);
  const source = `${name}-0`;
  const plans = Array.from({ length: random.between(1, 3) }, (_, i): Plan => {
    const of = i === 0 || random.chance(0.6) ? source : `${name}-${i}`;
    const pause = random.chance(0.5) ? random.between(0, 40) : random.between(0, 2_000);
    return { id: `${name}-${i + 1}`, of, before: random.between(0, steps - 1), signals: random.pick(["keep", "drop"]), pause };
  });
  const results = new Map<string, Result>();
  const end = async (clients: Clients, id: string): Promise<void> => {
    const told = await clients.end(id);
    if ("value" in told) results.set(id, told.value as Result);
    else clients.violate("forks", "F1", `${id} ended with ${told.error.message}`);
  };
  return {
    name,
    workflows: (bodies) => [code(bodies, name)],
    async play(clients) {
      await clients.start(name, steps, { id: source });
      const sent = sendAll(clients, source, steps);
      const ended = sent.then(() => end(clients, source));
      for (const plan of plans) {
        await clients.sleep(plan.pause);
        if (!(await fork(clients, plan))) {
          await (plan.of === source ? ended : undefined);
          if (!(await fork(clients, plan))) clients.violate("forks", "F5", `${plan.of} can't be forked before step ${plan.before}`);
        }
        await sendAll(clients, plan.id, steps);
        await end(clients, plan.id);
      }
      await ended;
    },
    verify(clients, effects) {
      for (const plan of plans) check(clients, plan, results, new Set(effects.all.map(({ key }) => key)));
      const wanted = JSON.stringify(Array.from({ length: steps }, (_, i) => i));
      for (const { id, got } of results.values())
        if (JSON.stringify(got) !== wanted) clients.violate("forks", "F3", `${id} consumed ${JSON.stringify(got)}`);
    },
  };
}

/** In order, under keys: what the run has got already is not delivered again. */
async function sendAll(clients: Clients, id: string, steps: number): Promise<void> {
  for (let i = 0; i < steps; i++) {
    const told = await clients.signal(id, "n", i, `n${i}`);
    if ("error" in told && told.error.name !== "RunClosedError")
      clients.violate("forks", "M1", `signal ${i} to ${id} was refused: ${told.error.message}`);
  }
}

/** False: the source has not got that far. */
async function fork(clients: Clients, { id, of, before, signals }: Plan): Promise<boolean> {
  const told = await clients.told(`fork ${of} before step ${before} as ${id}`, (engine) =>
    engine.run(of).fork({ id, before: `s${before}`, signals }),
  );
  if ("value" in told || told.error instanceof RunAlreadyExistsError) return true;
  if (told.error instanceof InvalidInputError) return false;
  clients.violate("forks", "F1", `the fork ${id} of ${of} was answered ${told.error.name}: ${told.error.message}`);
  return true;
}

function check(clients: Clients, { id, of, before }: Plan, results: ReadonlyMap<string, Result>, effects: ReadonlySet<string>): void {
  const [source, fork] = [results.get(of), results.get(id)];
  if (source === undefined || fork === undefined) return;
  const shared = fork.draws.filter((draw, i) => source.draws[i] === draw).length;
  // A run that was forked before its first turn, or before its first step, shares nothing.
  const isFresh = fork.draws[0] !== source.draws[0];
  if (fork.id !== id) clients.violate("forks", "F1", `${id} is ${fork.id} at its end`);
  if (!isFresh && shared !== before)
    clients.violate("forks", "F2", `${id} has ${shared} draws of ${of}, but was forked after ${before} of them`);
  for (const [i] of fork.draws.entries()) {
    const hasEffect = effects.has(`${id}/s${i}`);
    if (hasEffect !== (isFresh || i >= before))
      clients.violate("forks", "F1", `step ${i} of ${id}, which was forked before step ${before}, had ${hasEffect ? "an" : "no"} effect`);
  }
}

function code(bodies: StepBodies, name: string) {
  return workflow({ name, signals: { n: signal<number>() } }, async (ctx, steps: number): Promise<Result> => {
    const draws: string[] = [];
    const got: number[] = [];
    for (let i = 0; i < steps; i++) {
      draws.push(ctx.uuid());
      const value = await ctx.step(`s${i}`, (info) => bodies.step(info, i), {
        retry: { maxAttempts: 50, initialInterval: 10, maxInterval: 50 },
      });
      if (value !== i) throw new FatalError(`WRONG: ${String(value)}`);
      got.push(await ctx.waitForSignal("n"));
    }
    return { id: ctx.run.id, draws, got };
  });
}
