// Reads that many callers ask for at once: every open page reads the same lists and counts in answer to the same event.
// Owns: what was read last.
// Invariants: an answer is given to callers that have seen an event only if its read began after that event, or led to it. A caller that names
// no event, after a write of its own for one, never gets what was read before.

import type { RunFilter } from "holdfast";

const KEPT = 50;

export const listKey = (filter: RunFilter): string => `list ${JSON.stringify(filter)}`;
export const countsKey = (filter: RunFilter): string => `counts ${JSON.stringify(filter)}`;

interface Kept {
  /** The event after which it was read. */
  readonly since: number;
  readonly found: Promise<unknown>;
}

export class SharedReads {
  /** The one read longest ago first. */
  readonly #kept = new Map<string, Kept>();

  /** `after`: the event that the caller has seen; `newest`: the newest one. */
  read<T>(key: string, after: number, newest: number, read: () => Promise<T>): Promise<T> {
    const kept = this.#kept.get(key);
    if (kept !== undefined && kept.since >= after) return kept.found as Promise<T>;
    const found = read();
    this.#set(key, { since: newest, found });
    found.catch(() => this.#drop(key, found));
    return found;
  }
  /** What the look that led to the event `since` has read. */
  keep(key: string, since: number, found: unknown): void {
    this.#set(key, { since, found: Promise.resolve(found) });
  }
  clear(): void {
    this.#kept.clear();
  }
  #set(key: string, kept: Kept): void {
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT && oldest !== undefined) this.#kept.delete(oldest);
  }
  #drop(key: string, found: Promise<unknown>): void {
    if (this.#kept.get(key)?.found === found) this.#kept.delete(key);
  }
}
