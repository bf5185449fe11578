// The seam to SQLite: `node:sqlite` where Node has a good one (22.20 and later 22s, 24.7 and newer), `libsql` elsewhere.
// Owns: which of the two is loaded, and their differences: rows are arrays, blobs Uint8Arrays, errors carry SQLite's result code.
// Invariants: neither library is loaded before a database is opened; a value that a library can't bind is an error, never an abort.

import { createRequire, isBuiltin } from "node:module";
import { StoreOpenError } from "../errors.ts";
import { sqliteFailure } from "./failures.ts";
import { parameterCount, parameterNames } from "./sqlText.ts";

/** What a column holds. libsql binds every number as REAL: columns declared INTEGER turn it back, other places must not care. */
export type Value = null | number | bigint | string | Uint8Array;
export type Row = readonly Value[];

export interface Statement {
  run(parameters: readonly Value[]): void;
  /** The first row. A statement that writes writes all it has to, even if one row is taken. */
  get(parameters: readonly Value[]): Row | undefined;
  all(parameters: readonly Value[]): Row[];
  /** Of an INSERT: the key of its row, or undefined if it has written none. RETURNING takes half as long again. */
  insert(parameters: readonly Value[]): number | undefined;
}

/** A statement as users know it from better-sqlite3: rows are objects. */
export interface NamedStatement {
  run(...parameters: unknown[]): { changes: number; lastInsertRowid: number | bigint };
  get(...parameters: unknown[]): Record<string, Value> | undefined;
  all(...parameters: unknown[]): Record<string, Value>[];
}

export interface Library {
  readonly name: LibraryName;
  exec(sql: string): void;
  /** Takes the write lock, or fails as busy. */
  begin(): void;
  commit(): void;
  /** False also after an error for which SQLite has rolled it back. */
  isInTransaction(): boolean;
  prepare(sql: string): Statement;
  prepareNamed(sql: string): NamedStatement;
  close(): void;
}

export type LibraryName = "node:sqlite" | "libsql";

const require = createRequire(import.meta.url);

/**
 * Opens the file, which need not exist; its folder must. "read only": libsql can't open a file that way, so that the caller also has to set
 * `query_only`.
 */
export function openLibrary(path: string, name: LibraryName = preferredLibrary(), how?: "read only"): Library {
  return guarded(() => (name === "node:sqlite" ? openNode(path, how === "read only") : openLibsql(path)));
}

let preferred: LibraryName | undefined;

/**
 * `node:sqlite`, if it can do what we need: up to 22.12 it is behind a flag; up to 22.19, in 23 and up to 24.6 it lacks array rows, isTransaction
 * or `?1`. These are the `engines` of @holdfast/libsql.
 */
export function preferredLibrary(): LibraryName {
  preferred ??= isBuiltin("node:sqlite") && isUsable() ? "node:sqlite" : "libsql";
  return preferred;
}
function isUsable(): boolean {
  try {
    const database = openNode(":memory:");
    const [second, first] = database.prepare("SELECT ?2, ?1").get([1, 2]) ?? [];
    const isKnown = database.isInTransaction() === false;
    database.close();
    return first === 1 && second === 2 && isKnown;
  } catch {
    return false;
  }
}

/** Every error of a library passes here, so that the rest of the store sees one kind. */
function guarded<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw sqliteFailure(error);
  }
}

const BEGIN = "BEGIN IMMEDIATE";
const COMMIT = "COMMIT";

/** Without a row SQLite tells the key of the last one. */
function newKey({ changes, lastInsertRowid }: { changes: number | bigint; lastInsertRowid: number | bigint }): number | undefined {
  return Number(changes) === 0 ? undefined : Number(lastInsertRowid);
}

// ───────────────────────────── node:sqlite ─────────────────────────────

// Declared here: the types of the oldest Node that we support do not know the module.
interface NodeStatement {
  run(...parameters: unknown[]): { changes: number | bigint; lastInsertRowid: number | bigint };
  get(...parameters: unknown[]): unknown;
  all(...parameters: unknown[]): unknown[];
  setReturnArrays(enabled: boolean): void;
}
interface NodeDatabase {
  readonly isTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): NodeStatement;
  close(): void;
}
interface NodeSqlite {
  DatabaseSync: new (path: string, options: { enableForeignKeyConstraints: boolean; readOnly: boolean }) => NodeDatabase;
}

/** The module says at its first load that it is experimental; users of Holdfast can't do anything about that. */
function loadNodeSqlite(): NodeSqlite {
  const { emitWarning } = process;
  process.emitWarning = ((warning: string | Error, ...rest: unknown[]): void => {
    if (!String(warning).includes("SQLite")) Reflect.apply(emitWarning, process, [warning, ...rest]);
  }) as typeof process.emitWarning;
  try {
    return require("node:sqlite") as NodeSqlite;
  } finally {
    process.emitWarning = emitWarning;
  }
}

function openNode(path: string, readOnly = false): Library {
  const { DatabaseSync } = loadNodeSqlite();
  const database = new DatabaseSync(path, { enableForeignKeyConstraints: false, readOnly });
  return {
    name: "node:sqlite",
    exec: (sql) => guarded(() => database.exec(sql)),
    begin: prepared(database, BEGIN),
    commit: prepared(database, COMMIT),
    isInTransaction: () => database.isTransaction,
    prepare: (sql) => {
      const statement = guarded(() => database.prepare(sql));
      statement.setReturnArrays(true);
      return {
        run: (parameters) => guarded(() => void statement.get(...parameters)),
        get: (parameters) => guarded(() => statement.get(...parameters) as Row | undefined),
        all: (parameters) => guarded(() => statement.all(...parameters) as Row[]),
        insert: (parameters) => guarded(() => newKey(statement.run(...parameters))),
      };
    },
    prepareNamed: (sql) => {
      const statement = guarded(() => database.prepare(sql));
      return {
        run: (...parameters) =>
          guarded(() => {
            const { changes, lastInsertRowid } = statement.run(...nodeParameters(sql, parameters));
            return { changes: Number(changes), lastInsertRowid };
          }),
        get: (...parameters) =>
          guarded(() => {
            const found = statement.get(...nodeParameters(sql, parameters));
            return found === undefined ? undefined : { ...(found as Record<string, Value>) };
          }),
        all: (...parameters) =>
          guarded(() => statement.all(...nodeParameters(sql, parameters)).map((found) => ({ ...(found as Record<string, Value>) }))),
      };
    },
    close: () => guarded(() => database.close()),
  };
}

/** Parsed once, at its first use: it is asked for all the time. */
function prepared(database: NodeDatabase, sql: string): () => void {
  let statement: NodeStatement | undefined;
  return () =>
    guarded(() => {
      statement ??= database.prepare(sql);
      statement.get();
    });
}

/** node:sqlite numbers only parameters without a name: those with one are given by it. */
function nodeParameters(sql: string, parameters: readonly unknown[]): unknown[] {
  const values = bindable(sql, parameters);
  if (parameters.length !== 1 || !isPlainObject(parameters[0])) return values;
  return [Object.fromEntries((parameterNames(sql) ?? []).map((name, i) => [name, values[i] ?? null]))];
}

// ─────────────────────────────── libsql ────────────────────────────────

interface LibsqlStatement {
  readonly reader: boolean;
  raw(enabled?: boolean): unknown;
  columns(): { name: string }[];
  run(parameters: readonly unknown[]): { changes: number; lastInsertRowid: number | bigint };
  get(parameters: readonly unknown[]): unknown;
  all(parameters: readonly unknown[]): unknown[];
}
interface LibsqlDatabase {
  readonly inTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): LibsqlStatement;
  close(): void;
}

type Libsql = new (path: string) => LibsqlDatabase;

/**
 * From our optional dependency, which npm leaves out where `node:sqlite` is good enough, or else one that the user has installed. `libsql` is
 * not an optional peer as well: npm would then keep it when it leaves our package out.
 */
function loadLibsql(where: string): Libsql {
  try {
    return require(isInstalled("@holdfast/libsql") ? "@holdfast/libsql" : "libsql") as Libsql;
  } catch (cause) {
    throw noSqlite(where, cause);
  }
}
function noSqlite(where: string, cause: unknown): StoreOpenError {
  const reason =
    "the SQLite of this version of Node can't be used, and the package \"libsql\" can't be loaded. Use Node 22.20, 24.7 or newer, or install the dependencies again with this version of Node.";
  return new StoreOpenError({ where, reason, cause });
}
function isInstalled(name: string): boolean {
  try {
    require.resolve(name);
    return true;
  } catch {
    return false;
  }
}

function openLibsql(path: string): Library {
  const Database = loadLibsql(path);
  const database = new Database(path);
  return {
    name: "libsql",
    exec: (sql) => guarded(() => database.exec(sql)),
    // Not prepared: a BEGIN that was busy and is dropped stays in progress, and then nothing can be committed.
    begin: () => guarded(() => database.exec(BEGIN)),
    commit: () => guarded(() => database.exec(COMMIT)),
    isInTransaction: () => database.inTransaction,
    prepare: (sql) => {
      const statement = new RenewedStatement(database, sql);
      return {
        // `get` costs a third of `run`, which also counts changes.
        run: (parameters) => void statement.use((it) => it.get(parameters)),
        get: (parameters) => statement.use((it) => it.get(parameters)) as Row | undefined,
        all: (parameters) => statement.use((it) => it.all(parameters)) as Row[],
        insert: (parameters) => newKey(statement.use((it) => it.run(parameters))),
      };
    },
    prepareNamed: (sql) => {
      const statement = new RenewedStatement(database, sql);
      const named = (row: unknown): Record<string, Value> => {
        const columns = statement.use((it) => it.columns());
        return Object.fromEntries(columns.map(({ name }, i) => [name, plainBytes((row as Row)[i] ?? null)]));
      };
      return {
        run: (...parameters) =>
          statement.use((it) => {
            const { changes, lastInsertRowid } = it.run(bindable(sql, parameters));
            return { changes, lastInsertRowid };
          }),
        get: (...parameters) => {
          const row = statement.use((it) => it.get(bindable(sql, parameters)));
          return row === undefined ? undefined : named(row);
        },
        all: (...parameters) => statement.use((it) => it.all(bindable(sql, parameters))).map(named),
      };
    },
    close: () => guarded(() => database.close()),
  };
}

/** A statement of libsql that has failed once always fails: it is prepared again. */
class RenewedStatement {
  readonly #database: LibsqlDatabase;
  readonly #sql: string;
  #statement: LibsqlStatement | undefined;

  constructor(database: LibsqlDatabase, sql: string) {
    this.#database = database;
    this.#sql = sql;
    guarded(() => this.#prepare());
  }
  use<T>(work: (statement: LibsqlStatement) => T): T {
    try {
      return work(this.#statement ?? this.#prepare());
    } catch (error) {
      this.#statement = undefined;
      throw sqliteFailure(error);
    }
  }
  #prepare(): LibsqlStatement {
    const statement = this.#database.prepare(this.#sql);
    if (statement.reader) statement.raw(true);
    this.#statement = statement;
    return statement;
  }
}

// ──────────────────────────────── values ───────────────────────────────

/** libsql hands out Buffers; what is equal must look equal. */
export function plainBytes<T>(value: T): T | Uint8Array {
  return Buffer.isBuffer(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : value;
}

/**
 * Parameters as a user gives them: in turn, as a list, or as one object of names. Checked here: libsql aborts the process over a boolean
 * or a name that it does not find, node:sqlite takes any object for names.
 */
function bindable(sql: string, parameters: readonly unknown[]): Value[] {
  const [only] = parameters;
  if (parameters.length === 1 && isPlainObject(only)) return byName(sql, only).map(bindableValue);
  const values: readonly unknown[] = parameters.length === 1 && Array.isArray(only) ? only : parameters;
  const count = parameterCount(sql);
  // Left to SQLite, those that are missing are NULL and those too many are dropped.
  if (values.length !== count)
    throw new TypeError(`The statement has ${plural(count, "parameter")}, and was given ${plural(values.length, "value")}.`);
  return values.map(bindableValue);
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function bindableValue(value: unknown): Value {
  if (value === undefined || value === null) return null;
  if (typeof value === "boolean") return Number(value);
  if (typeof value === "string" || typeof value === "number" || typeof value === "bigint" || value instanceof Uint8Array) return value;
  throw new TypeError(
    `SQLite stores texts, numbers, bigints, bytes and null, not a ${Object.prototype.toString.call(value).slice(8, -1)}.`,
  );
}

function byName(sql: string, values: Readonly<Record<string, unknown>>): unknown[] {
  const names = parameterNames(sql);
  if (names === undefined) throw new TypeError("The statement has parameters without a name: give their values in turn.");
  return names.map((name) => {
    const key = Object.hasOwn(values, name) ? name : name.slice(1);
    if (!Object.hasOwn(values, key)) throw new TypeError(`The parameter ${name} has no value.`);
    return values[key];
  });
}

function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
