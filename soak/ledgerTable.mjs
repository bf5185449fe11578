// The table that the workflow `ledger` writes to, on SQLite and on PostgreSQL.
// Owns: the SQL.
// Invariants: the functions are synchronous on SQLite, where a transaction can't await, and return promises on PostgreSQL.

const TABLE = "CREATE TABLE IF NOT EXISTS soak_ledger (run TEXT NOT NULL, entry INTEGER NOT NULL, amount INTEGER NOT NULL)";

/** @param {any} tx */
const isSqlite = (tx) => typeof tx.exec === "function";

/** Calls `next` at once, or when the promise `value` has resolved. @template T @param {unknown} value @param {(value: any) => T} next @returns {T | Promise<T>} */
export const after = (value, next) => (value instanceof Promise ? value.then(next) : next(value));

/** @param {any} tx @param {string} run @param {number} entry @param {number} amount */
export function addEntry(tx, run, entry, amount) {
  if (!isSqlite(tx)) return tx.query("INSERT INTO soak_ledger VALUES ($1, $2, $3)", [run, entry, amount]);
  tx.exec(TABLE);
  return tx.run("INSERT INTO soak_ledger VALUES (?, ?, ?)", run, entry, amount);
}

/** @param {any} tx @param {number} from @param {number} count @returns {any} */
export function readEntries(tx, from, count) {
  if (!isSqlite(tx)) {
    const sql = "SELECT run, entry, amount FROM soak_ledger ORDER BY run, entry, amount LIMIT $1 OFFSET $2";
    return tx.query(sql, [count, from]).then((/** @type {any} */ { rows }) => rows);
  }
  tx.exec(TABLE);
  return tx.all("SELECT run, entry, amount FROM soak_ledger ORDER BY rowid LIMIT ? OFFSET ?", count, from);
}

/** On PostgreSQL the table is created before the soak: creating it in several transactions at the same time can fail. */
export const makeTable = TABLE;
