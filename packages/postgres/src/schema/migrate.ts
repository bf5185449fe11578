// How a database gets its schema, and its next version.
// Owns: the versions, the lock under which they are made, and what a database must allow.
// Invariants: a newer version, and one that was made by another text, are left as they are; migrations are all or nothing and made by one
// process, however many open at the same time; functions that an older version calls stay: functions have a number, and a new behaviour gets the
// next.

import { createHash } from "node:crypto";
import { StoreError, StoreSchemaError, StoreVersionError } from "holdfast/store";
import { escapeIdentifier } from "pg";
import type { Session } from "../connection/connections.ts";
import { optionsOf } from "../options.ts";
import { VERSION_1 } from "../sql/001.ts";
import { errorTexts } from "../sql/errorTexts.ts";
import { literal } from "../sql/fragments.ts";

/** Each is written for the schema `holdfast`. */
const MIGRATIONS: readonly string[] = [VERSION_1];
export const SCHEMA_VERSION: number = MIGRATIONS.length;

/** `s` is the schema, quoted. */
function installed(migration: string, s: string): string {
  return migration.replaceAll("holdfast.", `${s}.`);
}

/** Of the text of a migration. */
export function migrationHash(version: number): string {
  return sha256(MIGRATIONS[version - 1] ?? "");
}
const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
/** In messages. */
const shown = (hash: string): string => hash.slice(0, 12);

export interface Place {
  /** The schema's name, as it is and quoted. */
  readonly schema: string;
  readonly s: string;
  /** For messages: the server, the database and the schema. */
  readonly where: string;
}

export async function migrate(session: Session, place: Place): Promise<void> {
  const { schema, s, where } = place;
  if ((await versionOf(session, place)) === SCHEMA_VERSION) return checkObjects(session, place);
  await session.ask("BEGIN ISOLATION LEVEL READ COMMITTED"); // after the wait for the lock it has to see what other processes have made
  try {
    await session.ask(`SELECT pg_advisory_xact_lock(hashtextextended(${literal(`holdfast migrations of ${schema}`)}, 0))`);
    const found = await versionOf(session, place);
    if (found === 0) await refuseForeign(session, place);
    if (found < SCHEMA_VERSION) {
      const { rows } = await session.ask("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema]);
      if (rows.length === 0) await session.ask(`CREATE SCHEMA ${s}`);
      await session.ask(versionTable(s));
      await session.ask(errorTexts(s));
      for (const [i, migration] of MIGRATIONS.entries()) {
        if (i < found) continue;
        await session.ask(installed(migration, s));
        await session.ask(`INSERT INTO ${s}.migrations (version, hash) VALUES ($1, $2)`, [i + 1, migrationHash(i + 1)]);
      }
    }
    await session.ask("COMMIT");
  } catch (error) {
    await session.ask("ROLLBACK").catch(() => undefined);
    throw refused(error, where);
  }
}

function versionTable(s: string): string {
  return `CREATE TABLE IF NOT EXISTS ${s}.migrations (version integer PRIMARY KEY, hash text NOT NULL, made_at timestamptz NOT NULL DEFAULT now())`;
}

/** What `migrate` does to a schema of the version `from` (0: it has none) in `namespace`, for people who run it themselves. */
export function migrationStatements(url: string, { namespace, from }: { readonly namespace?: string; readonly from: number }): string {
  if (from >= SCHEMA_VERSION) return "";
  const { schema = "holdfast" } = optionsOf(url, { namespace });
  const s = escapeIdentifier(schema);
  const versions = MIGRATIONS.slice(from).flatMap((migration, i) => [
    installed(migration, s),
    `INSERT INTO ${s}.migrations (version, hash) VALUES (${from + i + 1}, ${literal(migrationHash(from + i + 1))})`,
  ]);
  return [`CREATE SCHEMA IF NOT EXISTS ${s}`, versionTable(s), errorTexts(s), ...versions]
    .map((one) => `${one.trim().replace(/;$/, "")};\n`)
    .join("\n");
}

/** 0: no version is installed. Refuses a newer one, and one that was made by another text. */
export async function versionOf(session: Session, { schema, s, where }: Place): Promise<number> {
  // Not to_regclass: it may answer from before the lock was waited for.
  const { rows } = await session.ask("SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'migrations'", [schema]);
  if (rows.length === 0) return 0;
  const { rows: made } = await session.ask<{ version: number; hash?: string }>(`SELECT * FROM ${s}.migrations ORDER BY version`);
  const found = made.at(-1)?.version ?? 0;
  if (found > SCHEMA_VERSION) throw new StoreVersionError({ where, found, known: SCHEMA_VERSION });
  for (const { version, hash } of made) {
    const expected = migrationHash(version);
    if (hash !== expected)
      throw otherSchema(schema, { where, version, found: hash === undefined ? "none" : shown(hash), expected: shown(expected) });
  }
  return found;
}

/** What is called and written to is there, as it was made: a dump may have been restored in part, or something changed by hand. */
async function checkObjects(session: Session, { schema, s, where }: Place): Promise<void> {
  const { rows } = await session.ask<{ found: string }>(
    `SELECT p.proname || ' ' || encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex') AS found
       FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1
     UNION ALL SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped WHERE n.nspname = $1 AND c.relkind IN ('r', 'v')`,
    [schema],
  );
  const there = new Set(rows.map(({ found }) => found));
  const functions = [...functionsOf(s)].filter(([name, body]) => !there.has(`${name} ${sha256(body)}`)).map(([name]) => name);
  const columns = [...columnsOf()].filter((column) => !there.has(column));
  if (functions.length + columns.length === 0) return;
  const other = [listed(functions, "other functions, or none, of the names"), listed(columns, "none of the columns")];
  throw otherSchema(schema, { where, version: SCHEMA_VERSION, found: other.filter((one) => one !== "").join("; "), expected: "its own" });
}
const MOST_NAMED = 3;

function listed(names: readonly string[], what: string): string {
  if (names.length === 0) return "";
  return `${what} ${names.slice(0, MOST_NAMED).join(", ")}${names.length > MOST_NAMED ? `, … (${names.length})` : ""}`;
}

/** Their bodies by name, as the server keeps them; of several migrations the last. */
function functionsOf(s: string): Map<string, string> {
  const text = MIGRATIONS.map((migration) => installed(migration, s)).join("\n");
  return new Map(
    Array.from(text.matchAll(/^CREATE FUNCTION [^(]+\.(\w+)\([\s\S]*?\$\$([\s\S]*?)\$\$/gm), ([, name = "", body = ""]) => [name, body]),
  );
}
/** As `table.column`, of the tables that migrations make. */
export function columnsOf(): Set<string> {
  const tables = MIGRATIONS.join("\n").matchAll(/^CREATE TABLE holdfast\.(\w+) \(([\s\S]*?)\)(?: WITH \(.*\))?;$/gm);
  return new Set(
    Array.from(tables).flatMap(([, table = "", body = ""]) =>
      Array.from(body.matchAll(/(?:^|, |\n)\s*([a-z_]+) [a-z]/g), ([, column = ""]) => `${table}.${column}`),
    ),
  );
}

function otherSchema(schema: string, details: Omit<ConstructorParameters<typeof StoreSchemaError>[0], "instead">): StoreSchemaError {
  const instead = `name another schema in the url ("?schema=…") or another namespace; if nothing in this one is needed, DROP SCHEMA ${escapeIdentifier(schema)} CASCADE`;
  return new StoreSchemaError({ ...details, instead });
}

async function refuseForeign(session: Session, { schema, where }: Place): Promise<void> {
  const { rows } = await session.ask<{ names: string | null }>(
    "SELECT string_agg(tablename, ', ') AS names FROM pg_tables WHERE schemaname = $1 AND tablename IN ('runs', 'records', 'inbox', 'tasks')",
    [schema],
  );
  const names = rows[0]?.names ?? null;
  if (names === null) return;
  throw new StoreError(
    `${where} has tables of another program, or some of Holdfast's without the record of their version (${names}).\nName another schema in the url: "?schema=…"; this one was left as it is. Of a dump, restore all, with its data.`,
    { code: "HF_STORE_FOREIGN" },
  );
}

const INSUFFICIENT_PRIVILEGE = "42501";

function refused(error: unknown, where: string): unknown {
  if ((error as { code?: unknown }).code !== INSUFFICIENT_PRIVILEGE) return error;
  return new StoreError(
    `${where} can't be set up: ${(error as Error).message}.\n` +
      "Let the role create schemas (GRANT CREATE ON DATABASE … TO …), or make the schema for it (CREATE SCHEMA … AUTHORIZATION …).",
    { code: "HF_STORE_DENIED", cause: error },
  );
}
