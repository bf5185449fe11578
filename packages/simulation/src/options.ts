// What a simulation is told, held against what there is.
// Owns: nothing; the checks of the options and of the scenes.
// Invariants: an option that would be passed over in silence, or leave nothing to simulate, is an `InvalidInputError` that names what there
// is instead.

import { InvalidInputError } from "@holdfast/core";
import { FAULT_KINDS } from "./faults.ts";
import type { Random } from "./random.ts";
import type { Scene } from "./scenario.ts";
import type { SimulationOptions } from "./simulation.ts";

const STORES = ["memory", "sqlite"];
const OPTIONS = ["seed", "scenes", "store", "without", "faults", "workers", "only", "storm", "disasters"];
/** Of many seeds. */
const EXPLORATION = ["seeds", "from", ...OPTIONS.slice(1)];

interface Issue {
  readonly message: string;
  readonly path: readonly string[];
}

export function checkOptions(options: SimulationOptions): void {
  checkNames(options, OPTIONS);
  const issues: Issue[] = [];
  const { seed, scenes, store, only } = options;
  if (!Number.isSafeInteger(seed)) issues.push(issue("seed", `must be a whole number, not ${shown(seed)}.`));
  if (typeof scenes !== "function") issues.push(issue("scenes", "must be a function that gives the scenes of a seed."));
  if (store !== undefined && !STORES.includes(store))
    issues.push(issue("store", `must be one of ${STORES.join(", ")}, not ${shown(store)}.`));
  if (only !== undefined && !(Array.isArray(only) && only.length > 0 && only.every(isCount)))
    issues.push(issue("only", "must be places of scenes, from 0 on, one at least."));
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

/** The scenes of a seed, as far as they are asked for. */
export function drawScenes({ scenes, only, seed }: SimulationOptions, random: Random): readonly Scene[] {
  const all = given(scenes, random);
  checkScenes(all);
  const missing = (only ?? []).find((place) => place >= all.length);
  if (missing !== undefined)
    refuse([issue("only", `has place ${missing}, and seed ${seed} has no scene there: the last is at ${all.length - 1}.`)]);
  return only === undefined ? all : all.filter((_, i) => only.includes(i));
}
function given(scenes: SimulationOptions["scenes"], random: Random): readonly Scene[] {
  try {
    return scenes(random);
  } catch (error) {
    throw refusal([issue("scenes", `threw ${reasonOf(error)}`)], error);
  }
}
function checkScenes(scenes: readonly Scene[]): void {
  if (!Array.isArray(scenes)) return refuse([issue("scenes", `must give a list of scenes, not ${shown(scenes)}.`)]);
  const issues: Issue[] = [];
  if (scenes.length === 0) issues.push(issue("scenes", "gave no scene: there is nothing to simulate."));
  for (const [i, scene] of scenes.entries()) issues.push(...sceneIssues(scene, `scenes[${i}]`));
  refuse(issues);
  const names = scenes.map(({ name }) => name);
  for (const name of new Set(names.filter((one, i) => names.indexOf(one) !== i)))
    issues.push(issue("scenes", `gave two scenes of the name "${name}": each needs one of its own.`));
  refuse(issues);
}
function sceneIssues(scene: unknown, place: string): Issue[] {
  if (!isPlain(scene)) return [issue(place, `must be a scene: { name, workflows, play }, not ${shown(scene)}.`)];
  const values = scene as Readonly<Record<string, unknown>>;
  const issues: Issue[] = [];
  const { name } = values;
  if (typeof name !== "string" || name === "") issues.push(issue(`${place}.name`, `must be text, not ${shown(name)}.`));
  const expect = (field: string, type: "function" | "boolean", isNeeded: boolean): void => {
    const value = values[field];
    if (typeof value !== type && (isNeeded || value !== undefined))
      issues.push(issue(`${place}.${field}`, `must be a ${type}, not ${shown(value)}.`));
  };
  for (const field of ["workflows", "play"]) expect(field, "function", true);
  for (const field of ["activities", "replace", "verify"]) expect(field, "function", false);
  for (const field of ["mayBlock", "needsBuilds"]) expect(field, "boolean", false);
  return issues;
}
/** A scene that is not waited for would be over before it has begun. */
export function checkPlayed({ name }: Scene, played: unknown): void {
  if (!(typeof played === "object" && played !== null && "then" in played))
    refuse([issue(`scene "${name}"`, `must have a play that is async: it gave ${shown(played)}, and nobody could wait for it.`)]);
}

/** How many seeds, and from where; the rest is checked with each. */
export function checkExploration(exploration: { readonly seeds: number; readonly from?: number }): void {
  checkNames(exploration, EXPLORATION);
  const issues: Issue[] = [];
  const { seeds, from = 1 } = exploration;
  if (!(isCount(seeds) && seeds > 0)) issues.push(issue("seeds", `must be a whole number from 1 on, not ${shown(seeds)}.`));
  if (!Number.isSafeInteger(from)) issues.push(issue("from", `must be a whole number, not ${shown(from)}.`));
  refuse(issues);
}
function checkNames(options: unknown, known: readonly string[]): void {
  if (!isPlain(options)) return refuse([{ message: `Give an object with ${known.join(", ")}, not ${shown(options)}.`, path: [] }]);
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  refuse(unknown.map((name) => issue(name, `is no option. There is ${known.join(", ")}.`)));
}

function refuse(issues: readonly Issue[]): void {
  if (issues.length > 0) throw refusal(issues);
}
function refusal(issues: readonly Issue[], cause?: unknown): InvalidInputError {
  return new InvalidInputError({ what: "options of the simulation", issues, cause });
}
function issue(name: string, what: string): Issue {
  return { message: `${name} ${what}`, path: [name] };
}
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
export function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
function isKind(kind: unknown): boolean {
  return FAULT_KINDS.some((one) => one === kind);
}
function unknownKind(kind: unknown): string {
  return `has no kind ${shown(kind)}. There is ${FAULT_KINDS.join(", ")}.`;
}
export function shown(value: unknown): string {
  if (typeof value === "string") return `"${value}"`;
  if (typeof value === "function") return "a function";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
/** What was thrown, for a message. */
export function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : shown(thrown);
}
