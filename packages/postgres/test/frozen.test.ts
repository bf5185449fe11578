// Migrations are frozen: a database that an earlier version has made is brought up to date by what comes after, never by another text.
//
// Until the first release, a change of the schema is a change of src/sql/001/*.sql: `npm run sql` brings `frozen/schema.sha256` up to date.
// After a release never: a migration that was released keeps its text, and what is new goes into the next one (src/sql/002), which adds a
// line here. The words of errors are not part of it: see src/sql/errorTexts.ts.

import { expect, test } from "vitest";
import { migrationHash, SCHEMA_VERSION } from "../src/schema/migrate.ts";

test("HF_STORE_SCHEMA the text of every migration is the one that was released", async () => {
  const hashes = Array.from({ length: SCHEMA_VERSION }, (_, i) => `${i + 1} ${migrationHash(i + 1)}\n`);
  await expect(hashes.join("")).toMatchFileSnapshot("frozen/schema.sha256");
});
