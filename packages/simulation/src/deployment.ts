// What the scenes give to one process: workflows, activities and stand-ins, held against what they should be.
// Owns: nothing; one look at all scenes for one process.
// Invariants: a scene that throws or gives something else than it should is an `InvalidInputError` that names the scene: it is not the
// engine that is blamed for it.

import { type Activity, type AnyWorkflow, InvalidInputError } from "@holdfast/core";
import { byName, isActivity, isWorkflow, WorkflowTable } from "@holdfast/host";
import { isPlain, reasonOf, shown } from "./options.ts";
import type { Scene, StandIns } from "./scenario.ts";
import type { Hands } from "./stepBodies.ts";

export interface Cast {
  readonly workflows: readonly AnyWorkflow[];
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  readonly activities: readonly Activity<any, any>[];
  readonly standIns: Required<StandIns>;
  /** Names of workflows whose runs may be blocked for a while. */
  readonly mayBlock: ReadonlySet<string>;
}

const STAND_INS = ["steps", "activities"] as const;

/** `build` grows with deploys. */
export function castOf(scenes: readonly Scene[], hands: Hands, build: number): Cast {
  const standIns = { steps: {}, activities: {} };
  const mayBlock = new Set<string>();
  const workflows: AnyWorkflow[] = [];
  const activities: Activity<unknown, unknown>[] = [];
  for (const scene of scenes) {
    const code = asked(scene, "workflows", () => listed("workflows", scene.workflows(hands, build), isWorkflow));
    workflows.push(...code);
    if (scene.mayBlock === true) for (const { name } of code) mayBlock.add(name);
    activities.push(...asked(scene, "activities", () => listed("activities", scene.activities?.(hands) ?? [], isActivity)));
    const replaced = asked(scene, "replace", () => checkedStandIns(scene.replace?.(hands) ?? {}));
    for (const kind of STAND_INS) Object.assign(standIns[kind], replaced[kind]);
  }
  new WorkflowTable("workflows of all scenes", workflows);
  byName("activities of all scenes", activities, isActivity);
  return { workflows, activities, standIns, mayBlock };
}

function asked<T>({ name }: Scene, part: string, ask: () => T): T {
  try {
    return ask();
  } catch (error) {
    const isSaid = error instanceof InvalidInputError;
    const why = isSaid ? error.issues.map(({ message }) => message).join("; ") : `It threw ${reasonOf(error)}`;
    throw wrong(`scene "${name}"`, why, [part], error);
  }
}
function listed<T extends { readonly name: string }>(what: string, given: unknown, is: (value: unknown) => value is T): readonly T[] {
  if (!Array.isArray(given)) throw wrong(what, `Give a list, not ${shown(given)}.`);
  for (const one of given) if (!is(one)) throw wrong(what, `${shown(one)} is none.`);
  return given as readonly T[];
}
function checkedStandIns(given: unknown): StandIns {
  if (!isPlain(given)) throw wrong("replace", `Give { steps, activities }, not ${shown(given)}.`);
  for (const [kind, bodies] of Object.entries(given)) {
    if (!STAND_INS.some((one) => one === kind)) throw wrong("replace", `There is no ${shown(kind)}, there is ${STAND_INS.join(", ")}.`);
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
