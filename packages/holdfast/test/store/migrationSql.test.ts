// The SQL of migrations, for people who run it themselves: it makes what opening a store makes.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ask, startServer } from "@holdfast/postgres-server";
import { Holdfast } from "holdfast";
import { migrationSql, openLibrary } from "holdfast/store";
import { expect, test } from "vitest";

test("SQLite: a file that was made by the SQL is a store", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-sql-"));
  const path = join(folder, "app.db");
  const library = openLibrary(path);
  library.exec(await migrationSql(`file:${path}`, { from: 0 }));
  library.close();
  const engine = await Holdfast.open(`file:${path}`);
  expect((await engine.start("order", 1, { id: "a" })).id).toBe("a");
  await engine.close();
  expect(await migrationSql(`file:${path}`, { from: 1 })).toBe("");
  rmSync(folder, { recursive: true });
});

test("Postgres: a schema that was made by the SQL is a store, with the objects that opening makes", async () => {
  const server = await startServer();
  try {
    const objects = `SELECT n.nspname || '.' || p.proname AS name, md5(p.prosrc) AS text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      WHERE n.nspname LIKE 'holdfast%' UNION ALL SELECT schemaname || '.' || indexname, md5(indexdef) FROM pg_indexes WHERE schemaname LIKE 'holdfast%' ORDER BY 1`;
    for (const namespace of ["default", "It-s_2"]) {
      const [opened, printed] = [await server.createDatabase(), await server.createDatabase()];
      await (await Holdfast.open(opened, { namespace })).close();
      await ask(printed, await migrationSql(printed, { namespace, from: 0 }));
      expect(await ask(printed, objects)).toEqual(await ask(opened, objects));
      const engine = await Holdfast.open(printed, { namespace });
      expect((await engine.start("order", 1, { id: "a" })).id).toBe("a");
      await engine.close();
    }
    expect(await migrationSql(server.url(), { from: 1 })).toBe("");
  } finally {
    await server.stop();
  }
});

test("other hosts have no such SQL", async () => {
  await expect(migrationSql("memory:", { from: 0 })).rejects.toMatchObject({ code: "HF_UNSUPPORTED" });
  await expect(migrationSql("temporal://localhost:7233/default", { from: 0 })).rejects.toMatchObject({ code: "HF_UNSUPPORTED" });
});
