// One contender, one workload, one process, one fresh database: prints one line of JSON. Each is warmed up first, as a server is.
import { readFileSync } from "node:fs";
import pg from "pg";

const [contender, workload, size, url, given] = process.argv.slice(2);
const options = JSON.parse(given ?? "{}");
const count = Number(size);
const { open } = await import(`./contenders/${contender}.mjs`);
const subject = await open(url, options);
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

/** Milliseconds of processor time that the server's processes have used, where /proc tells. */
async function serverTime(client) {
  const { rows } = await client.query("SELECT pid FROM pg_stat_activity");
  const ticks = rows.map(({ pid }) => {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
      return Number(fields[11]) + Number(fields[12]);
    } catch {
      return Number.NaN;
    }
  });
  return ticks.reduce((sum, one) => sum + one, 0) * 10;
}

/** What `count` runs cost: statements, and which the most often; bytes of tables and indexes, and of write-ahead log; processor time. */
async function cost() {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const sizes = "SELECT pg_database_size(current_database())::int AS size, (pg_current_wal_lsn() - '0/0')::float8 AS wal";
  const state = async () => ({ ...(await client.query(sizes)).rows[0], server: await serverTime(client), own: process.cpuUsage() });
  const before = await state();
  await client.query("SELECT pg_stat_statements_reset()");
  await subject.throughput(count);
  const after = await state();
  const { rows } = await client.query(
    `SELECT s.query, s.calls::int, s.rows::int, s.total_exec_time AS ms FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
     WHERE d.datname = current_database() AND s.query !~ 'pg_stat_|pg_database_size' ORDER BY s.calls DESC`,
  );
  await client.end();
  const calls = rows.reduce((sum, row) => sum + row.calls, 0);
  return {
    perRun: calls / count,
    perStep: calls / count / 5,
    bytesPerRun: (after.size - before.size) / count,
    walPerRun: (after.wal - before.wal) / count,
    serverMsPerRun: (after.server - before.server) / count,
    ownMsPerRun: (after.own.user + after.own.system - before.own.user - before.own.system) / 1_000 / count,
    top: rows.slice(0, 8),
  };
}

let result;
switch (workload) {
  case "W1":
    for (let i = 0; i < 2; i++) await subject.throughput(count);
    result = { rate: count / ((await timed(() => subject.throughput(count))) / 1000) };
    break;
  case "W2":
    for (let i = 0; i < Math.min(20, count / 4); i++) await subject.latency();
    result = await latencies(count);
    break;
  case "W3":
    await subject.depth(900);
    result = { ms: await timed(() => subject.depth(count)) };
    break;
  case "W4":
    for (let i = 0; i < 3; i++) await subject.width(count);
    result = { ms: await timed(() => subject.width(count)) };
    break;
  case "crowd": {
    for (let i = 0; i < 50; i++) await subject.latency();
    const before = await latencies(200);
    await subject.crowd(count);
    result = { before, after: await latencies(200) };
    break;
  }
  case "cost":
    for (let i = 0; i < 2; i++) await subject.throughput(count);
    result = await cost();
    break;
  case "workers":
    await subject.crew(options.processes);
    await subject.handed(Math.ceil(count / 4));
    result = { rate: count / ((await timed(() => subject.handed(count))) / 1000) };
    break;
  default:
    throw new Error(`no workload ${workload}`);
}
await subject.close();
console.log(JSON.stringify(result));
process.exit(0);
