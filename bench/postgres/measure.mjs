// One contender, one workload, one process, one fresh database: prints one line of JSON. Each is warmed up first, as a server is.
// Beside the clock there is processor time, the server's and this process's: it hardly depends on what else the machine does.
import { readFileSync } from "node:fs";
import pg from "pg";

const [contender, workload, size, url, given] = process.argv.slice(2);
const options = JSON.parse(given ?? "{}");
const count = Number(size);
const { open } = await import(`./contenders/${contender}.mjs`);
const subject = await open(url, options);
const observer = new pg.Client({ connectionString: url });
await observer.connect();

const timed = async (run) => {
  const start = performance.now();
  await run();
  return performance.now() - start;
};
const quantile = (values, q) => values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))];

async function latencies(times) {
  const values = [];
  for (let i = 0; i < times; i++) values.push(await timed(() => subject.latency()));
  return { p50: quantile(values, 0.5), p99: quantile(values, 0.99) };
}

/** Milliseconds of processor time that each process of the server has used; of none where there is no /proc. */
async function serverTimes() {
  const { rows } = await observer.query("SELECT pid FROM pg_stat_activity");
  const times = new Map();
  for (const { pid } of rows) {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
      times.set(pid, (Number(fields[11]) + Number(fields[12])) * 10);
    } catch {
      // It has gone meanwhile, or it is on another machine.
    }
  }
  return times;
}
/** Does the work, and says what it came to with the processor time that it took. */
async function counted(work) {
  const before = { server: await serverTimes(), own: process.cpuUsage() };
  const result = await work();
  const own = process.cpuUsage(before.own);
  const after = await serverTimes();
  const server = [...after].reduce((sum, [pid, ms]) => sum + ms - (before.server.get(pid) ?? 0), 0);
  return { ...result, serverMs: after.size === 0 ? undefined : server, ownMs: (own.user + own.system) / 1_000 };
}

/** Statements that `count` runs take, and which the most often; bytes of tables and indexes, and of write-ahead log. */
async function cost() {
  const sizes = async () =>
    (await observer.query("SELECT pg_database_size(current_database())::int AS size, (pg_current_wal_lsn() - '0/0')::float8 AS wal"))
      .rows[0];
  const before = await sizes();
  await observer.query("SELECT pg_stat_statements_reset()");
  await subject.throughput(count);
  const after = await sizes();
  const { rows } = await observer.query(
    `SELECT s.query, s.calls::int, s.rows::int, s.total_exec_time AS ms FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
     WHERE d.datname = current_database() AND s.query !~ 'pg_stat_|pg_database_size' ORDER BY s.calls DESC`,
  );
  const calls = rows.reduce((sum, row) => sum + row.calls, 0);
  return {
    perStep: calls / count / 5,
    bytesPerRun: (after.size - before.size) / count,
    walPerRun: (after.wal - before.wal) / count,
    top: rows.slice(0, 8),
  };
}

const times = async (number, work) => {
  for (let i = 0; i < number; i++) await work();
};
const rate = async (work) => ({ rate: count / ((await timed(work)) / 1_000) });
const duration = async (work) => ({ ms: await timed(work) });

let result;
switch (workload) {
  case "W1":
    await times(2, () => subject.throughput(count));
    result = await counted(() => rate(() => subject.throughput(count)));
    break;
  case "W2":
    await times(Math.min(20, count / 4), () => subject.latency());
    result = await counted(() => latencies(count));
    break;
  case "W3":
    await subject.depth(900);
    result = await counted(() => duration(() => subject.depth(count)));
    break;
  case "W4":
    await times(3, () => subject.width(count));
    result = await counted(() => duration(() => subject.width(count)));
    break;
  case "cost":
    await times(2, () => subject.throughput(count));
    result = await counted(cost);
    break;
  case "crowd": {
    await times(50, () => subject.latency());
    const before = await latencies(200);
    await subject.crowd(count);
    result = { before, after: await latencies(200) };
    break;
  }
  case "workers":
    await subject.crew(options.processes);
    await subject.handed(Math.ceil(count / 4));
    result = await counted(() => rate(() => subject.handed(count)));
    break;
  default:
    throw new Error(`no workload ${workload}`);
}
await observer.end();
await subject.close();
console.log(JSON.stringify(result));
process.exit(0);
