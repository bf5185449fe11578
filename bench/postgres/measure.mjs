// One contender, one workload, one process, one fresh database: prints one line of JSON. Each is warmed up first, as a server is.
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

/** What `count` runs cost the server: statements, and which the most often; bytes of tables and indexes; bytes of write-ahead log. */
async function statements() {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const bytes = async () =>
    (await client.query("SELECT pg_database_size(current_database())::int AS size, (pg_current_wal_lsn() - '0/0')::float8 AS wal")).rows[0];
  const before = await bytes();
  await client.query("SELECT pg_stat_statements_reset()");
  await subject.throughput(count);
  const after = await bytes();
  const { rows } = await client.query(
    `SELECT s.query, s.calls::int, s.rows::int, s.total_exec_time AS ms FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
     WHERE d.datname = current_database() AND s.query !~ 'pg_stat_statements|pg_database_size' ORDER BY s.calls DESC`,
  );
  await client.end();
  const calls = rows.reduce((sum, row) => sum + row.calls, 0);
  return {
    perRun: calls / count,
    perStep: calls / count / 5,
    bytesPerRun: (after.size - before.size) / count,
    walPerRun: (after.wal - before.wal) / count,
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
  case "statements":
    await subject.throughput(count);
    result = await statements();
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
