// Validates the options and the scenarios of a simulation.
// Owns: nothing; each function checks what it is given.
// Invariants: an option that would be ignored, or that leaves nothing to simulate, is an `InvalidInputError` that lists the valid values.

import { InvalidInputError } from "@holdfast/core";
import { FAULT_KINDS } from "./faults.ts";
import type { Random } from "./random.ts";
import type { Scenario } from "./scenario.ts";
import type { SimulationOptions } from "./simulation.ts";

const STORES = ["memory", "sqlite"];
const OPTIONS = ["seed", "scenarios", "store", "without", "faults", "workers", "only", "storm", "disasters"];
/** The options of `explore`. */
const EXPLORATION = ["seeds", "from", ...OPTIONS.slice(1)];

interface Issue {
  readonly message: string;
  readonly path: readonly string[];
}

export function checkOptions(options: SimulationOptions): void {
  checkNames(options, OPTIONS);
  const issues: Issue[] = [];
  const { seed, scenarios, store, only } = options;
  if (!Number.isSafeInteger(seed)) issues.push(issue("seed", `must be a whole number, not ${shown(seed)}.`));
  if (typeof scenarios !== "function") issues.push(issue("scenarios", "must be a function that returns the scenarios of a seed."));
  if (store !== undefined && !STORES.includes(store))
    issues.push(issue("store", `must be one of ${STORES.join(", ")}, not ${shown(store)}.`));
  if (only !== undefined && !(Array.isArray(only) && only.length > 0 && only.every(isCount)))
    issues.push(issue("only", "must be a list of scenario indexes, with at least one."));
  for (const name of ["workers", "storm", "disasters"] as const) {
    const value = options[name];
    const least = name === "workers" ? 1 : 0;
    if (value !== undefined && !(isCount(value) && value >= least))
      issues.push(issue(name, `must be a whole number of at least ${least}, not ${shown(value)}.`));
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

/** The scenarios of a seed; with `only`, the selected ones. */
export function drawScenarios({ scenarios, only, seed }: SimulationOptions, random: Random): readonly Scenario[] {
  const all = given(scenarios, random);
  checkScenarios(all);
  const missing = (only ?? []).find((place) => place >= all.length);
  if (missing !== undefined)
    refuse([issue("only", `has index ${missing}, but the last scenario of seed ${seed} has index ${all.length - 1}.`)]);
  return only === undefined ? all : all.filter((_, i) => only.includes(i));
}
function given(scenarios: SimulationOptions["scenarios"], random: Random): readonly Scenario[] {
  try {
    return scenarios(random);
  } catch (error) {
    throw refusal([issue("scenarios", `threw ${reasonOf(error)}`)], error);
  }
}
function checkScenarios(scenarios: readonly Scenario[]): void {
  if (!Array.isArray(scenarios)) return refuse([issue("scenarios", `must return a list of scenarios, not ${shown(scenarios)}.`)]);
  const issues: Issue[] = [];
  if (scenarios.length === 0) issues.push(issue("scenarios", "returned no scenario: there is nothing to simulate."));
  for (const [i, scenario] of scenarios.entries()) issues.push(...scenarioIssues(scenario, `scenarios[${i}]`));
  refuse(issues);
  const names = scenarios.map(({ name }) => name);
  for (const name of new Set(names.filter((one, i) => names.indexOf(one) !== i)))
    issues.push(issue("scenarios", `returned two scenarios named "${name}": each needs its own name.`));
  refuse(issues);
}
function scenarioIssues(scenario: unknown, place: string): Issue[] {
  if (!isPlain(scenario)) return [issue(place, `must be a scenario: { name, workflows, play }, not ${shown(scenario)}.`)];
  const values = scenario as Readonly<Record<string, unknown>>;
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
  const { queue } = values;
  if (queue !== undefined && (typeof queue !== "string" || queue === ""))
    issues.push(issue(`${place}.queue`, `must be text, not ${shown(queue)}.`));
  return issues;
}
/** A `play` that returns no promise would count as over before it has begun. */
export function checkPlayed({ name }: Scenario, played: unknown): void {
  if (!(typeof played === "object" && played !== null && "then" in played))
    refuse([issue(`scenario "${name}"`, `must have an async play: it returned ${shown(played)}, which is not a promise.`)]);
}

/** Checks the number of seeds and the first one; `simulate` checks the other options. */
export function checkExploration(exploration: { readonly seeds: number; readonly from?: number }): void {
  checkNames(exploration, EXPLORATION);
  const issues: Issue[] = [];
  const { seeds, from = 1 } = exploration;
  if (!(isCount(seeds) && seeds > 0)) issues.push(issue("seeds", `must be a whole number of at least 1, not ${shown(seeds)}.`));
  if (!Number.isSafeInteger(from)) issues.push(issue("from", `must be a whole number, not ${shown(from)}.`));
  refuse(issues);
}
function checkNames(options: unknown, known: readonly string[]): void {
  if (!isPlain(options)) return refuse([{ message: `Pass an object with ${known.join(", ")}, not ${shown(options)}.`, path: [] }]);
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  refuse(unknown.map((name) => issue(name, `is not an option. Known options: ${known.join(", ")}.`)));
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
  return `has an unknown kind of fault, ${shown(kind)}. Known kinds: ${FAULT_KINDS.join(", ")}.`;
}
export function shown(value: unknown): string {
  if (typeof value === "string") return `"${value}"`;
  if (typeof value === "function") return "a function";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
/** Describes a thrown value for a message. */
export function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : shown(thrown);
}
