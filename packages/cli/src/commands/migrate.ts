// `holdfast migrate`
// Owns: nothing; the engine migrates when it opens a store.
// Invariants: --check and --print write nothing; --check is 6 if there is no store, or an old one.

import { Holdfast } from "holdfast";
import { migrationSql } from "holdfast/store";
import type { Settings } from "../config/settings.ts";
import { printableUrl } from "../config/url.ts";
import { failed, passed, showChecks } from "./checks.ts";
import { EXIT, unsupported } from "./failures.ts";
import type { Session } from "./session.ts";

interface MigrateOptions {
  readonly check?: true;
  readonly print?: true;
}

export async function migrateStore(session: Session, _args: readonly [], { check, print }: MigrateOptions): Promise<number> {
  const settings = await session.settings();
  if (!/^(file|postgres|postgresql):/.test(settings.url)) {
    throw unsupported("Only stores on SQLite and PostgreSQL have a schema to migrate.", "Name one: --url file:… or postgres://….");
  }
  const where = printableUrl(settings.url);
  if (check !== true && print !== true) {
    const before = await schemaOf(session).catch(() => undefined);
    await session.close();
    await migrate(settings);
    const { found, known } = await schemaOf(session);
    const text = before?.found === known ? `${where} has schema version ${known} already` : `${where} has schema version ${found} now`;
    return showChecks(session, [passed("schema", text)]);
  }
  const { found, known } = await schemaOf(session);
  if (print === true) {
    const sql = await migrationSql(settings.url, {
      from: found,
      ...(settings.namespace !== undefined && { namespace: settings.namespace }),
    });
    const status = found === known ? passed("schema", `${where} has schema version ${known}`) : behind(where, found, known);
    session.show({ json: { ok: found === known, checks: [status], sql }, human: () => (sql === "" ? [] : [sql.trimEnd()]) });
    return EXIT.ok;
  }
  if (found === known) return showChecks(session, [passed("schema", `${where} has schema version ${known}`)]);
  return showChecks(session, [behind(where, found, known)]);
}

function behind(where: string, found: number, known: number) {
  const text = found === 0 ? `There is no store at ${where}` : `${where} has schema version ${found}, this Holdfast needs ${known}`;
  return failed("schema", text, "Run: holdfast migrate");
}

/** 0: there is no store. */
async function schemaOf(session: Session): Promise<{ found: number; known: number }> {
  const client = await session.reader();
  const { store, schema } = await client.call("health");
  return { found: store.exists ? (schema?.found ?? 0) : 0, known: schema?.known ?? 1 };
}

async function migrate({ url, namespace, codec }: Settings): Promise<void> {
  const engine = await Holdfast.open(url, { ...(namespace !== undefined && { namespace }), ...(codec !== undefined && { codec }) });
  await engine.close();
}
