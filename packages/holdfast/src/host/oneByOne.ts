// Items that a store gathers by itself.
// Owns: nothing.
// Invariants: D3 (one that has to wait in the store holds up no other).

import type { Store } from "../store/port.ts";

/**
 * For a `Batcher`: a store that works elsewhere shares calls between those who ask at the same time, and knows which of them have to wait
 * for somebody's lock there. Handed over as one, they would all be answered with the last.
 */
export function oneByOne({ commitsAtOnce }: Store): { readonly atOnce?: number; readonly most?: () => number } {
  return commitsAtOnce === undefined ? {} : { atOnce: Number.POSITIVE_INFINITY, most: () => 1 };
}
