// node bench/explain.mjs <url of a superuser> [--closed=1000000] [--sleeping=100000] [--keep]
//
// Fills a schema of its own with generated runs and prints how the server carries out each hot statement: EXPLAIN ANALYZE of every
// statement inside of the functions, as `auto_explain` sees it. Each call is rolled back. The schema is dropped at the end.

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

await timed(`${closed} closed runs with two records each, ${sleeping} that sleep, ${LEASED} leased, ${DUE} due`, async () => {
  await client.query(`INSERT INTO ${s}.lanes (queue, workflow, priority) VALUES ('default', 'order', 0), ('default', 'unserved', 0)`);
  await client.query(`INSERT INTO ${s}.workers (id) VALUES ('w1')`);
  const total = closed + sleeping + LEASED + DUE;
  const kind = `CASE WHEN i <= ${closed} THEN 'closed' WHEN i <= ${closed + sleeping} THEN 'sleeping' WHEN i <= ${closed + sleeping + LEASED} THEN 'leased' ELSE 'due' END`;
  await client.query(`INSERT INTO ${s}.runs (key, id, workflow, queue, priority, lane, status, ended_as, created_at, started_at, finished_at, available_at, worker_id,
      epoch, turns, history_length, deadline_at, attributes)
    SELECT i, 'run-' || i, CASE WHEN i % 7 = 0 AND k = 'sleeping' THEN 'unserved' ELSE 'order' END, 'default', 0, CASE WHEN i % 7 = 0 AND k = 'sleeping' THEN 2 ELSE 1 END,
      CASE k WHEN 'closed' THEN 'completed' WHEN 'leased' THEN 'running' WHEN 'due' THEN 'pending' ELSE k END, CASE k WHEN 'closed' THEN 'completed' END,
      1700000000000 + i, 1700000000000 + i, CASE k WHEN 'closed' THEN 1700000000000 + i END,
      CASE k WHEN 'sleeping' THEN 2000000000000 + i WHEN 'leased' THEN 1900000000000 WHEN 'due' THEN 1700000000000 END, CASE k WHEN 'leased' THEN 'w1' END,
      CASE k WHEN 'due' THEN 0 ELSE 1 END, CASE k WHEN 'due' THEN 0 ELSE 1 END, CASE k WHEN 'due' THEN 0 ELSE 2 END,
      CASE WHEN k = 'sleeping' AND i % 10 = 0 THEN 2000000000000 + i END, CASE WHEN i % 20 = 0 THEN jsonb_build_object('customer', 'c' || i % 1000) ELSE '{}' END
    FROM (SELECT i, ${kind} AS k FROM generate_series(1, ${total}) i) x`);
  await client.query(
    `INSERT INTO ${s}.executions (run, execution, workflow, seed, input) SELECT i, 1, 'order', 'seed', '${value}' FROM generate_series(1, ${total}) i`,
  );
  await client.query(`INSERT INTO ${s}.records (run, execution, turn, position, direction, type, seq, time, history_length, worker, unit, name, n, value)
    SELECT i, 1, 0, p, CASE p WHEN 0 THEN 'job' ELSE 'command' END, CASE p WHEN 0 THEN 'resolve' ELSE 'step' END, 1, 1, CASE p WHEN 0 THEN 0 END, 1, '', 'charge', 0, '${value}'
    FROM generate_series(1, ${total - DUE}) i, generate_series(0, 1) p`);
  await client.query(`SELECT setval('${s}.run_keys', ${total}), setval('${s}.inbox_ids', 1000000)`);
});
await timed("VACUUM ANALYZE", async () => {
  for (const table of ["runs", "records", "executions"]) await client.query(`VACUUM ANALYZE ${s}.${table}`);
});

await client.query(`LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET auto_explain.log_analyze = on;
  SET client_min_messages = log`);

const leased = Array.from({ length: BATCH }, (_, i) => `run-${closed + sleeping + 1 + i}`);
const asleep = Array.from({ length: BATCH }, (_, i) => `run-${closed + 1 + i * 7 + 1}`);
const turns = (/** @type {object} */ more) =>
  JSON.stringify(
    leased.map((id, i) => ({ i: i + 1, id, x: 1, e: 1, t: 1, n: 2, s: "running", k: true, seen: 0, ti: 1, tm: 1, hl: 2, w: 1, ...more })),
  );
const records = JSON.stringify(
  leased.flatMap((_, i) => [
    { i: i + 1, p: 0, k: "job", y: "resolve", q: 1, v: value },
    { i: i + 1, p: 1, k: "command", y: "step", q: 2, u: "", m: "charge", n: 0 },
  ]),
);
const news = JSON.stringify(
  Array.from({ length: BATCH }, (_, i) => ({
    i: i + 1,
    id: `new-${i}`,
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
  ["commit of 100 turns", "commit_turns_1('bench', 1, $1, NULL, $2, $3, NULL, NULL, NULL, NULL)", [turns({}), records]],
  [
    "commit of 100 turns that park",
    "commit_turns_1('bench', 1, $1, NULL, $2, $3, NULL, NULL, NULL, NULL)",
    [turns({ k: false, s: "sleeping", wake: 1999999999999 }), records],
  ],
  [
    "commit of 100 turns that end",
    "commit_turns_1('bench', 1, $1, NULL, $2, $3, NULL, NULL, NULL, $4)",
    [turns({ c: "completed", o: value }), records, JSON.stringify(leased)],
  ],
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
  ["retention, 100 runs", "retire_runs_1(coalesce($1::bigint, 0) + 1700000050000, -1, 0, 100, false)", []],
];
const lists = [
  ["list, newest first", `SELECT key FROM ${s}.runs r ORDER BY created_at DESC, key DESC LIMIT 21`],
  ["list of what failed", `SELECT key FROM ${s}.runs r WHERE ended_as IN ('failed') ORDER BY created_at DESC, key DESC LIMIT 21`],
  [
    "list of what runs",
    `SELECT key FROM ${s}.runs r WHERE finished_at IS NULL AND status IN ('running') ORDER BY created_at DESC, key DESC LIMIT 21`,
  ],
  [
    "list by attribute",
    `SELECT key FROM ${s}.runs r WHERE attributes @> '{"customer":"c120"}' AND attributes <> '{}' ORDER BY created_at DESC, key DESC LIMIT 21`,
  ],
];

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
