// node bench/explain.mjs <url of a superuser> [--closed=1000000] [--sleeping=100000] [--only=list] [--keep]
//
// Fills a separate schema with generated runs and prints how the server executes the statements of the store: the time of each call and
// list, and EXPLAIN ANALYZE of every statement inside of the functions, from `auto_explain`. Each call is rolled back. The schema is
// dropped at the end. Sleeping runs are spread among the closed ones; ids are distributed like random ones. `--only` selects calls by the
// beginning of their name; `--keep` keeps the schema for the next time.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { PostgresStore } from "@holdfast/postgres";

// The same module instance that the store uses, to intercept its statements.
/** @type {typeof import("pg")} */
const pg = createRequire(import.meta.resolve("@holdfast/postgres"))("pg");

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    closed: { type: "string", default: "1000000" },
    sleeping: { type: "string", default: "100000" },
    keep: { type: "boolean", default: false },
    only: { type: "string", default: "" },
  },
});
const [url] = positionals;
if (url === undefined) {
  console.error("Pass the URL of a database, as a superuser: postgres://postgres@localhost/test");
  process.exit(1);
}
const closed = Number(values.closed);
const sleeping = Number(values.sleeping);
const DUE = 1_000;
const LEASED = 1_000;
const BATCH = 100;
/** How many calls are timed after the first, and for how long at most. */
const ROUNDS = 30;
const MOST_MS = 5_000;
const schema = "holdfast_explain";
const s = `"${schema}"`;
const value = JSON.stringify({ amount: 12, customer: "c-1234567", note: "x".repeat(60) });

const client = new pg.Client({ connectionString: url });
/** @type {string[]} */
let plans = [];
client.on("notice", ({ message }) => plans.push(message ?? ""));
await client.connect();
const { rows: there } = await client.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema]);
const store = new PostgresStore({ connectionString: url, schema, retention: 0 });
await store.open();

/** @param {string} what @param {() => Promise<unknown>} work */
async function timed(what, work) {
  const start = performance.now();
  await work();
  console.log(`${what}: ${((performance.now() - start) / 1_000).toFixed(1)} s`);
}

const total = closed + sleeping + LEASED + DUE;
const every = Math.max(2, Math.round((closed + sleeping) / sleeping));

/** Drops the indexes of the large tables and returns the statements that create them: filling the tables first is much faster. @returns {Promise<string[]>} */
async function dropIndexes() {
  const { rows } = await client.query(
    `SELECT i.tablename, i.indexname, i.indexdef, c.conname IS NOT NULL AS "isKey" FROM pg_indexes i
       LEFT JOIN pg_constraint c ON c.conname = i.indexname AND c.connamespace = $1::text::regnamespace
     WHERE i.schemaname = $1::text AND i.tablename IN ('runs', 'records', 'executions', 'states')`,
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
/** The id of the run with this number, as `md5(i::text)::uuid` on the server. @param {number | string} i */
function idOf(i) {
  const hex = createHash("md5").update(String(i)).digest("hex");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

async function fill() {
  const indexes = await dropIndexes();
  await timed(`${closed} closed runs with two records each, ${sleeping} that sleep, ${LEASED} leased, ${DUE} due`, async () => {
    await client.query(`INSERT INTO ${s}.lanes (queue, workflow, priority) VALUES ('default', 'order', 0), ('default', 'unserved', 0)`);
    await client.query(`INSERT INTO ${s}.workers (id) VALUES ('w1')`);
    const kind = `CASE WHEN i > ${total - DUE} THEN 'due' WHEN i > ${total - DUE - LEASED} THEN 'leased' WHEN i % ${every} = 0 THEN 'sleeping' ELSE 'closed' END`;
    const status = `CASE k WHEN 'closed' THEN CASE WHEN i % 1000 = 7 THEN 'failed' WHEN i % 10000 = 11 THEN 'canceled' ELSE 'completed' END WHEN 'leased' THEN 'running' WHEN 'due' THEN 'pending' ELSE k END`;
    const workflow = `CASE WHEN k = 'sleeping' AND i / ${every} % 7 = 0 THEN 'unserved' WHEN k = 'closed' AND i % 10 = 3 THEN 'invoice' ELSE 'order' END`;
    await client.query(`INSERT INTO ${s}.runs (key, id, workflow, queue, priority, lane, status, ended_as, created_at, started_at, finished_at, available_at, worker_id,
        epoch, turns, history_length, deadline_at, parent_id, attributes, output)
      SELECT i, md5(i::text)::uuid::text, w, CASE WHEN k = 'closed' AND i % 100000 = 9 THEN 'rare' ELSE 'default' END, 0, CASE w WHEN 'unserved' THEN 2 ELSE 1 END, st, CASE k WHEN 'closed' THEN st END,
        1700000000000 + i * 100, 1700000000005 + i * 100, CASE k WHEN 'closed' THEN 1700000000050 + i * 100 + i % 977 * 1000 END,
        CASE k WHEN 'sleeping' THEN 2000000000000 + i * 100 WHEN 'leased' THEN 1900000000000 WHEN 'due' THEN 1700000000000 END, CASE k WHEN 'leased' THEN 'w1' END,
        CASE k WHEN 'due' THEN 0 ELSE 1 END, CASE k WHEN 'due' THEN 0 ELSE 1 END, CASE k WHEN 'due' THEN 0 ELSE 2 END,
        CASE WHEN k = 'sleeping' AND i % 10 = 0 THEN 2000000000000 + i END,
        CASE WHEN i <= 50000 AND i % 5 = 4 THEN 'large' WHEN k = 'closed' AND i % 100 = 2 THEN md5((i / 1000 * 1000 + 1)::text)::uuid::text END,
        CASE WHEN i % 20 = 1 THEN jsonb_build_object('customer', 'c' || i / 20 % 1000) WHEN i % 200 = 5 THEN '{"tier":"gold"}' ELSE '{}' END, CASE st WHEN 'completed' THEN '${value}' END
      FROM (SELECT i, k, ${status} AS st, ${workflow} AS w FROM (SELECT i, ${kind} AS k FROM generate_series(1, ${total}) i) y) x`);
    await client.query(
      `INSERT INTO ${s}.executions (run, execution, workflow, seed, input) SELECT i, 1, 'order', md5(i::text), '${value}' FROM generate_series(1, ${total}) i`,
    );
    await client.query(`INSERT INTO ${s}.records (run, execution, turn, position, direction, type, seq, time, history_length, worker, unit, name, n, value)
      SELECT i, 1, 0, p, CASE p WHEN 0 THEN 'job' ELSE 'command' END, CASE p WHEN 0 THEN 'resolve' ELSE 'step' END, 1, CASE p WHEN 0 THEN 1700000000000 + i * 100 END,
        CASE p WHEN 0 THEN 0 END, CASE p WHEN 0 THEN 1 END, CASE p WHEN 1 THEN '' END, CASE p WHEN 1 THEN 'charge' END, CASE p WHEN 1 THEN 0 END, CASE p WHEN 0 THEN '${value}' END
      FROM generate_series(1, ${total - DUE}) i, generate_series(0, 1) p`);
    await client.query(`INSERT INTO ${s}.states (run, state) SELECT i, '${value}' FROM generate_series(1, ${total}, 4) i`);
    await client.query(`SELECT setval('${s}.run_keys', ${total}), setval('${s}.inbox_ids', 1000000)`);
  });
  await timed("indexes", async () => {
    await client.query("SET maintenance_work_mem = '1GB'");
    for (const sql of indexes) await client.query(sql);
  });
  await timed("VACUUM ANALYZE", async () => {
    for (const table of ["runs", "records", "executions", "states"]) await client.query(`VACUUM ANALYZE ${s}.${table}`);
  });
}
if (there.length === 0) await fill();

// ── the measured statements: those that the store sends ──

const send = pg.Client.prototype.query;
/**
 * The first statement about runs that the store would send for this call. It is not executed.
 * @param {() => Promise<unknown>} work @returns {Promise<{ sql: string, parameters: unknown[] }>}
 */
async function statementOf(work) {
  /** @type {{ sql: string, parameters: unknown[] } | undefined} */
  let found;
  pg.Client.prototype.query = /** @type {typeof send} */ (
    /** @this {import("pg").Client} @param {any} config @param {any[]} rest */ function (config, ...rest) {
      const sql = String(config.text ?? config);
      if (!/(?:turns|runs|messages|leases|overdue)_1\(|\.runs (?:r\b|\()/.test(sql)) return Reflect.apply(send, this, [config, ...rest]);
      found ??= { sql, parameters: config.values ?? rest[0] };
      return Promise.reject(new Error("intercepted: this statement is not executed"));
    }
  );
  try {
    await work().catch((/** @type {unknown} */ error) => {
      if (found === undefined) throw error;
    });
  } finally {
    pg.Client.prototype.query = send;
  }
  if (found === undefined) throw new Error(`The store sent nothing about runs for ${work}.`);
  return found;
}

const leased = Array.from({ length: BATCH }, (_, i) => idOf(closed + sleeping + 1 + i));
const asleep = Array.from({ length: BATCH }, (_, i) => idOf(every * (1 + Math.floor(((i + 0.5) * sleeping) / BATCH))));
/**
 * A turn of each of these runs, with a job and a command.
 * @param {Partial<import("holdfast").TurnCommit>} more
 */
const turns = (more = {}, ids = leased) =>
  store.commit(
    ids.map((runId) => ({
      ...{ runId, execution: 1, epoch: 1, workerId: "w1", status: "running", lease: "keep", seen: 0 },
      turn: {
        ...{ index: 1, time: 1_700_000_000_000, historyLength: 2 },
        jobs: [{ type: "resolve", seq: 1, outcome: { status: "completed", value } }],
        commands: [{ type: "step", seq: 2, unit: "", name: "charge", n: 1 }],
      },
      ...more,
    })),
  );
/** @type {Partial<import("holdfast").TurnCommit>} */
const ends = { status: "completed", close: { status: "completed", output: value } };
const create = (count = BATCH) =>
  store.create(
    Array.from({ length: count }, (_, i) => ({
      ...{ id: idOf(`new ${i}`), workflow: "order", version: undefined, queue: "default", priority: 0, seed: "s" },
      ...{ input: value, attributes: {}, onConflict: /** @type {const} */ ("reject") },
    })),
  );
const claim = (workflow = "order") =>
  store.claim({
    ...{ workerId: "w2", queue: "default", limit: BATCH, lease: 30_000, cached: () => undefined },
    serves: [{ workflow, versions: /** @type {const} */ ("*") }],
  });
const signals = (count = BATCH) =>
  store.send(
    asleep.slice(0, count).map((runId, i) => ({ runId, message: { job: { type: "signal", id: `s${i}`, name: "poke", payload: value } } })),
  );
const renew = () =>
  store.renew(
    "w1",
    30_000,
    leased.map((runId) => ({ runId, epoch: 1, seen: 0 })),
  );
const all = /** @type {const} */ ([
  "pending",
  "running",
  "sleeping",
  "blocked",
  "rolling_back",
  "completed",
  "failed",
  "canceled",
  "terminated",
]);
const middle = 1_700_000_000_000 + Math.floor(total / 2) * 100;
const cursor = `${middle}.${Math.floor(total / 2)}`;
/** @type {[string, Omit<import("holdfast").RunQuery, "limit">][]} */
const questions = [
  ["newest first", {}],
  ["a page in the middle", { cursor }],
  ...all.map((status) => /** @type {[string, { status: [typeof status] }]} */ ([`with status ${status}`, { status: [status] }])),
  ["with status completed, a page in the middle", { status: ["completed"], cursor }],
  ["with status sleeping, a page in the middle", { status: ["sleeping"], cursor }],
  ["with status running, a page in the middle without later runs", { status: ["running"], cursor }],
  ["with an open status", { status: ["pending", "running", "sleeping", "blocked", "rolling_back"] }],
  ["with any status", { status: all }],
  ["of a workflow, nine of ten runs", { workflow: "order" }],
  ["of a workflow, nine of ten runs, a page in the middle", { workflow: "order", cursor }],
  ["of a workflow, one of ten runs", { workflow: "invoice" }],
  ["of a workflow that no worker serves, some sleeping runs", { workflow: "unserved" }],
  ["of a workflow that no run has", { workflow: "none" }],
  ["of a workflow with status failed, nine of ten runs", { workflow: "order", status: ["failed"] }],
  ["of a workflow with status failed, no run", { workflow: "invoice", status: ["failed"] }],
  ["of a workflow with status completed, no run", { workflow: "unserved", status: ["completed"] }],
  ["of a workflow with status sleeping, some runs", { workflow: "unserved", status: ["sleeping"] }],
  ["of a workflow with status sleeping, no run", { workflow: "invoice", status: ["sleeping"] }],
  ["of a queue with nearly all runs", { queue: "default" }],
  ["of a queue with one run in 100,000", { queue: "rare" }],
  ["of a queue that no run has", { queue: "none" }],
  ["since the middle", { since: middle }],
  ["until the middle", { until: middle }],
  ["of a minute in the middle", { since: middle, until: middle + 60_000 }],
  ["of a minute, with status failed", { since: middle, until: middle + 60_000, status: ["failed"] }],
  ["of a minute, of a workflow", { since: middle, until: middle + 60_000, workflow: "invoice" }],
  ["of a minute before all runs", { until: 1_600_000_060_000, since: 1_600_000_000_000 }],
  ["by attribute, one run in 20,000", { attributes: { customer: "c120" } }],
  ["by attribute, one run in 20,000, with status failed", { attributes: { customer: "c120" }, status: ["failed"] }],
  ["by attribute, one run in 20,000, with status sleeping", { attributes: { customer: "c120" }, status: ["sleeping"] }],
  ["by attribute, one run in 20,000, of a workflow", { attributes: { customer: "c120" }, workflow: "order" }],
  ["by an attribute that no run has", { attributes: { customer: "none" } }],
  ["by attribute, one run in 200", { attributes: { tier: "gold" } }],
  ["by parent, 10 children", { parentId: idOf(1 + 1_000 * Math.floor(total / 2_000)) }],
  ["by parent, 10,000 children", { parentId: "large" }],
  ["by parent, 10,000 children, with status failed", { parentId: "large", status: ["failed"] }],
];
/** @type {[string, () => Promise<unknown>][]} */
const works = [
  ["commit of 100 turns", () => turns()],
  ["commit of 100 waiting turns", () => turns({ waitingFor: ["timer"] })],
  ["commit of 100 turns that park", () => turns({ lease: "park", status: "sleeping", wakeAt: 1_999_999_999_999 })],
  ["commit of 100 turns that end", () => turns(ends)],
  ["commit of one turn", () => turns({}, leased.slice(0, 1))],
  ["commit of one turn that ends", () => turns(ends, leased.slice(0, 1))],
  ["create of 100 runs", () => create()],
  ["create of one run", () => create(1)],
  ["claim of 100 runs", () => claim()],
  ["claim that finds nothing", () => claim("unserved")],
  ["send of 100 signals", () => signals()],
  ["send of one signal", () => signals(1)],
  ["renewal of 100 leases", renew],
  ["expiry of overdue runs", () => store.expire()],
  ["retention, 100 runs", () => store.retire()],
  ["run by id", () => store.get([idOf(17)])],
  ["history of a run", () => store.history(idOf(17))],
  ...questions.map(
    ([what, query]) => /** @type {[string, () => Promise<unknown>]} */ ([`list ${what}`, () => store.list({ ...query, limit: 20 })]),
  ),
  ...questions
    .filter(([, { cursor: page }]) => page === undefined)
    .map(([what, query]) => /** @type {[string, () => Promise<unknown>]} */ ([`count ${what}`, () => store.count(query)])),
];
/** @type {{ what: string, sql: string, parameters: unknown[] }[]} */
const calls = [];
for (const [what, work] of works) if (what.startsWith(values.only)) calls.push({ what, ...(await statementOf(work)) });
await store.close();
// Plain statements need a slot in `calls` that already exists.
for (const { sql, parameters } of calls)
  if (sql.startsWith("WITH") && sql.includes(`${s}.calls`))
    await client.query(`INSERT INTO ${s}.calls (instance, slot, token) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING`, parameters.slice(0, 2));

console.log("\nTime on the server in ms: the first call, then the median; full table scans");
for (const { what, sql, parameters } of calls) {
  const times = [];
  let plan = "";
  // Slow calls are repeated less often.
  for (let i = 0, spent = 0; i < 2 || (i <= ROUNDS && spent < MOST_MS); i++) {
    await client.query("BEGIN");
    const { rows } = await client.query(`EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`, parameters);
    await client.query("ROLLBACK");
    const [{ "Planning Time": planning, "Execution Time": execution }] = rows[0]["QUERY PLAN"];
    plan = JSON.stringify(rows);
    times.push(planning + execution);
    spent += planning + execution;
  }
  const [first = 0, ...rest] = times;
  const median = rest.toSorted((a, b) => a - b)[Math.floor(rest.length / 2)] ?? 0;
  const whole = new Set([...plan.matchAll(/"Node Type":"Seq Scan".*?"Relation Name":"(\w+)"/g)].map(([, name]) => name));
  console.log(
    `${first.toFixed(2).padStart(9)} ${median.toFixed(2).padStart(9)}  ${what}${whole.size > 0 ? `: full scan of ${[...whole].join(", ")}` : ""}`,
  );
}

await client.query(`LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET auto_explain.log_analyze = on;
  SET client_min_messages = log`);
for (const { what, sql, parameters } of calls) {
  // PostgreSQL plans a function anew for its first five calls and then keeps a plan: the seventh call shows the kept one. The same is true
  // of named statements, which are sent without a name here.
  await client.query(`SET plan_cache_mode = ${sql.startsWith("WITH") ? "force_generic_plan" : "auto"}`);
  for (let i = sql.includes("_1(") ? 0 : 5; i < 7; i++) {
    plans = [];
    await client.query("BEGIN");
    await client.query(sql, parameters);
    await client.query("ROLLBACK");
  }
  print(what);
}
if (!values.keep) await client.query(`SET client_min_messages = warning; DROP SCHEMA ${s} CASCADE`);
await client.end();

/** Prints the time and the beginning of each statement, and the nodes that read or change tables. @param {string} what */
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
    if (from < 0 || /^SELECT (?:\* FROM )?\w+_1\(/.test(text)) continue;
    console.log(`${/duration: ([\d.]+)/.exec(head)?.[1]?.padStart(8)} ms  ${text.slice(0, 110)}`);
    for (const line of lines.slice(from)) {
      const node =
        /^\s*(?:->\s+)?((?:Parallel )?(?:Seq|Index|Index Only|Bitmap Index|Bitmap Heap|Function|Tid)? ?(?:Scan|Insert|Update|Delete|LockRows).*?)\s+\(cost=.*?(\(actual .*?\)|\(never executed\))/.exec(
          line,
        );
      if (node !== null && !/Function Scan|CTE Scan|WorkTable|Subquery Scan/.test(node[1] ?? ""))
        console.log(`             ${node[1]} ${node[2]}`);
    }
  }
}
