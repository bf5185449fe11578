// What a database must be set to.
// Owns: the settings that would change what is written, and what to do about them.
// Invariants: a store is not opened where texts or nulls would come back as something else. All other settings are the user's: statements
// mean the same with any of them (test/settings.test.ts).

import { StoreError } from "holdfast/store";
import type { Session } from "../connection/connections.ts";
import type { Place } from "./migrate.ts";

interface Settings {
  readonly database: string;
  readonly encoding: string;
  readonly nulls: string;
}

export async function checkSettings(session: Session, { where }: Pick<Place, "where">): Promise<void> {
  const sql =
    "SELECT quote_ident(current_database()) AS database, current_setting('server_encoding') AS encoding, current_setting('array_nulls') AS nulls";
  const [found] = (await session.ask<Settings>(sql)).rows;
  if (found === undefined) return;
  const { database, encoding, nulls } = found;
  if (encoding !== "UTF8") {
    throw refused(
      `${where} can't be used: its encoding is ${encoding}, which can't hold every text.`,
      `Make one that has: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.`,
    );
  }
  if (nulls !== "on") {
    throw refused(
      `${where} can't be used: with array_nulls = off a null in an array is written as the text "NULL".`,
      `Turn it on for this role or database: ALTER DATABASE ${database} SET array_nulls = on.`,
    );
  }
}
function refused(what: string, whatToDo: string): StoreError {
  return new StoreError(`${what}\n${whatToDo}`, { code: "HF_STORE_CANNOT_OPEN" });
}
