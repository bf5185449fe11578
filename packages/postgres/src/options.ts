// The settings of a Postgres store, as options or in a url.
// Owns: the parameters of the url, their defaults, and the name of the schema.
// Invariants: a setting that can't be read is an InvalidInputError that names it; no error contains a password, nor does its cause.

import { InvalidInputError, type Logger, parseDuration } from "@holdfast/core";

/** Options of a store on PostgreSQL. `Holdfast.open("postgres://…?connections=8")` takes most of them from the url. */
export interface PostgresStoreOptions {
  /** "postgres://user:password@host:5432/database", or anything that `pg` takes as a connection string. */
  readonly connectionString: string;
  /**
   * Where the tables are.
   * @defaultValue `"holdfast"`
   */
  readonly schema?: string | undefined;
  /**
   * Most connections for calls and turns; transactions of steps have as many again, and notifications one.
   * @defaultValue `4`
   */
  readonly connections?: number | undefined;
  /**
   * False: no LISTEN, only polling (behind PgBouncer in transaction mode).
   * @defaultValue LISTEN, and polling if that does not work
   */
  readonly listen?: boolean | undefined;
  /**
   * How long closed runs are kept whose workflow says nothing, in milliseconds, unless the engine says it.
   * @defaultValue forever
   */
  readonly retention?: number | undefined;
  /**
   * Keep what retention removes as one row of `archive`.
   * @defaultValue `false`
   */
  readonly archive?: boolean | undefined;
  /**
   * How long a call is tried again while the server can't be reached, in milliseconds.
   * @defaultValue `30_000`
   */
  readonly patience?: number | undefined;
  /**
   * Where messages go.
   * @defaultValue none
   */
  readonly logger?: Logger | undefined;
  /**
   * How long the store waits for an answer before it abandons the connection, in milliseconds, for tests.
   * @defaultValue `30_000`
   */
  readonly noAnswer?: number | undefined;
  /**
   * Milliseconds since 1970, for tests.
   * @defaultValue the server's time
   */
  readonly clock?: (() => number) | undefined;
}

/**
 * Every call takes the general way: no single statement for a turn, no sets of usual turns, plain runs or plain messages. For the conformance
 * suite, which runs with the shortcuts and without: not an option for users, so it is a symbol.
 */
export const GENERAL_WAY: unique symbol = Symbol("general way");
export interface InternalOptions extends PostgresStoreOptions {
  readonly [GENERAL_WAY]?: boolean;
}

/** What a url does not say. */
export interface FromUrlOptions {
  /**
   * Where messages go.
   * @defaultValue none
   */
  readonly logger?: Logger | undefined;
  /**
   * Namespaces are separate: each has its own schema.
   * @defaultValue none
   */
  readonly namespace?: string | undefined;
}

function invalid(message: string, path?: string): InvalidInputError {
  return new InvalidInputError({ what: "Holdfast.open", issues: [path === undefined ? { message } : { message, path: [path] }] });
}

const OURS = ["schema", "connections", "listen", "retention", "archive", "patience"] as const;

export function optionsOf(url: string, { logger, namespace }: FromUrlOptions = {}): PostgresStoreOptions {
  const parsed = parsedUrl(url);
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

const EXAMPLE = '"postgres://user:password@host:5432/database"';

/** Errors of URL parsers contain the whole url: they are not passed on. */
function parsedUrl(url: string): URL {
  if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url)) throw invalid(`The url of the database can't be read. Example: ${EXAMPLE}.`);
  const parsed = new URL(url);
  const { username, password, pathname } = parsed;
  // A password with a "/" ends up here, in part.
  if (pathname.includes("@") || ![username, password, pathname].every(isEncoded)) {
    throw invalid(
      `The url of the database can't be read: write characters such as "/", "?", "#", "@" and "%" of user, password and database as encodeURIComponent does. Example: ${EXAMPLE}.`,
    );
  }
  return parsed;
}
function isEncoded(part: string): boolean {
  try {
    decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}
/** As the driver takes it. Forms other than a url are left to the driver. */
export function checkedConnectionString(connectionString: string): string {
  if (/^postgres(ql)?:/.test(connectionString)) parsedUrl(connectionString);
  return connectionString;
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

/** A value that holds the rest of a url may hold a password. */
const shown = (value: string): string => (value.includes("@") ? "…" : value.slice(0, 100));

function count(value: string): number {
  const number = Number(value);
  if (Number.isInteger(number) && number >= 1 && number <= 1_000) return number;
  throw invalid(`connections must be a whole number from 1 to 1000, not "${shown(value)}".`, "connections");
}
function flag(key: string, value: string | undefined): boolean | undefined {
  if (value === undefined || value === "on" || value === "off") return value === undefined ? undefined : value === "on";
  throw invalid(`${key} must be "on" or "off", not "${shown(value)}".`, key);
}
function length(key: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  try {
    return parseDuration(value);
  } catch {
    // biome-ignore lint/style/useErrorCause: the cause repeats the value
    throw invalid(`${key} must be a duration such as "30s" or "30d", not "${shown(value)}".`, key);
  }
}

/** It becomes part of statements. Undefined: forever. */
export function retentionOf(retention: number | "forever" | undefined): number | undefined {
  if (retention === undefined || retention === "forever") return undefined;
  if (Number.isSafeInteger(retention) && retention >= 0) return retention;
  throw invalid("retention must be a whole number of milliseconds.", "retention");
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
