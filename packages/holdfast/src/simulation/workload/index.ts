// The workloads that come with the simulation: a few scenes, drawn from the seed.
// Owns: which scenes a seed has.
// Invariants: every scene has a name of its own.

import type { Random } from "../random.ts";
import type { Scene } from "../scene.ts";
import { again } from "./again.ts";
import { chain } from "./chain.ts";
import { deploy } from "./deploy.ts";
import { entity } from "./entity.ts";
import { errands } from "./errands.ts";
import { family } from "./family.ts";
import { limits } from "./limits.ts";
import { looper } from "./looper.ts";
import { programs } from "./programs.ts";
import { saga } from "./saga.ts";
import { transfers } from "./transfers.ts";

const MAKERS: Readonly<Record<string, (random: Random, name: string) => Scene>> = {
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
};
export const SCENES = Object.keys(MAKERS);
/** Random programs do everything: they come most often. */
const MIX: readonly string[] = [...SCENES, "programs", "programs", "programs"];

/** One to three scenes of the kinds that are asked for. */
export function drawnScenes(random: Random, kinds: readonly string[] = MIX): Scene[] {
  return Array.from({ length: random.between(1, 3) }, (_, i) => {
    const kind = random.pick(kinds);
    return (MAKERS[kind] as (random: Random, name: string) => Scene)(random, `${kind}${i}`);
  });
}
