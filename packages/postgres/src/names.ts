// Numbers for names: of lanes (queue, workflow, version, priority) and of workers.
// Owns: what has been looked up so far.
// Invariants: a number, once given, stays; it is committed before anything refers to it, so that nobody waits for whoever makes it.

import { text } from "./columns.ts";
import type { Connections } from "./connections.ts";

export interface Lane {
  readonly queue: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly priority: number;
}

const MOST_REMEMBERED = 10_000;

export class Names {
  readonly #connections: Connections;
  readonly #sql: string;
  readonly #lanes = new Map<string, number>();
  readonly #workers = new Map<string, number>();

  constructor(connections: Connections, s: string) {
    this.#connections = connections;
    this.#sql = `SELECT ${s}.register_1($1, $2) AS answer`;
  }

  /** Most calls find all that they need. */
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
    const rows = [...newLanes.values()].map(({ queue, workflow, version, priority }) => ({
      queue: text(queue),
      workflow: text(workflow),
      version: version === undefined ? undefined : text(version),
      priority,
    }));
    const ids = [...newWorkers];
    const [row] = await this.#connections.query<{ answer: string }>(this.#sql, [JSON.stringify(rows), JSON.stringify(ids.map(text))]);
    const answer = JSON.parse(row?.answer ?? "{}") as { lanes: number[] | null; workers: number[] | null };
    for (const [i, key] of [...newLanes.keys()].entries()) this.#lanes.set(key, answer.lanes?.[i] ?? 0);
    for (const [i, id] of ids.entries()) this.#workers.set(id, answer.workers?.[i] ?? 0);
    // What was forgotten to make room may be asked for in this very call.
    await this.know(lanes, workers);
  }
  lane(lane: Lane): number {
    return this.#lanes.get(keyOf(lane)) ?? 0;
  }
  worker(id: string): number {
    return this.#workers.get(id) ?? 0;
  }
}

/** Lengths first: no two lanes have the same. */
function keyOf({ queue, workflow, version, priority }: Lane): string {
  return `${priority},${queue.length},${workflow.length},${queue}${workflow}${version === undefined ? "" : `=${version}`}`;
}
