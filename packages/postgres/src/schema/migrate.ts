// How a database gets its schema, and its next version.
// Owns: the versions, the lock under which they are made, and what a database must allow.
// Invariants: a newer version is left as it is; migrations are all or nothing and made by one process, whoever else opens at the same
// time; what an older version calls stays: functions have a number, and a new behaviour gets the next.

import { StoreError, StoreVersionError } from "holdfast";
import type { Session } from "../connections.ts";
import { claims } from "./claims.ts";
import { endings } from "./endings.ts";
import { literal, messages } from "./messages.ts";
import { tables } from "./tables.ts";
import { settle } from "./tail.ts";
import { turns } from "./turns.ts";

/** `s` is the schema, quoted. */
type Migration = (s: string) => string;

const VERSION_1: Migration = (s) => [tables(s), settle(s), messages(s), endings(s), turns(s), claims(s)].join("\n");

const MIGRATIONS: readonly Migration[] = [VERSION_1];
export const SCHEMA_VERSION: number = MIGRATIONS.length;

export interface Place {
  /** The schema's name, as it is and quoted. */
  readonly schema: string;
  readonly s: string;
  /** For messages: the server, the database and the schema. */
  readonly where: string;
}

export async function migrate(session: Session, place: Place): Promise<void> {
  const { schema, s, where } = place;
  if ((await versionOf(session, place)) === SCHEMA_VERSION) return;
  await session.ask("BEGIN ISOLATION LEVEL READ COMMITTED"); // who has waited for the lock is to see what was made meanwhile
  try {
    await session.ask(`SELECT pg_advisory_xact_lock(hashtextextended(${literal(`holdfast migrations of ${schema}`)}, 0))`);
    const found = await versionOf(session, place);
    if (found === 0) await refuseForeign(session, place);
    if (found < SCHEMA_VERSION) {
      const { rows } = await session.ask("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema]);
      if (rows.length === 0) await session.ask(`CREATE SCHEMA ${s}`);
      await session.ask(
        `CREATE TABLE IF NOT EXISTS ${s}.migrations (version integer PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT now())`,
      );
      for (const [i, migration] of MIGRATIONS.entries()) {
        if (i < found) continue;
        await session.ask(migration(s));
        await session.ask(`INSERT INTO ${s}.migrations (version) VALUES (${i + 1})`);
      }
    }
    await session.ask("COMMIT");
  } catch (error) {
    await session.ask("ROLLBACK").catch(() => undefined);
    throw refused(error, where);
  }
}

/** 0: there is no Holdfast here yet. */
async function versionOf(session: Session, { schema, s, where }: Place): Promise<number> {
  // Not to_regclass: it may answer from before the lock was waited for.
  const { rows } = await session.ask("SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'migrations'", [schema]);
  if (rows.length === 0) return 0;
  const version = await session.ask<{ version: number }>(`SELECT coalesce(max(version), 0) AS version FROM ${s}.migrations`);
  const found = version.rows[0]?.version ?? 0;
  if (found > SCHEMA_VERSION) throw new StoreVersionError({ where, found, known: SCHEMA_VERSION });
  return found;
}

async function refuseForeign(session: Session, { schema, where }: Place): Promise<void> {
  const { rows } = await session.ask<{ names: string | null }>(
    "SELECT string_agg(tablename, ', ') AS names FROM pg_tables WHERE schemaname = $1 AND tablename IN ('runs', 'records', 'inbox', 'tasks')",
    [schema],
  );
  const names = rows[0]?.names ?? null;
  if (names === null) return;
  throw new StoreError(
    `${where} has tables of another program (${names}).\nName another schema in the url: "?schema=…"; this one was left as it is.`,
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
