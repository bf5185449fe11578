// What a group of tests registers itself with.
// Owns: nothing.
// Invariants: none.

import type { Bench } from "./bench.ts";
import type { StoreConformanceOptions } from "./index.ts";

export interface Suite extends Pick<StoreConformanceOptions, "refuseBad" | "lock" | "loseAnswer"> {
  test(title: string, run: (bench: Bench) => Promise<void>): void;
  /** The store can be dropped and opened again. */
  readonly crashes: boolean;
  /** Several instances can be open on one storage. */
  readonly shares: boolean;
}
