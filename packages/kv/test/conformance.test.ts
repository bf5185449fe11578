// The key-value host keeps the model, with namespaces in memory.

import { hostConformance } from "@holdfast/conformance";
import { describe, test } from "vitest";
import { KvHost, LACKS } from "./host.ts";

describe("KvHost", () => {
  hostConformance({ name: "key-value", test, makeHost: ({ activities }) => new KvHost({ activities }), lacks: LACKS });
});
