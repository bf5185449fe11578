// The workloads of this package: draws a few scenarios from the seed.
// Owns: which scenarios a seed has.
// Invariants: every scenario of a world has a unique name.

import type { Random } from "../random.ts";
import type { Scenario } from "../scenario.ts";
import { again } from "./again.ts";
import { chain } from "./chain.ts";
import { clockwork } from "./clockwork.ts";
import { crossing } from "./crossing.ts";
import { deploy } from "./deploy.ts";
import { drains } from "./drains.ts";
import { entity } from "./entity.ts";
import { errands } from "./errands.ts";
import { family } from "./family.ts";
import { forks } from "./forks.ts";
import { limits } from "./limits.ts";
import { looper } from "./looper.ts";
import { namesakes } from "./namesakes.ts";
import { patience } from "./patience.ts";
import { programs } from "./programs.ts";
import { queues } from "./queues.ts";
import { relay } from "./relay.ts";
import { rush } from "./rush.ts";
import { saga } from "./saga.ts";
import { transfers } from "./transfers.ts";
import { trials } from "./trials.ts";

const MAKERS: Readonly<Record<string, (random: Random, name: string) => Scenario>> = {
  saga,
  entity,
  chain,
  looper,
  family,
  limits,
  deploy,
  again,
  errands,
  programs,
  transfers,
  crossing,
  rush,
  relay,
  trials,
  drains,
  patience,
  namesakes,
  clockwork,
  forks,
  queues,
};
/** The names of all scenarios. */
export const SCENARIOS = Object.keys(MAKERS);
/** Kinds outside of the usual mix: each is added with its own probability, except for `rush`, which only `kinds` selects. */
const APART: readonly string[] = ["crossing", "rush", "relay", "trials", "drains", "patience", "namesakes", "clockwork", "forks", "queues"];
const MIX: readonly string[] = [...SCENARIOS.filter((kind) => !APART.includes(kind)), "programs", "programs", "programs"];
/** The probabilities with which a world has one of these in addition to its mix. */
const CROSSINGS = 0.15;
const RELAYS = 0.15;
const TRIALS = 0.2;
const DRAINS = 0.2;
const PATIENCE = 0.1;
const NAMESAKES = 0.1;
const CLOCKWORKS = 0.15;
const FORKS = 0.15;
const QUEUES = 0.15;

/** One to three scenarios of the given kinds; by default of the usual mix, in which random programs are the most frequent. */
export function drawnScenarios(random: Random, kinds?: readonly string[]): Scenario[] {
  const scenarios = Array.from({ length: random.between(1, 3) }, (_, i) => {
    const kind = random.pick(kinds ?? MIX);
    return (MAKERS[kind] as (random: Random, name: string) => Scenario)(random, `${kind}${i}`);
  });
  if (kinds !== undefined) return scenarios;
  if (random.chance(CROSSINGS)) scenarios.push(crossing(random, `crossing${scenarios.length}`));
  if (random.chance(RELAYS)) scenarios.push(relay(random, `relay${scenarios.length}`));
  if (random.chance(TRIALS)) scenarios.push(trials(random, `trials${scenarios.length}`));
  if (random.chance(DRAINS)) scenarios.push(drains(random, `drains${scenarios.length}`));
  if (random.chance(PATIENCE)) scenarios.push(patience(random, `patience${scenarios.length}`));
  if (random.chance(NAMESAKES)) scenarios.push(namesakes(random, `namesakes${scenarios.length}`));
  if (random.chance(CLOCKWORKS)) scenarios.push(clockwork(random, `clockwork${scenarios.length}`));
  if (random.chance(FORKS)) scenarios.push(forks(random, `forks${scenarios.length}`));
  if (random.chance(QUEUES)) scenarios.push(queues(random, `queues${scenarios.length}`));
  return scenarios;
}
