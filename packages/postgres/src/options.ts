// What a Postgres store is told: by options, or in a url.
// Owns: the parameters of the url, their defaults, and the name of the schema.
// Invariants: what can't be understood is an InvalidInputError that names it, and no message has a password in it.

import { InvalidInputError, type Logger, parseDuration } from "@holdfast/core";

export interface PostgresStoreOptions {
  /** "postgres://user:password@host:5432/database", or anything that `pg` takes as a connection string. */
  readonly connectionString: string;
  /** Where the tables are. Default "holdfast". */
  readonly schema?: string | undefined;
  /** Most connections for calls; transactions of steps have as many again, and notifications one. Default 10. */
  readonly connections?: number | undefined;
  /** False: no LISTEN, only polling (behind PgBouncer in transaction mode). Default: tried, and given up if it does not work. */
  readonly listen?: boolean | undefined;
  /** How long closed runs are kept, in milliseconds. Default: for ever. */
  readonly retention?: number | undefined;
  /** Keep what retention removes as one row of `archive`. */
  readonly archive?: boolean | undefined;
  /** How long a call is tried again while the server can't be reached, in milliseconds. Default 30,000. */
  readonly patience?: number | undefined;
  readonly logger?: Logger | undefined;
  /** How long an answer is waited for before its connection is given up, in milliseconds, for tests. Default 30,000. */
  readonly noAnswer?: number | undefined;
  /** Milliseconds since 1970, for tests. Default: the server's time. */
  readonly clock?: (() => number) | undefined;
}

export interface FromUrlOptions {
  readonly logger?: Logger | undefined;
  /** Runs of one namespace know nothing of those of another: each has a schema of its own. */
  readonly namespace?: string | undefined;
}

function invalid(message: string, path?: string, cause?: unknown): InvalidInputError {
  return new InvalidInputError({ what: "Holdfast.open", issues: [path === undefined ? { message } : { message, path: [path] }], cause });
}

const OURS = ["schema", "connections", "listen", "retention", "archive", "patience"] as const;

export function optionsOf(url: string, { logger, namespace }: FromUrlOptions = {}): PostgresStoreOptions {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch (cause) {
    throw invalid('The url of the database can\'t be read. Example: "postgres://user:password@host:5432/database".', undefined, cause);
  }
  const [schema, connections, listen, retention, archive, patience] = OURS.map((key) => {
    const value = parsed.searchParams.get(key);
    parsed.searchParams.delete(key);
    return value ?? undefined;
  });
  return {
    connectionString: parsed.href,
    schema: checkedSchema(schema, namespace),
    connections: connections === undefined ? undefined : count(connections),
    listen: flag("listen", listen),
    retention: length("retention", retention),
    archive: flag("archive", archive),
    patience: length("patience", patience),
    logger,
  };
}

/** PostgreSQL cuts longer names short. */
const LONGEST_NAME = 63;

export function checkedSchema(schema = "holdfast", namespace = "default"): string {
  const name = namespace === "default" ? schema : `${schema}_${namespace}`;
  if (name !== "" && Buffer.byteLength(name) <= LONGEST_NAME && /^[\p{L}_][\p{L}\p{N}_$-]*$/u.test(name) && !/^pg_/i.test(name))
    return name;
  throw invalid(
    `"${name.slice(0, 100)}" can't be the name of a schema: letters, digits, "_", "-", at most ${LONGEST_NAME} bytes, not beginning with a digit or "pg_".`,
    namespace === "default" ? "schema" : "namespace",
  );
}

function count(value: string): number {
  const number = Number(value);
  if (Number.isInteger(number) && number >= 1 && number <= 1_000) return number;
  throw invalid(`connections is a whole number from 1 to 1000, not "${value}".`, "connections");
}
function flag(key: string, value: string | undefined): boolean | undefined {
  if (value === undefined || value === "on" || value === "off") return value === undefined ? undefined : value === "on";
  throw invalid(`${key} is "on" or "off", not "${value}".`, key);
}
function length(key: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  try {
    return parseDuration(value);
  } catch (cause) {
    throw invalid(`${key} is a length of time such as "30s" or "30d", not "${value}".`, key, cause);
  }
}

/** For messages: what is opened, without user and password. */
export function whereOf(connectionString: string, schema: string): string {
  try {
    const { host, pathname } = new URL(connectionString);
    return `postgres://${host}${pathname} (schema "${schema}")`;
  } catch {
    return `the database (schema "${schema}")`;
  }
}
