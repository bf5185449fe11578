// The raw limit: the durable commits that a workload can't do without, done by hand through the same driver and on one connection, with
// as many rows as the work leaves behind.

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
  /** What `each` of so many leave in so many commits, when up to a hundred share one. */
  const shared = async (count, commitsOfEach, rowsOfEach) => {
    for (let at = 0; at < count; at += BATCH) await commits(commitsOfEach, rowsOfEach * Math.min(BATCH, count - at));
  };
  return {
    /** Creation, and a commit a step, the last with the end. */
    throughput: (runs) => shared(runs, 6, 2),
    latency: () => commit(1),
    depth: (steps) => commits(steps, 1),
    /** That they start, and that they have ended. */
    width: (count) => commits(2, count),
    /** The signal, that the step starts, that it has ended; and 10,000 rows that are there before. */
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
    /** Fifty at once: what they ask, then what they are told. One caller of fifty does the work for all. */
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
    /** The children are created by one commit; each of them starts its step and ends, and its parent is told. */
    async fanOut(children) {
      await commit(children);
      await shared(children, 2, 2);
    },
    close,
  };
}
