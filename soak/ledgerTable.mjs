// The table that the ledger books into, on whatever database its transactions are of.
// Owns: the SQL.
// Invariants: on SQLite a transaction's function can't wait, on PostgreSQL it must: each answers in its own way.

const TABLE = "CREATE TABLE IF NOT EXISTS soak_ledger (run TEXT NOT NULL, entry INTEGER NOT NULL, amount INTEGER NOT NULL)";

/** @param {any} tx */
const isSqlite = (tx) => typeof tx.exec === "function";

/** Calls `next` now, or when `value` is there. @template T @param {unknown} value @param {(value: any) => T} next @returns {T | Promise<T>} */
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

/** PostgreSQL does not like many to make the same table at once: it is made before. */
export const makeTable = TABLE;
