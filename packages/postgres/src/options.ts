// What a Postgres store is told: by options, or in a url.
// Owns: the parameters of the url, their defaults, and the name of the schema.
// Invariants: what can't be understood is an InvalidInputError that names it, and no error has a password in it, nor in its cause.

import { InvalidInputError, type Logger, parseDuration } from "@holdfast/core";

export interface PostgresStoreOptions {
  /** "postgres://user:password@host:5432/database", or anything that `pg` takes as a connection string. */
  readonly connectionString: string;
  /** Where the tables are. Default "holdfast". */
  readonly schema?: string | undefined;
  /** Most connections for calls and turns; transactions of steps have as many again, and notifications one. Default 4. */
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

/**
 * Every call takes the general way: no statement for a turn alone, no set of usual turns, plain runs or plain messages. For the conformance
 * suite, which runs with the shortcuts and without: not an option of users, so it has no name that they could give.
 */
export const GENERAL_WAY: unique symbol = Symbol("general way");
export interface InternalOptions extends PostgresStoreOptions {
  readonly [GENERAL_WAY]?: boolean;
}

export interface FromUrlOptions {
  readonly logger?: Logger | undefined;
  /** Runs of one namespace know nothing of those of another: each has a schema of its own. */
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

/** The errors of those who read an url have all of it in them: none of them is passed on. */
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
/** As the driver takes it. Other forms than an url are for the driver to read. */
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

/** A value that holds the rest of an url may hold a password. */
const shown = (value: string): string => (value.includes("@") ? "…" : value.slice(0, 100));

function count(value: string): number {
  const number = Number(value);
  if (Number.isInteger(number) && number >= 1 && number <= 1_000) return number;
  throw invalid(`connections is a whole number from 1 to 1000, not "${shown(value)}".`, "connections");
}
function flag(key: string, value: string | undefined): boolean | undefined {
  if (value === undefined || value === "on" || value === "off") return value === undefined ? undefined : value === "on";
  throw invalid(`${key} is "on" or "off", not "${shown(value)}".`, key);
}
function length(key: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  try {
    return parseDuration(value);
  } catch {
    // biome-ignore lint/style/useErrorCause: the cause repeats the value
    throw invalid(`${key} is a length of time such as "30s" or "30d", not "${shown(value)}".`, key);
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
