// One connection to one file: opened safely, its statements prepared once, its transactions short.
// Owns: the library, the cache of statements, the settings of the connection, the identity of the file.
// Invariants: no call waits inside SQLite for a lock (busy_timeout 0): the wait is outside, and asynchronous; for no
// longer than a moment anything is read or written in a file that is no longer the one that was opened; only SQLite opens the file.

import { closeSync, existsSync, mkdirSync, openSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { StoreBusyError, StoreCorruptError, StoreForeignError, StoreMovedError, StoreOpenError } from "../errors.ts";
import { isBusy, storeError } from "./failures.ts";
import { type Library, type LibraryName, type NamedStatement, openLibrary, type Row, type Statement, type Value } from "./library.ts";
import { migrate, needsMigration } from "./schema.ts";

export interface ConnectionOptions {
  /** FULL: a commit survives power loss. NORMAL: it survives the end of the process, and a power cut may undo the last ones. */
  readonly synchronous?: "FULL" | "NORMAL" | undefined;
  readonly library?: LibraryName | undefined;
  /** How long the store waits for a lock of another connection. Milliseconds, default 30,000. */
  readonly patience?: number | undefined;
}

const DEFAULT_PATIENCE = 30_000;
/** How long a check of the files holds for further turns: a check takes as long as the write itself, and files can be deleted at any moment. */
const TRUST = 10;
const CACHE_KIB = 16_384;
const FIRST_PAGES = ["runs", "executions", "states", "records", "inbox", "updates", "attempts", "tasks", "lanes", "workers"].map(
  (table) => `SELECT 1 FROM holdfast_${table} LIMIT 1`,
);
const IN_MEMORY = ":memory:";
const NO_FILE = { mtimeMs: 0, size: 0 };
/** Far more than there are, except for the shapes of turns, which are unlimited. */
const MOST_STATEMENTS = 1_000;

export class Connection {
  readonly path: string;
  readonly #library: Library;
  readonly #patience: number;
  readonly #file: OpenFile;
  /** The log, where the last commits are, and its index. SQLite makes them, and keeps them while it is open; but other programs may delete them. */
  readonly #beside: readonly OpenFile[];
  readonly #statements = new Map<string, Statement>();
  #checkedAt = Number.NEGATIVE_INFINITY;
  /** When and how large the file was when its content was last looked at. */
  #writtenAt: number;
  #size: number;
  readonly #libraryName: LibraryName | undefined;

  /** It only reads: then closing it does not write either. */
  readonly #isReadOnly: boolean;

  private constructor(
    path: string,
    library: Library,
    { patience = DEFAULT_PATIENCE, library: name }: ConnectionOptions,
    isReadOnly = false,
  ) {
    this.path = path;
    this.#libraryName = name;
    this.#isReadOnly = isReadOnly;
    ({ mtimeMs: this.#writtenAt, size: this.#size } = statSync(path, { throwIfNoEntry: false }) ?? NO_FILE);
    this.#library = library;
    this.#patience = patience;
    this.#file = new OpenFile(path);
    this.#beside = path === IN_MEMORY ? [] : ["-wal", "-shm"].map((suffix) => new OpenFile(`${realpathSync(path)}${suffix}`));
  }

  /** Creates the folder and the file if need be, and brings the schema up to date. Safe when many processes do it at once. */
  static async open(path: string, options: ConnectionOptions = {}): Promise<Connection> {
    const { synchronous = "FULL", patience = DEFAULT_PATIENCE } = options;
    const full = resolve(path);
    readyFolder(full);
    refuseOthers(full);
    createPrivate(full);
    return patiently(full, patience, () => {
      const library = openLibrary(full, options.library);
      try {
        set(library, "busy_timeout = 0", "foreign_keys = ON");
        // Before anything is written: the switch to WAL already changes the file.
        const isNew = needsMigration(library, full);
        useWal(library, full);
        set(library, `synchronous = ${synchronous === "NORMAL" ? "NORMAL" : "FULL"}`, `cache_size = -${CACHE_KIB}`);
        const connection = new Connection(full, library, options);
        if (isNew) connection.transaction(() => migrate(library, full));
        return connection;
      } catch (error) {
        library.close();
        throw error;
      }
    });
  }

  /**
   * A file that exists, for reading only: nothing is created, migrated or written. Undefined: it has no tables of Holdfast. `library` has to
   * be the one that other connections of this process use: each knows only its own locks.
   */
  static async openReadOnly(path: string, options: ConnectionOptions = {}): Promise<Connection | undefined> {
    const full = resolve(path);
    if (sizeOf(full) === 0) return undefined;
    refuseOthers(full);
    return patiently(full, options.patience ?? DEFAULT_PATIENCE, () => {
      // A connection that can't write leaves the log that it has to create beside a closed file; another one removes it when it is closed.
      const library = openLibrary(full, options.library, existsSync(`${full}-wal`) ? "read only" : undefined);
      try {
        set(library, "busy_timeout = 0", "query_only = ON", `cache_size = -${CACHE_KIB}`);
        if (!needsMigration(library, full)) return new Connection(full, library, options, true);
      } catch (error) {
        library.close();
        throw error;
      }
      library.close();
      return undefined;
    });
  }
  /** The tables without a row, in memory: what is read where there is no file. */
  static empty(name?: LibraryName): Connection {
    const library = openLibrary(IN_MEMORY, name);
    migrate(library, IN_MEMORY);
    return new Connection(IN_MEMORY, library, { library: name }, true);
  }

  /** Whether the file is still the one that was opened. */
  isSameFile(): boolean {
    return this.path === IN_MEMORY || this.#file.isSame();
  }

  // ── statements ──

  #prepared(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      if (this.#statements.size >= MOST_STATEMENTS) this.#statements.clear();
      statement = this.#library.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
  run(sql: string, parameters: readonly Value[]): void {
    this.#prepared(sql).run(parameters);
  }
  get(sql: string, parameters: readonly Value[]): Row | undefined {
    return this.#prepared(sql).get(parameters);
  }
  all(sql: string, parameters: readonly Value[]): Row[] {
    return this.#prepared(sql).all(parameters);
  }
  insert(sql: string, parameters: readonly Value[]): number | undefined {
    return this.#prepared(sql).insert(parameters);
  }
  /** A statement that is not asked for often enough to be kept. */
  allOnce(sql: string, parameters: readonly Value[]): Row[] {
    return this.prepare(sql).all(parameters);
  }
  /** The same, where the caller uses it several times in a row. */
  prepare(sql: string): Statement {
    return this.#library.prepare(sql);
  }
  prepareNamed(sql: string): NamedStatement {
    return this.#library.prepareNamed(sql);
  }
  exec(sql: string): void {
    this.#library.exec(sql);
  }

  /** Are the files still those that were opened? `trusting`: a look a moment ago is good enough. Takes no lock. */
  checkFiles(trusting: boolean): void {
    const now = performance.now();
    const isOld = now - this.#checkedAt > TRUST;
    if (isOld || !trusting) this.#checkContent(this.#file.check());
    if (!isOld) return;
    for (const file of this.#beside) file.check();
    this.#checkedAt = now;
  }

  /**
   * With a log, the file is only written to when commits are copied into it, by SQLite in some process; or by something else. What this
   * connection has in its cache would hide that from it: so a connection that has nothing in it looks, at the first page of each table.
   */
  #checkContent(found: Stats | undefined): void {
    if (found === undefined || (found.mtimeMs === this.#writtenAt && found.size === this.#size)) return;
    const fresh = openLibrary(this.path, this.#libraryName);
    try {
      set(fresh, "busy_timeout = 0");
      for (const sql of FIRST_PAGES) fresh.prepare(sql).get([]);
      [this.#writtenAt, this.#size] = [found.mtimeMs, found.size];
    } catch (cause) {
      // biome-ignore lint/style/useErrorCause: it is among the details
      if (!isBusy(cause)) throw new StoreCorruptError({ where: this.path, cause, isFile: true });
      // Another process uses it for a moment: the next check decides.
    } finally {
      fresh.close();
    }
  }

  // ── transactions ──

  /** Takes the write lock, or throws that it is busy. `trusting`: see `checkFiles`. */
  begin(trusting = false): void {
    this.checkFiles(trusting);
    this.#library.begin();
  }
  commit(): void {
    this.#library.commit();
    for (const file of this.#beside) file.isThere();
  }
  /** Not any more after an error for which SQLite rolls everything back. */
  isInTransaction(): boolean {
    return this.#library.isInTransaction();
  }
  /** SQLite has done it already after some errors. */
  rollback(): void {
    try {
      this.#library.exec("ROLLBACK");
    } catch {
      // No transaction is open any more.
    }
  }
  transaction<T>(work: () => T): T {
    this.begin();
    try {
      const result = work();
      this.commit();
      return result;
    } catch (error) {
      this.rollback();
      throw error;
    }
  }
  // ── waiting ──

  /** Repeats the work while another connection holds the lock; errors come out typed. `since`: when the wait began, if not now. */
  patiently<T>(work: () => T, since?: () => number | undefined): Promise<T> {
    return patiently(this.path, this.#patience, work, since);
  }
  close(): void {
    try {
      // libsql leaves that to the garbage collector.
      if (!this.#isReadOnly) this.get("PRAGMA wal_checkpoint(TRUNCATE)", []);
    } catch {
      // Another connection reads: it will do the checkpoint.
    }
    this.#statements.clear();
    this.#library.close();
  }
}

/** Is it still the one that was there when it was first looked at? */
class OpenFile {
  readonly #path: string;
  #first: Stats | undefined;

  constructor(path: string) {
    this.#path = path;
    this.isThere();
  }
  /** By now, if it was not at first. */
  isThere(): void {
    this.#first ??= statSync(this.#path, { throwIfNoEntry: false });
  }
  isSame(): boolean {
    const found = statSync(this.#path, { throwIfNoEntry: false });
    return found !== undefined && found.ino === this.#first?.ino && found.dev === this.#first.dev;
  }
  check(): Stats | undefined {
    if (this.#first === undefined) return undefined;
    const found = statSync(this.#path, { throwIfNoEntry: false });
    if (found?.ino === this.#first.ino && found.dev === this.#first.dev) return found;
    throw new StoreMovedError({ where: this.#path, what: found === undefined ? "deleted" : "replaced" });
  }
}

function readyFolder(path: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  } catch (error) {
    throw noFolder(path, error);
  }
}

/**
 * What is in it is for the user of this process alone; SQLite gives its log the same mode. One that exists is left as it is, and not
 * opened: closing it releases the locks that other connections of this process have. On a file that was just created there are none.
 */
function createPrivate(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch {
    // It exists, or can't be made: SQLite says what is wrong with it.
  }
}

/** No database is smaller. */
const SMALLEST_PAGE = 512;

/**
 * SQLite takes a file of a few bytes for an empty database, and would write over it. By its size alone: opening the file and closing it
 * again releases the locks that other connections of this process have on it, and another process then deletes their log.
 */
function refuseOthers(path: string): void {
  const size = sizeOf(path);
  if (size > 0 && size < SMALLEST_PAGE) throw new StoreForeignError({ where: path, reason: "the file is not a SQLite database." });
}
function sizeOf(path: string): number {
  const found = look(path);
  if (found?.isFile() === false) throw new StoreOpenError({ where: path, reason: "it is not a file." });
  return found?.size ?? 0;
}
function look(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(where: string, cause: unknown): StoreOpenError {
  const { code = "" } = cause as NodeJS.ErrnoException;
  const reason = code === "ENAMETOOLONG" ? "its name is too long." : `it can't be read (${(cause as Error).message}).`;
  return new StoreOpenError({ where, reason, cause });
}
function noFolder(where: string, cause: unknown): StoreOpenError {
  return new StoreOpenError({ where, reason: `its folder can't be made (${(cause as Error).message}).`, cause });
}

/** Prepared, since some of them answer with a row: libsql's exec would leave them in progress. */
function set(library: Library, ...settings: readonly string[]): void {
  for (const setting of settings) library.prepare(`PRAGMA ${setting}`).get([]);
}

function useWal(library: Library, where: string): void {
  const [mode] = library.prepare("PRAGMA journal_mode = WAL").get([]) ?? [];
  if (mode !== "wal")
    throw new StoreOpenError({ where, reason: `its file system has no write-ahead log for SQLite (journal mode ${String(mode)}).` });
}

function stillBusy(where: string, patience: number, cause: unknown): StoreBusyError {
  return new StoreBusyError({ where, seconds: Math.round(patience / 1000), cause });
}

const FIRST_WAIT = 1;
const LONGEST_WAIT = 25;

async function patiently<T>(where: string, patience: number, work: () => T, since?: () => number | undefined): Promise<T> {
  const began = performance.now();
  for (let wait = FIRST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) throw storeError(error, where);
      if (performance.now() - (since?.() ?? began) >= patience) throw stillBusy(where, patience, error);
    }
    // Jitter, so that processes that collided do not collide again.
    await new Promise((done) => setTimeout(done, wait * (0.5 + Math.random())));
  }
}
