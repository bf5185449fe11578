// Loads entries in this process, which belongs to the user's code.
// Owns: nothing between calls.
// Invariants: what is found among the exports is served, everything else is left alone; an error names file and line.

import { pathToFileURL } from "node:url";
import type { Activity, AnyWorkflow } from "@holdfast/core";
import { isActivity, isWorkflow, WorkflowTable } from "@holdfast/host";
import { placeOf, shownPath } from "../hook/index.ts";

export interface LoadedCode {
  readonly workflows: WorkflowTable;
  readonly activities: readonly Activity<unknown, unknown>[];
}

/** The code can't be used as it is. The message is complete. */
export class LoadError extends Error {
  override readonly name = "LoadError";
}

export async function loadEntries(files: readonly string[], cwd: string): Promise<LoadedCode> {
  const workflows: AnyWorkflow[] = [];
  const activities = new Map<string, Activity<unknown, unknown>>();
  for (const file of files) {
    const exports = await exportsOf(file, cwd);
    for (const value of exports) {
      if (isWorkflow(value)) workflows.push(value);
      else if (isActivity(value)) addActivity(activities, value, shownPath(file, cwd));
    }
  }
  const [first = ""] = files;
  if (workflows.length === 0 && activities.size === 0) {
    const where = files.length > 1 ? `${files.length} files, the first is ${shownPath(first, cwd)}:1` : `${shownPath(first, cwd)}:1`;
    throw new LoadError(`No workflows found (${where}): export what workflow(name, run) returns.`);
  }
  try {
    return { workflows: new WorkflowTable("entry", workflows), activities: [...activities.values()] };
  } catch (cause) {
    const place = `${shownPath(files.at(-1) ?? first, cwd)}:1`;
    throw new LoadError(`${place}: ${(cause as Error).message}`, { cause });
  }
}

async function exportsOf(file: string, cwd: string): Promise<unknown[]> {
  try {
    return Object.values(await import(pathToFileURL(file).href));
  } catch (cause) {
    const { place, message } = placeOf(cause, file, cwd);
    throw new LoadError(`${place}: ${message}`, { cause });
  }
}
function addActivity(activities: Map<string, Activity<unknown, unknown>>, activity: Activity<unknown, unknown>, file: string): void {
  const known = activities.get(activity.name);
  if (known !== undefined && known !== activity)
    throw new LoadError(`${file}:1: There are two activities "${activity.name}". Give each its own name, or remove one.`);
  activities.set(activity.name, activity);
}
