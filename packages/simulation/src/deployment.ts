// Collects and validates what the scenarios deploy to one process: workflows, activities and stand-ins.
// Owns: nothing; each call asks all scenarios once, for one process.
// Invariants: a scenario that throws or returns something invalid is an `InvalidInputError` that names the scenario, never a violation by
// the engine.

import { type Activity, type AnyWorkflow, InvalidInputError } from "@holdfast/core";
import { byName, isActivity, isWorkflow, WorkflowTable } from "@holdfast/host";
import { isPlain, reasonOf, shown } from "./options.ts";
import type { Scenario, StandIns } from "./scenario.ts";
import type { StepBodies } from "./stepBodies.ts";

export interface Deployment {
  readonly workflows: readonly AnyWorkflow[];
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  readonly activities: readonly Activity<any, any>[];
  readonly standIns: Required<StandIns>;
  /** Names of workflows whose runs may be blocked for a while. */
  readonly mayBlock: ReadonlySet<string>;
}

const STAND_INS = ["steps", "activities"] as const;

/** `build` is 1 at first; each deploy increases it by one. */
export function deploymentOf(scenarios: readonly Scenario[], bodies: StepBodies, build: number): Deployment {
  const standIns = { steps: {}, activities: {} };
  const mayBlock = new Set<string>();
  const workflows: AnyWorkflow[] = [];
  const activities: Activity<unknown, unknown>[] = [];
  for (const scenario of scenarios) {
    const code = asked(scenario, "workflows", () => listed("workflows", scenario.workflows(bodies, build), isWorkflow));
    workflows.push(...code);
    if (scenario.mayBlock === true) for (const { name } of code) mayBlock.add(name);
    activities.push(...asked(scenario, "activities", () => listed("activities", scenario.activities?.(bodies) ?? [], isActivity)));
    const replaced = asked(scenario, "replace", () => checkedStandIns(scenario.replace?.(bodies) ?? {}));
    for (const kind of STAND_INS) Object.assign(standIns[kind], replaced[kind]);
  }
  new WorkflowTable("workflows of all scenarios", workflows);
  byName("activities of all scenarios", activities, isActivity);
  return { workflows, activities, standIns, mayBlock };
}

function asked<T>({ name }: Scenario, part: string, ask: () => T): T {
  try {
    return ask();
  } catch (error) {
    const isSaid = error instanceof InvalidInputError;
    const why = isSaid ? error.issues.map(({ message }) => message).join("; ") : `It threw ${reasonOf(error)}`;
    throw wrong(`scenario "${name}"`, why, [part], error);
  }
}
function listed<T extends { readonly name: string }>(what: string, given: unknown, is: (value: unknown) => value is T): readonly T[] {
  if (!Array.isArray(given)) throw wrong(what, `Pass a list, not ${shown(given)}.`);
  for (const one of given) if (!is(one)) throw wrong(what, `Give only ${what}, not ${shown(one)}.`);
  return given as readonly T[];
}
function checkedStandIns(given: unknown): StandIns {
  if (!isPlain(given)) throw wrong("replace", `Give { steps, activities }, not ${shown(given)}.`);
  for (const [kind, bodies] of Object.entries(given)) {
    if (!STAND_INS.some((one) => one === kind))
      throw wrong("replace", `Only ${STAND_INS.join(" and ")} can be replaced, not ${shown(kind)}.`);
    if (bodies === undefined) continue;
    if (!isPlain(bodies)) throw wrong("replace", `${kind} must be functions by name, not ${shown(bodies)}.`);
    for (const [name, body] of Object.entries(bodies)) {
      if (typeof body !== "function") throw wrong("replace", `The stand-in for ${shown(name)} must be a function, not ${shown(body)}.`);
    }
  }
  return given as StandIns;
}
function wrong(what: string, message: string, path: readonly string[] = [], cause?: unknown): InvalidInputError {
  return new InvalidInputError({ what, issues: [{ message, path }], cause });
}
