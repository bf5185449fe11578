// node bench/explain.mjs <url of a superuser> [--closed=1000000] [--sleeping=100000] [--keep]
//
// Fills a schema of its own with generated runs and prints how the server carries out each hot statement: the time of each call, and
// EXPLAIN ANALYZE of every statement inside of the functions, as `auto_explain` sees it. Each call is rolled back. The schema is dropped
// at the end. Runs that sleep are spread among the closed ones; ids are as random ones are.

import { createHash } from "node:crypto";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { PostgresStore } from "@holdfast/postgres";
import pg from "pg";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    closed: { type: "string", default: "1000000" },
    sleeping: { type: "string", default: "100000" },
    keep: { type: "boolean", default: false },
  },
});
const [url] = positionals;
if (url === undefined) {
  console.error("Name the url of a database, as a superuser: postgres://postgres@localhost/test");
  process.exit(1);
}
const closed = Number(values.closed);
const sleeping = Number(values.sleeping);
const DUE = 1_000;
const LEASED = 1_000;
const BATCH = 100;
/** Calls that are timed, after the first. */
const ROUNDS = 30;
const schema = "holdfast_explain";
const s = `"${schema}"`;
const value = JSON.stringify({ amount: 12, customer: "c-1234567", note: "x".repeat(60) });

const client = new pg.Client({ connectionString: url });
/** @type {string[]} */
let plans = [];
client.on("notice", ({ message }) => plans.push(message ?? ""));
await client.connect();
await client.query(`DROP SCHEMA IF EXISTS ${s} CASCADE`);
const store = new PostgresStore({ connectionString: url, schema, listen: false });
await store.open();
await store.close();

/** @param {string} what @param {() => Promise<unknown>} work */
async function timed(what, work) {
  const start = performance.now();
  await work();
  console.log(`${what}: ${((performance.now() - start) / 1_000).toFixed(1)} s`);
}

const total = closed + sleeping + LEASED + DUE;
const every = Math.max(2, Math.round((closed + sleeping) / sleeping));

/** The indexes of the large tables are made when these are full: that is many times faster. @returns {Promise<string[]>} */
async function dropIndexes() {
  const { rows } = await client.query(
    `SELECT i.tablename, i.indexname, i.indexdef, c.conname IS NOT NULL AS "isKey" FROM pg_indexes i
       LEFT JOIN pg_constraint c ON c.conname = i.indexname AND c.connamespace = $1::text::regnamespace
     WHERE i.schemaname = $1::text AND i.tablename IN ('runs', 'records', 'executions')`,
    [schema],
  );
  const again = [];
  for (const { tablename, indexname, indexdef, isKey } of rows) {
    await client.query(isKey ? `ALTER TABLE ${s}.${tablename} DROP CONSTRAINT ${indexname}` : `DROP INDEX ${s}.${indexname}`);
    again.push(indexdef);
    if (isKey) again.push(`ALTER TABLE ${s}.${tablename} ADD CONSTRAINT ${indexname} PRIMARY KEY USING INDEX ${indexname}`);
  }
  return again;
}
/** The id of the run with this number, as the server makes it: `md5(i::text)::uuid`. @param {number | string} i */
function idOf(i) {
  const hex = createHash("md5").update(String(i)).digest("hex");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const indexes = await dropIndexes();
await timed(`${closed} closed runs with two records each, ${sleeping} that sleep, ${LEASED} leased, ${DUE} due`, async () => {
  await client.query(`INSERT INTO ${s}.lanes (queue, workflow, priority) VALUES ('default', 'order', 0), ('default', 'unserved', 0)`);
  await client.query(`INSERT INTO ${s}.workers (id) VALUES ('w1')`);
  const kind = `CASE WHEN i > ${total - DUE} THEN 'due' WHEN i > ${total - DUE - LEASED} THEN 'leased' WHEN i % ${every} = 0 THEN 'sleeping' ELSE 'closed' END`;
  const status = `CASE k WHEN 'closed' THEN CASE WHEN i % 1000 = 7 THEN 'failed' ELSE 'completed' END WHEN 'leased' THEN 'running' WHEN 'due' THEN 'pending' ELSE k END`;
  const workflow = `CASE WHEN k = 'sleeping' AND i / ${every} % 7 = 0 THEN 'unserved' WHEN k = 'closed' AND i % 10 = 3 THEN 'invoice' ELSE 'order' END`;
  await client.query(`INSERT INTO ${s}.runs (key, id, workflow, queue, priority, lane, status, ended_as, created_at, started_at, finished_at, available_at, worker_id,
      epoch, turns, history_length, deadline_at, attributes, output)
    SELECT i, md5(i::text)::uuid::text, w, 'default', 0, CASE w WHEN 'unserved' THEN 2 ELSE 1 END, st, CASE k WHEN 'closed' THEN st END,
      1700000000000 + i * 100, 1700000000005 + i * 100, CASE k WHEN 'closed' THEN 1700000000050 + i * 100 + i % 977 * 1000 END,
      CASE k WHEN 'sleeping' THEN 2000000000000 + i * 100 WHEN 'leased' THEN 1900000000000 WHEN 'due' THEN 1700000000000 END, CASE k WHEN 'leased' THEN 'w1' END,
      CASE k WHEN 'due' THEN 0 ELSE 1 END, CASE k WHEN 'due' THEN 0 ELSE 1 END, CASE k WHEN 'due' THEN 0 ELSE 2 END,
      CASE WHEN k = 'sleeping' AND i % 10 = 0 THEN 2000000000000 + i END,
      CASE WHEN i % 20 = 1 THEN jsonb_build_object('customer', 'c' || i / 20 % 1000) ELSE '{}' END, CASE st WHEN 'completed' THEN '${value}' END
    FROM (SELECT i, k, ${status} AS st, ${workflow} AS w FROM (SELECT i, ${kind} AS k FROM generate_series(1, ${total}) i) y) x`);
  await client.query(
    `INSERT INTO ${s}.executions (run, execution, workflow, seed, input) SELECT i, 1, 'order', md5(i::text), '${value}' FROM generate_series(1, ${total}) i`,
  );
  await client.query(`INSERT INTO ${s}.records (run, execution, turn, position, direction, type, seq, time, history_length, worker, unit, name, n, value)
    SELECT i, 1, 0, p, CASE p WHEN 0 THEN 'job' ELSE 'command' END, CASE p WHEN 0 THEN 'resolve' ELSE 'step' END, 1, CASE p WHEN 0 THEN 1700000000000 + i * 100 END,
      CASE p WHEN 0 THEN 0 END, CASE p WHEN 0 THEN 1 END, CASE p WHEN 1 THEN '' END, CASE p WHEN 1 THEN 'charge' END, CASE p WHEN 1 THEN 0 END, CASE p WHEN 0 THEN '${value}' END
    FROM generate_series(1, ${total - DUE}) i, generate_series(0, 1) p`);
  await client.query(`SELECT setval('${s}.run_keys', ${total}), setval('${s}.inbox_ids', 1000000)`);
});
await timed("indexes", async () => {
  await client.query("SET maintenance_work_mem = '1GB'");
  for (const sql of indexes) await client.query(sql);
});
await timed("VACUUM ANALYZE", async () => {
  for (const table of ["runs", "records", "executions"]) await client.query(`VACUUM ANALYZE ${s}.${table}`);
});

const leased = Array.from({ length: BATCH }, (_, i) => idOf(closed + sleeping + 1 + i)).sort();
const asleep = Array.from({ length: BATCH }, (_, i) => idOf(every * (1 + Math.floor(((i + 0.5) * sleeping) / BATCH))));
const runsOn = 0;
const changes = 1;
const ends = 2;
/**
 * A turn of each of the leased runs, with a job and a command, as the store hands them over.
 * @param {number} kind @param {object} more @param {string | null} ending @returns {[string, unknown[]]}
 */
function commit(kind, more, ending = null) {
  const turns = leased.map((id, i) => ({ i: i + 1, id, x: 1, e: 1, t: 1, n: 2, s: "running", k: true, seen: 0, ti: 1, hl: 2, ...more }));
  const places = leased.flatMap((_, i) => [i + 1, 0, 1, 1, -1, i + 1, 1, 2, 2, 0]);
  const pairs = (/** @type {string | null} */ job, /** @type {string | null} */ command) => leased.flatMap(() => [job, command]);
  return [
    "commit_turns_1('bench', 1, $1, NULL, $2::text[], $3::bigint[], $4, $5::integer[], $6::text[], $7::text[], $8::text[], NULL, NULL, $9::text[], NULL, NULL, NULL, NULL, $10)",
    [
      leased,
      leased.flatMap(() => [1, 1, 0, kind, -1, 1, 1, 2, 1]),
      JSON.stringify(turns),
      places,
      pairs("resolve", "step"),
      pairs(null, ""),
      pairs(null, "charge"),
      pairs(value, null),
      ending,
    ],
  ];
}
const news = JSON.stringify(
  Array.from({ length: BATCH }, (_, i) => ({
    i: i + 1,
    id: idOf(`new ${i}`),
    workflow: "order",
    queue: "default",
    priority: 0,
    lane: 1,
    seed: "s",
    input: value,
    attributes: {},
    conflict: "reject",
  })),
);
const signals = JSON.stringify(asleep.map((r, o) => ({ o, r, y: "signal", m: "poke", f: [`s${o}`], v: value })));
const held = JSON.stringify(leased.map((id, i) => ({ i, id, e: 1, seen: 0 })));

let token = 0;
/** @type {[string, string, unknown[]][]} */
const calls = [
  ["commit of 100 turns", ...commit(runsOn, {})],
  ["commit of 100 turns that park", ...commit(changes, { k: false, s: "sleeping", wake: 1999999999999 })],
  ["commit of 100 turns that end", ...commit(ends, { c: "completed", o: value }, JSON.stringify(leased))],
  ["create of 100 runs", "create_runs_1('bench', 1, $1, NULL, $2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)", [news]],
  ["claim of 100 runs", `claim_runs_1('bench', 1, $1, 1800000000000, 'w2', 'default', '[{"w":"order","a":true}]', 100, 30000, false)`, []],
  [
    "claim that finds nothing",
    `claim_runs_1('bench', 1, $1, 1600000000000, 'w2', 'default', '[{"w":"order","a":true}]', 100, 30000, false)`,
    [],
  ],
  ["send of 100 signals", "send_messages_1('bench', 1, $1, NULL, $2, NULL)", [signals]],
  ["renewal of 100 leases", "renew_leases_1(coalesce($1::bigint, 0) + 1899999000000, 'w1', 30000, $2)", [held]],
  ["look at what is overdue", "overdue_1(coalesce($1::bigint, 0) + 1800000000000, 500)", []],
  ["retention, 100 runs", "retire_runs_1(coalesce($1::bigint, 0) + 1790000000000, -1, 0, 100, false)", []],
];
const lists = [
  ["list, newest first", `SELECT key FROM ${s}.runs r ORDER BY created_at DESC, key DESC LIMIT 21`],
  ["list of what failed", `SELECT key FROM ${s}.runs r WHERE ended_as IN ('failed') ORDER BY created_at DESC, key DESC LIMIT 21`],
  [
    "list of what runs",
    `SELECT key FROM ${s}.runs r WHERE ended_as IS NULL AND status IN ('running') ORDER BY created_at DESC, key DESC LIMIT 21`,
  ],
  [
    "list by attribute",
    `SELECT key FROM ${s}.runs r WHERE attributes @> '{"customer":"c120"}' AND attributes <> '{}' ORDER BY created_at DESC, key DESC LIMIT 21`,
  ],
];

console.log("\nTime on the server in ms: the first call, then the median");
for (const [what, call, parameters] of calls) {
  const times = [];
  for (let i = 0; i <= ROUNDS; i++) {
    await client.query("BEGIN");
    const { rows } = await client.query(`EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) SELECT * FROM ${s}.${call}`, [++token, ...parameters]);
    await client.query("ROLLBACK");
    times.push(Number(rows[0]["QUERY PLAN"][0]["Execution Time"]));
  }
  const [first = 0, ...rest] = times;
  const median = rest.toSorted((a, b) => a - b)[ROUNDS / 2] ?? 0;
  console.log(`${first.toFixed(2).padStart(9)} ${median.toFixed(2).padStart(9)}  ${what}`);
}

await client.query(`LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET auto_explain.log_analyze = on;
  SET client_min_messages = log`);
for (const [what, call, parameters] of calls) {
  // Plans are made anew for the first five calls, and kept after that: the seventh shows what stays.
  for (let i = 0; i < 7; i++) {
    plans = [];
    await client.query("BEGIN");
    await client.query(`SELECT * FROM ${s}.${call}`, [++token, ...parameters]);
    await client.query("ROLLBACK");
  }
  print(what);
}
for (const [what, sql] of lists) {
  plans = [];
  await client.query(sql ?? "");
  print(what ?? "");
}
if (!values.keep) await client.query(`SET client_min_messages = warning; DROP SCHEMA ${s} CASCADE`);
await client.end();

/** Of each statement: its time, its beginning, and the nodes that read or change tables. @param {string} what */
function print(what) {
  console.log(`\n== ${what}`);
  for (const plan of plans) {
    const [head = "", ...lines] = plan.split("\n");
    const from = lines.findIndex((line) => /\(cost=/.test(line));
    const text = lines
      .slice(0, from)
      .join(" ")
      .replace(/^Query Text: /, "")
      .replace(/\s+/g, " ")
      .replaceAll(`${s}.`, "");
    if (from < 0 || /^SELECT \* FROM (?:\w+)_1\(/.test(text)) continue;
    console.log(`${/duration: ([\d.]+)/.exec(head)?.[1]?.padStart(8)} ms  ${text.slice(0, 110)}`);
    for (const line of lines.slice(from)) {
      const node =
        /^\s*(?:->\s+)?((?:Seq|Index|Index Only|Bitmap Index|Bitmap Heap|Function|Tid)? ?(?:Scan|Insert|Update|Delete|LockRows).*?)\s+\(cost=.*?(\(actual .*?\)|\(never executed\))/.exec(
          line,
        );
      if (node !== null && !/Function Scan|CTE Scan|WorkTable|Subquery Scan/.test(node[1] ?? ""))
        console.log(`             ${node[1]} ${node[2]}`);
    }
  }
}
