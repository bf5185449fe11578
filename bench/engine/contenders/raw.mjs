// The raw limit: the same number of durable commits done by hand through the same driver, on the same kind of file.
async function driver(file) {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > 22 || (major === 22 && minor >= 13)) {
    const { DatabaseSync } = await import("node:sqlite");
    return new DatabaseSync(file);
  }
  const { default: Database } = await import("libsql");
  return new Database(file);
}

export async function open(file, { synchronous = "FULL" }) {
  const db = await driver(file);
  db.exec("PRAGMA journal_mode = WAL");
  db.exec(`PRAGMA synchronous = ${synchronous}`);
  db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, run TEXT NOT NULL, seq INTEGER NOT NULL, data TEXT NOT NULL, UNIQUE (run, seq))");
  const insert = db.prepare("INSERT INTO rows (run, seq, data) VALUES (?, ?, ?)");
  const data = JSON.stringify({ ok: true, text: "x".repeat(150) });
  let seq = 0;
  const commit = (rows) => {
    db.exec("BEGIN IMMEDIATE");
    for (let i = 0; i < rows; i++) insert.run("run", seq++, data);
    db.exec("COMMIT");
  };
  return {
    /** Twelve rows a run, a hundred runs a commit: what five steps leave behind. */
    async throughput(runs) {
      for (let at = 0; at < runs; at += 100) for (let step = 0; step < 6; step++) commit(2 * Math.min(100, runs - at));
    },
    async latency() {
      commit(1);
    },
    async depth(steps) {
      for (let i = 0; i < steps; i++) commit(1);
    },
    async width(count) {
      commit(count);
      commit(count);
    },
    async close() {
      db.close();
    },
  };
}
