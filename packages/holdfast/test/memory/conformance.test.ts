// The memory store keeps the port.

import { storeConformance } from "@holdfast/conformance";
import { describe, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";

describe("MemoryStore", () => {
  storeConformance({ name: "memory", test, hasQueues: true, makeStore: ({ clock }) => new MemoryStore({ clock }) });
});
