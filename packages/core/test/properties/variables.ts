// Job: what the units of an interpreted program share: flags and write-once cells.
// Owns: their shape and how they begin.
// Invariants: C6 (a cell is written once), L3 (iterations begin with fresh ones).

import { CELLS, FLAGS } from "./program.ts";
import type { Call } from "./reference.ts";

export interface Cell {
  value: { readonly value: number } | undefined;
  waiters: Call[];
}
export interface Shared {
  readonly flags: number[];
  readonly cells: readonly Cell[];
}

export const fresh = (): Shared => ({
  flags: new Array<number>(FLAGS).fill(0),
  cells: Array.from({ length: CELLS }, () => ({ value: undefined, waiters: [] })),
});
