// The embedded host keeps the model, on SQLite files, through crashes: a store is dropped unclosed and another opens its file.

import { hostConformance } from "@holdfast/conformance";
import { describe, test } from "vitest";
import { SqliteStore } from "../../src/store/sqlite/store.ts";
import { newPath } from "../sqlite/support.ts";
import { EmbeddedHost } from "./embedded.ts";
import { endLeases } from "./endLeases.ts";
import { LACKS } from "./lacks.ts";

describe("the embedded host on SQLite", () => {
  hostConformance({
    name: "SQLite",
    test: (title, run) => test(title, { timeout: 120_000 }, run),
    lacks: LACKS.SQLite,
    makeHost: ({ activities }) => {
      const path = newPath();
      return EmbeddedHost.open({
        activities,
        // What is written outlives this process whether it is synced or not; power loss is not what this suite is about.
        openStore: (clock) => new SqliteStore(path, { clock, synchronous: "NORMAL" }),
        bury: (_, at) => endLeases(path, at),
      });
    },
  });
});
