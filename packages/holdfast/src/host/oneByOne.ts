// Items that a store gathers by itself.
// Owns: nothing.
// Invariants: D3 (one that has to wait in the store holds up no other).

import type { Store } from "../store/port.ts";

/** For a `Batcher`: handed over as one, they would all be answered with the last. */
export function oneByOne({ gathers }: Store): { readonly atOnce?: number; readonly most?: () => number } {
  return gathers === true ? { atOnce: Number.POSITIVE_INFINITY, most: () => 1 } : {};
}
