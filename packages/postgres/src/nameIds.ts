// Numbers for names: of lanes (queue, workflow, version, priority) and of workers.
// Owns: what has been looked up so far.
// Invariants: a number, once given, stays; it is committed before anything refers to it, so that no call waits for the one that makes it.

import type { NewRun, NewTask, TurnCommit } from "holdfast/store";
import { text } from "./columns.ts";
import type { Connections } from "./connection/connections.ts";

export interface Lane {
  readonly queue: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly priority: number;
  /** Which work of the queue is claimed by key from now on. Absent: this is a plain run. */
  readonly kind?: FiledKind | undefined;
}
export type FiledKind = "runs" | "tasks";

/** The lane of a run: with a key it is filed (Q1). */
export function laneOf({
  queue,
  workflow,
  version,
  priority,
  key,
}: Pick<NewRun, "queue" | "workflow" | "version" | "priority" | "key">): Lane {
  return { queue, workflow, version, priority, kind: key === undefined ? undefined : "runs" };
}
/** The lane of an activity that has a key or a priority; undefined: it is a plain one. */
export function taskLaneOf({ queue, activity, key, priority = 0 }: NewTask): Lane | undefined {
  if (key === undefined && priority === 0) return undefined;
  return { queue, workflow: activity, version: undefined, priority, kind: "tasks" };
}
/** All names that a call refers to. `turns` has the first turns of `runs`. */
export function lanesOf(runs: readonly NewRun[], turns: readonly TurnCommit[]): Lane[] {
  const lanes = runs.map(laneOf);
  for (const { children, tasks } of turns) {
    if (children !== undefined) lanes.push(...children.map(laneOf));
    if (tasks !== undefined) lanes.push(...tasks.flatMap((task) => taskLaneOf(task) ?? []));
  }
  return lanes;
}

const MOST_REMEMBERED = 10_000;

export class NameIds {
  readonly #connections: Connections;
  readonly #sql: string;
  readonly #lanes = new Map<string, number>();
  readonly #workers = new Map<string, number>();

  constructor(connections: Connections, s: string) {
    this.#connections = connections;
    this.#sql = `SELECT ${s}.register_1($1, $2) AS answer`;
  }

  /** Most calls find all ids that they need. */
  areKnown(lanes: readonly Lane[], workers: readonly string[]): boolean {
    return lanes.every((lane) => this.#lanes.has(keyOf(lane))) && workers.every((worker) => this.#workers.has(worker));
  }
  /** Looks up what is not known yet. */
  async know(lanes: readonly Lane[], workers: readonly string[]): Promise<void> {
    const newLanes = new Map<string, Lane>();
    for (const lane of lanes) {
      const key = keyOf(lane);
      if (!this.#lanes.has(key)) newLanes.set(key, lane);
    }
    const newWorkers = new Set<string>();
    for (const worker of workers) if (!this.#workers.has(worker)) newWorkers.add(worker);
    if (newLanes.size === 0 && newWorkers.size === 0) return;
    if (this.#lanes.size + newLanes.size > MOST_REMEMBERED) this.#lanes.clear();
    if (this.#workers.size + newWorkers.size > MOST_REMEMBERED) this.#workers.clear();
    const rows = [...newLanes.values()].map(({ queue, workflow, version, priority, kind }) => ({
      queue: text(queue),
      workflow: text(workflow),
      version: version === undefined ? undefined : text(version),
      priority,
      kind,
    }));
    const ids = [...newWorkers];
    const [row] = await this.#connections.query<{ answer: string }>(this.#sql, [JSON.stringify(rows), JSON.stringify(ids.map(text))]);
    const answer = JSON.parse(row?.answer ?? "{}") as { lanes: number[] | null; workers: number[] | null };
    for (const [i, key] of [...newLanes.keys()].entries()) this.#lanes.set(key, answer.lanes?.[i] ?? 0);
    for (const [i, id] of ids.entries()) this.#workers.set(id, answer.workers?.[i] ?? 0);
    // What was forgotten to make room may be asked for in this very call.
    await this.know(lanes, workers);
  }
  /** Negative: it is filed. */
  lane(lane: Lane): number {
    const number = this.#lanes.get(keyOf(lane)) ?? 0;
    return lane.kind === undefined ? number : -number;
  }
  worker(id: string): number {
    return this.#workers.get(id) ?? 0;
  }
}

/** Lengths first: no two lanes have the same. */
function keyOf({ queue, workflow, version, priority, kind }: Lane): string {
  return `${kind ?? ""}${priority},${queue.length},${workflow.length},${queue}${workflow}${version === undefined ? "" : `=${version}`}`;
}
