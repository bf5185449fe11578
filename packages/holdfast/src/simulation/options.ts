// What a simulation is told, held against what there is.
// Owns: nothing; the checks of the options.
// Invariants: an option that would be passed over in silence is an `InvalidInputError` that names what there is instead.

import { InvalidInputError } from "@holdfast/core";
import { FAULT_KINDS } from "./faults.ts";
import type { Scene } from "./scene.ts";
import type { SimulationOptions } from "./simulation.ts";

const STORES = ["memory", "sqlite"];

interface Issue {
  readonly message: string;
  readonly path: readonly string[];
}

export function checkOptions(options: SimulationOptions): void {
  const issues: Issue[] = [];
  const { seed, scenes, store, only } = options;
  if (!Number.isSafeInteger(seed)) issues.push(issue("seed", `must be a whole number, not ${shown(seed)}.`));
  if (typeof scenes !== "function") issues.push(issue("scenes", "must be a function that gives the scenes of a seed."));
  if (store !== undefined && !STORES.includes(store))
    issues.push(issue("store", `must be one of ${STORES.join(", ")}, not ${shown(store)}.`));
  if (only !== undefined && !(Array.isArray(only) && only.every(isCount)))
    issues.push(issue("only", "must be places of scenes, from 0 on."));
  for (const name of ["workers", "storm", "disasters"] as const) {
    const value = options[name];
    const least = name === "workers" ? 1 : 0;
    if (value !== undefined && !(isCount(value) && value >= least))
      issues.push(issue(name, `must be a whole number from ${least} on, not ${shown(value)}.`));
  }
  if (options.without !== undefined && !Array.isArray(options.without)) issues.push(issue("without", "must be a list of kinds of faults."));
  else for (const kind of options.without ?? []) if (!isKind(kind)) issues.push(issue("without", unknownKind(kind)));
  if (options.faults !== undefined && !isPlain(options.faults)) issues.push(issue("faults", "must be rates by kind of fault."));
  else
    for (const [kind, rate] of Object.entries(options.faults ?? {})) {
      if (!isKind(kind)) issues.push(issue("faults", unknownKind(kind)));
      else if (typeof rate !== "number" || !(rate >= 0 && rate <= 1))
        issues.push(issue("faults", `${kind} must be a rate from 0 to 1, not ${shown(rate)}.`));
    }
  refuse(issues);
}

export function checkScenes(scenes: readonly Scene[]): void {
  if (!Array.isArray(scenes)) return refuse([issue("scenes", `must give a list of scenes, not ${shown(scenes)}.`)]);
  const issues: Issue[] = [];
  if (scenes.length === 0) issues.push(issue("scenes", "gave no scene: there is nothing to simulate."));
  const names = scenes.map(({ name }) => name);
  for (const name of new Set(names.filter((one, i) => names.indexOf(one) !== i)))
    issues.push(issue("scenes", `gave two scenes of the name "${name}": each needs one of its own.`));
  refuse(issues);
}

/** How many seeds, and from where. */
export function checkSeeds(seeds: number, from: number): void {
  const issues: Issue[] = [];
  if (!(isCount(seeds) && seeds > 0)) issues.push(issue("seeds", `must be a whole number from 1 on, not ${shown(seeds)}.`));
  if (!Number.isSafeInteger(from)) issues.push(issue("from", `must be a whole number, not ${shown(from)}.`));
  refuse(issues);
}

function refuse(issues: readonly Issue[]): void {
  if (issues.length > 0) throw new InvalidInputError({ what: "options of the simulation", issues });
}
function issue(name: string, what: string): Issue {
  return { message: `${name} ${what}`, path: [name] };
}
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
function isPlain(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
function isKind(kind: unknown): boolean {
  return FAULT_KINDS.some((one) => one === kind);
}
function unknownKind(kind: unknown): string {
  return `has no kind ${shown(kind)}. There is ${FAULT_KINDS.join(", ")}.`;
}
function shown(value: unknown): string {
  return typeof value === "string" ? `"${value}"` : typeof value === "object" && value !== null ? "an object" : String(value);
}
