// The raw limit: the same number of durable commits done by hand on one connection.
import pg from "pg";

export async function open(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    "CREATE TABLE rows (id bigserial PRIMARY KEY, run text NOT NULL, seq int NOT NULL, data text NOT NULL, UNIQUE (run, seq))",
  );
  const data = JSON.stringify({ ok: true, text: "x".repeat(150) });
  let seq = 0;
  /** One statement, one commit. */
  const commit = (rows) => {
    const numbers = Array.from({ length: rows }, () => seq++);
    return client.query({
      name: "insert",
      text: "INSERT INTO rows (run, seq, data) SELECT 'run', n, $2 FROM unnest($1::int[]) n",
      values: [numbers, data],
    });
  };
  return {
    /** Twelve rows a run, a hundred runs a commit: what five steps leave behind. */
    async throughput(runs) {
      for (let at = 0; at < runs; at += 100) for (let step = 0; step < 6; step++) await commit(2 * Math.min(100, runs - at));
    },
    async latency() {
      await commit(1);
    },
    async depth(steps) {
      for (let i = 0; i < steps; i++) await commit(1);
    },
    async width(count) {
      await commit(count);
      await commit(count);
    },
    async close() {
      await client.end();
    },
  };
}
