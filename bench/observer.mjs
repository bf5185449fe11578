// Observes a measurement from outside: processor time, bytes in the database, statements.

import { readFileSync } from "node:fs";

const ownMs = (since) => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1_000;
};

export async function observe({ store, file, url }) {
  if (store === "postgres") return observePostgres(url);
  return {
    /** Does the work and returns its result, with the processor time per unit of `count`. */
    async counted(work, count) {
      const before = process.cpuUsage();
      const result = await work();
      return { ...result, processorMs: ownMs(before) / count };
    },
    bytes: async () => (store === "sqlite" ? sqliteBytes(file) : undefined),
    async close() {},
  };
}

/** The size of the database, including the pages in its write-ahead log. */
async function sqliteBytes(file) {
  const { DatabaseSync } = await import("node:sqlite");
  const db = new DatabaseSync(file, { readOnly: true });
  const [{ page_count: pages }] = db.prepare("PRAGMA page_count").all();
  const [{ page_size: bytes }] = db.prepare("PRAGMA page_size").all();
  db.close();
  return pages * bytes;
}

async function observePostgres(url) {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const first = async (sql) => (await client.query(sql)).rows[0];

  /** Milliseconds of processor time by server process; empty on systems without /proc. */
  async function serverTimes() {
    const { rows } = await client.query("SELECT pid FROM pg_stat_activity");
    const times = new Map();
    for (const { pid } of rows) {
      try {
        const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
        times.set(pid, (Number(fields[11]) + Number(fields[12])) * 10);
      } catch {
        // The process has ended, or runs on another machine.
      }
    }
    return times;
  }
  async function counted(work, count) {
    const before = { server: await serverTimes(), own: process.cpuUsage() };
    const result = await work();
    const own = ownMs(before.own) / count;
    const after = await serverTimes();
    if (after.size === 0) return { ...result, ownMs: own };
    const server = [...after].reduce((sum, [pid, ms]) => sum + ms - (before.server.get(pid) ?? 0), 0) / count;
    return { ...result, ownMs: own, serverMs: server, processorMs: own + server };
  }
  const sizes = () => first("SELECT pg_database_size(current_database())::float8 AS size, (pg_current_wal_lsn() - '0/0')::float8 AS wal");
  return {
    counted,
    async bytes() {
      const { bytes } = await first(
        `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8 AS bytes FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')`,
      );
      return bytes;
    },
    /** What `count` runs cost: statements, the most frequent ones, and the bytes of tables, indexes and write-ahead log. */
    async cost(work, count) {
      const before = await sizes();
      await client.query("SELECT pg_stat_statements_reset()");
      const spent = await counted(work, count);
      const after = await sizes();
      const { rows } = await client.query(
        `SELECT s.query, s.calls::int, s.rows::int, s.total_exec_time AS ms FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
         WHERE d.datname = current_database() AND s.query !~ 'pg_stat_|pg_database_size' ORDER BY s.calls DESC`,
      );
      return {
        ...spent,
        perStep: rows.reduce((sum, { calls }) => sum + calls, 0) / count / 5,
        bytesPerRun: (after.size - before.size) / count,
        walPerRun: (after.wal - before.wal) / count,
        top: rows.slice(0, 8).map(({ query, ...row }) => ({ query: query.replace(/\s+/g, " ").slice(0, 100), ...row })),
      };
    },
    close: () => client.end(),
  };
}
