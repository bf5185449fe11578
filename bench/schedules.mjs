// node scripts/with-setup.mjs bench/schedules.mjs [--store memory,sqlite,postgres] [--idle 100000] [--due 10000]
// Measures what schedules cost: the look at deadlines without any and with many that are idle, and how long many that are due at once take to
// be started, from the moment at which they are due until all of their runs exist.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { PostgresStore } from "@holdfast/postgres";
import { ask, startServer } from "@holdfast/postgres-server";
import { Holdfast } from "holdfast";
import { MemoryStore, SqliteStore } from "holdfast/store";

const HOUR = 3_600_000;
const LOOKS = 100;

const { values } = parseArgs({
  options: {
    store: { type: "string", default: "memory,sqlite,postgres" },
    idle: { type: "string", default: "100000" },
    due: { type: "string", default: "10000" },
  },
});
const idle = Number(values.idle);
const due = Number(values.due);

/** What the engine keeps of a schedule of a workflow without input. */
const spec = JSON.stringify({
  cron: "0 * * * *",
  timezone: "Europe/Berlin",
  overlap: "skip",
  catchUp: "1d",
  run: { workflow: "noop", isChecked: true, input: null, queue: "default", priority: 0, attributes: {}, signals: [] },
});

for (const name of values.store.split(",")) await measure(name);

async function measure(name) {
  let skipped = 0;
  const clock = () => Date.now() + skipped;
  const { store, fill, close } = await open(name, clock);
  const engine = await Holdfast.with({ store });
  const without = await look(store);
  await fill(idle, "idle", clock() + 1_000 * HOUR);
  const withIdle = await look(store);
  console.log(`${name}: a look takes ${without} ms without schedules, ${withIdle} ms with ${idle} idle ones (median of ${LOOKS})`);
  const tick = Math.ceil(clock() / HOUR) * HOUR;
  await fill(due, "due", tick);
  skipped = tick - Date.now();
  const since = performance.now();
  const processor = process.cpuUsage();
  for (let last; last === undefined; ) {
    await new Promise((done) => setTimeout(done, 50));
    const { schedules } = await store.expire();
    if (schedules.length === 0) [last] = [performance.now()];
  }
  const seconds = ((performance.now() - since) / 1_000).toFixed(2);
  const { user, system } = process.cpuUsage(processor);
  const { pending } = await engine.count({ workflow: "noop" });
  console.log(
    `${name}: ${pending} of ${due} that were due at once started in ${seconds} s (${((user + system) / 1e6).toFixed(2)} s of processor time here)`,
  );
  await engine.close();
  await close();
}

/** The median, in milliseconds. */
async function look(store) {
  const times = [];
  for (let i = 0; i < LOOKS; i++) {
    const since = performance.now();
    await store.expire();
    times.push(performance.now() - since);
  }
  return times.sort((a, b) => a - b)[LOOKS / 2].toFixed(3);
}

async function open(name, clock) {
  const byCalls = (store) => async (count, prefix, tick) => {
    for (let from = 0; from < count; from += 200) {
      const some = Array.from({ length: Math.min(200, count - from) }, (_, i) => `${prefix}${from + i}`);
      const after = { revision: "r", spec, isPaused: false, tick, dueAt: tick };
      await Promise.all(some.map((id) => store.changeSchedule({ id, before: undefined, after })));
    }
  };
  if (name === "memory") {
    const store = new MemoryStore({ clock });
    return { store, fill: byCalls(store), close: async () => {} };
  }
  if (name === "sqlite") {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
    const store = new SqliteStore(join(folder, "bench.db"), { clock });
    return { store, fill: byCalls(store), close: async () => rmSync(folder, { recursive: true }) };
  }
  const server = await startServer();
  const connectionString = await server.createDatabase();
  const store = new PostgresStore({ connectionString, clock });
  const fill = async (count, prefix, tick) => {
    const text = spec.replaceAll("'", "''");
    await ask(
      connectionString,
      `INSERT INTO holdfast.schedules (id, revision, spec, paused, tick, due_at)
         SELECT '${prefix}' || i, 'r', '${text}', false, ${tick}, ${tick} FROM generate_series(1, ${count}) i`,
    );
    await ask(connectionString, "ANALYZE holdfast.schedules");
  };
  return { store, fill, close: () => server.stop() };
}
