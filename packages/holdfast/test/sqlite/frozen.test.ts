// Migrations of SQLite files are frozen, as those of PostgreSQL are.
//
// Until the first release, a change of the schema is a change of VERSION_1: bring `frozen/schema.sha256` up to date with
//   npx vitest run packages/holdfast/test/sqlite/frozen.test.ts -u
// After a release never: a migration that was released keeps its text, and what is new goes into the next one, which adds a line here.

import { expect, test } from "vitest";
import { SCHEMA_VERSION, schemaHash } from "../../src/store/sqlite/schema.ts";

test("HF_STORE_SCHEMA the text of every migration is the one that was released", async () => {
  const hashes = Array.from({ length: SCHEMA_VERSION }, (_, i) => `${i + 1} ${schemaHash(i + 1)}\n`);
  await expect(hashes.join("")).toMatchFileSnapshot("frozen/schema.sha256");
});
