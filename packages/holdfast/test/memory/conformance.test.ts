// The memory store keeps the port.

import { describe, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import { storeConformance } from "../../src/testing/index.ts";

describe("MemoryStore", () => {
  storeConformance({ name: "memory", test, makeStore: ({ clock }) => new MemoryStore({ clock }) });
});
