// The embedded host keeps the model, on SQLite files, through crashes: a store is dropped unclosed and another opens its file.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, test } from "vitest";
import { SqliteStore } from "../../src/store/sqlite/store.ts";
import { hostConformance } from "../../src/testing/index.ts";
import { EmbeddedHost } from "./embedded.ts";
import { LACKS } from "./lacks.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-hosts-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

describe("the embedded host on SQLite", () => {
  hostConformance({
    name: "SQLite",
    test: (title, run) => test(title, { timeout: 120_000 }, run),
    lacks: LACKS.SQLite,
    makeHost: ({ activities }) => {
      const path = join(folder, `${++files}.db`);
      // What is written outlives this process whether it is synced or not; power loss is not what this suite is about.
      return EmbeddedHost.open({ activities, openStore: (clock) => new SqliteStore(path, { clock, synchronous: "NORMAL" }) });
    },
  });
});
