// The embedded host keeps the model, in memory.

import { describe, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import { hostConformance } from "../../src/testing/index.ts";
import { EmbeddedHost } from "./embedded.ts";
import { LACKS } from "./lacks.ts";

describe("the embedded host in memory", () => {
  hostConformance({
    name: "memory",
    test,
    lacks: LACKS.memory,
    makeHost: ({ activities }) => {
      let store: MemoryStore | undefined; // it lasts as long as the host does
      const openStore = (clock: () => number) => (store ??= new MemoryStore({ clock }));
      return EmbeddedHost.open({ activities, openStore });
    },
  });
});
