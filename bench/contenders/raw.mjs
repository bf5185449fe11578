// The raw limit: only the durable commits that a workload needs, written directly through the same driver on one connection, with as many
// rows as the workload leaves behind.

const DATA = JSON.stringify({ ok: true, text: "x".repeat(150) });
/** Runs that share a commit at concurrency 100. */
const BATCH = 100;

async function sqlite(file) {
  const { DatabaseSync } = await import("node:sqlite");
  const db = new DatabaseSync(file);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, run TEXT NOT NULL, seq INTEGER NOT NULL, data TEXT NOT NULL, UNIQUE (run, seq))");
  const insert = db.prepare("INSERT INTO rows (run, seq, data) VALUES ('run', ?, ?)");
  let seq = 0;
  return {
    async commit(rows) {
      db.exec("BEGIN IMMEDIATE");
      for (let i = 0; i < rows; i++) insert.run(seq++, DATA);
      db.exec("COMMIT");
    },
    close: async () => db.close(),
  };
}

async function postgres(url) {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    "CREATE TABLE rows (id bigserial PRIMARY KEY, run text NOT NULL, seq int NOT NULL, data text NOT NULL, UNIQUE (run, seq))",
  );
  let seq = 0;
  return {
    /** One statement, one commit. */
    async commit(rows) {
      const numbers = Array.from({ length: rows }, () => seq++);
      const text = "INSERT INTO rows (run, seq, data) SELECT 'run', n, $2 FROM unnest($1::int[]) n";
      await client.query({ name: "insert", text, values: [numbers, DATA] });
    },
    close: () => client.end(),
  };
}

export async function open({ store, file, url }) {
  const { commit, close } = await (store === "sqlite" ? sqlite(file) : postgres(url));
  const commits = async (count, rows) => {
    for (let i = 0; i < count; i++) await commit(rows);
  };
  /** The commits of `count` runs, when up to a hundred runs share each commit. */
  const shared = async (count, commitsOfEach, rowsOfEach) => {
    for (let at = 0; at < count; at += BATCH) await commits(commitsOfEach, rowsOfEach * Math.min(BATCH, count - at));
  };
  return {
    /** The creation, then one commit per step; the last also ends the run. */
    throughput: (runs) => shared(runs, 6, 2),
    latency: () => commit(1),
    depth: (steps) => commits(steps, 1),
    /** One commit for the start of the steps, one for their end. */
    width: (count) => commits(2, count),
    /** Three commits: the signal, the start of the step, its end. Before that, the rows of the existing history. */
    async longRun(steps, { evicted }) {
      if (evicted) return undefined;
      await commit(2 * steps);
      return async () => {
        const start = performance.now();
        await commits(3, 1);
        return performance.now() - start;
      };
    },
    /** A parked run of one step: itself, its step, and its result. */
    crowd: (_from, runs) => shared(runs, 1, 3),
    wake: (numbers) => shared(numbers.length, 3, 1),
    /** One commit with the requests of all waiting callers, one with their replies. The first caller does the work for all. */
    async entity() {
      let asked = 0;
      let together;
      return () => {
        asked++;
        together ??= Promise.resolve().then(async () => {
          await Promise.resolve();
          const count = asked;
          asked = 0;
          together = undefined;
          await commits(2, count);
        });
        return together;
      };
    },
    /** One commit creates the children; then each child starts its step and ends, and its parent is notified. */
    async fanOut(children) {
      await commit(children);
      await shared(children, 2, 2);
    },
    close,
  };
}
