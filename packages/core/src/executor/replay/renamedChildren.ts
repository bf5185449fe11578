// Children that a fork has under other ids than the runs that its copied turns come from.
// Owns: which ids name the same child.
// Invariants: F1 (code sees the ids of the fork's own children, also in the copied turns; records there name those of the source), Y2 (such
// records match the commands of the fork).

import type { Turn } from "../../protocol/index.ts";

export class RenamedChildren {
  /** The fork's own id, by every id that names the same child. */
  readonly #own: ReadonlyMap<string, string>;
  /** Longer ids first: one may begin with another. */
  readonly #pattern: RegExp;

  private constructor(own: ReadonlyMap<string, string>) {
    this.#own = own;
    const ids = [...own.keys()].sort((a, b) => b.length - a.length);
    this.#pattern = new RegExp(ids.map((id) => id.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"), "g");
  }
  /** Undefined: no child has another id. */
  static in(turns: readonly Turn[]): RenamedChildren | undefined {
    let own: Map<string, string> | undefined;
    for (const { jobs } of turns) {
      for (const job of jobs) {
        if (job.type !== "childStarted" || job.standsFor === undefined) continue;
        own ??= new Map();
        for (const id of [job.runId, ...job.standsFor]) own.set(id, job.runId);
      }
    }
    return own === undefined ? undefined : new RenamedChildren(own);
  }

  /** A copy of the value in which every id of such a child is the fork's own. Visits plain objects, arrays, maps and sets. */
  unified(value: unknown, visited = new Map<object, unknown>()): unknown {
    if (typeof value === "string") return value.replace(this.#pattern, (id) => this.#own.get(id) ?? id);
    if (typeof value !== "object" || value === null) return value;
    const known = visited.get(value);
    if (known !== undefined) return known;
    const copyOf = (item: unknown): unknown => this.unified(item, visited);
    const visit = <T extends object>(copy: T, fill: (copy: T) => void): T => {
      visited.set(value, copy);
      fill(copy);
      return copy;
    };
    if (Array.isArray(value)) return visit([] as unknown[], (list) => list.push(...value.map(copyOf)));
    if (value instanceof Map)
      return visit(new Map(), (map) => {
        for (const [key, item] of value) map.set(copyOf(key), copyOf(item));
      });
    if (value instanceof Set)
      return visit(new Set(), (set) => {
        for (const item of value) set.add(copyOf(item));
      });
    if (Object.getPrototypeOf(value) !== Object.prototype) return value;
    return visit({} as Record<string, unknown>, (record) => {
      for (const [key, item] of Object.entries(value)) record[key] = copyOf(item);
    });
  }
}
