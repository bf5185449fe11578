// The embedded host keeps the model, in memory.

import { hostConformance } from "@holdfast/conformance";
import type { Store } from "holdfast/store";
import { describe, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import { EmbeddedHost } from "./embedded.ts";
import { LACKS } from "./lacks.ts";

/** In memory a renewal sets the end of a lease, wherever it was. */
async function endLeases(store: Store, at: number): Promise<void> {
  const { runs } = await store.list({ limit: 1_000 });
  const lease = at - (await store.now());
  for (const { id: runId, workerId, epoch } of runs)
    if (workerId !== undefined) await store.renew(workerId, lease, [{ runId, epoch, seen: 0 }]);
}

describe("the embedded host in memory", () => {
  hostConformance({
    name: "memory",
    test,
    lacks: LACKS.memory,
    makeHost: ({ activities }) => {
      let store: MemoryStore | undefined; // it lasts as long as the host does
      const openStore = (clock: () => number) => (store ??= new MemoryStore({ clock }));
      return EmbeddedHost.open({ activities, openStore, bury: endLeases });
    },
  });
});
