// What `npm run bench` measures, as data: workloads × stores × contenders × sizes.
// Sizes are chosen so that three rounds of everything take less than 20 minutes on 2 cores; `--quick` takes a tenth of them, once.

/**
 * What is measured. `module` is a file in contenders/; `options` are passed to its `open`. `against`: the variant of Holdfast that a peer is
 * compared with, if it is not the first of its store.
 */
export const contenders = {
  holdfast: { label: "Holdfast", module: "holdfast" },
  "holdfast-normal": { label: "Holdfast, NORMAL", module: "holdfast", options: { synchronous: "NORMAL" } },
  "holdfast-kv": { label: "Holdfast kv", module: "holdfastKv" },
  "holdfast-level": { label: "Holdfast kv, LevelDB on disk", module: "holdfastKv", options: { driver: "level" } },
  "holdfast-store": { label: "Holdfast store", module: "holdfastStore" },
  "holdfast-core": { label: "Holdfast core", module: "holdfastCore" },
  "holdfast-temporal": { label: "Holdfast", module: "holdfastTemporal" },
  "holdfast-temporal-local": { label: "Holdfast, local steps", module: "holdfastTemporal", options: { isLocal: true } },
  "holdfast-temporal-shared": { label: "Holdfast, one step queue", module: "holdfastTemporal", options: { sharesSteps: true } },
  raw: { label: "raw", module: "raw" },
  openworkflow: { label: "OpenWorkflow 0.10", module: "openworkflow", isPeer: true },
  dbos: { label: "DBOS 5.3", module: "dbos", isPeer: true },
  restate: { label: "Restate 1.7", module: "restate", isPeer: true },
  "temporal-sdk": { label: "Temporal SDK 1.24", module: "temporalSdk", isPeer: true, against: "holdfast-temporal" },
  "temporal-sdk-local": {
    label: "Temporal SDK 1.24, local",
    module: "temporalSdk",
    isPeer: true,
    options: { isLocal: true },
    against: "holdfast-temporal-local",
  },
  "pg-boss": { label: "pg-boss 10.4", module: "pgBoss", isPeer: true },
  "graphile-worker": { label: "Graphile Worker 0.17", module: "graphileWorker", isPeer: true },
  rivet: { label: "Rivet 2.3, same driver", module: "rivet", isPeer: true },
  "rivet-own": { label: "Rivet 2.3, its driver", module: "rivet", isPeer: true, options: { driver: "own" } },
};

export const stores = {
  sqlite: "SQLite",
  postgres: "PostgreSQL",
  none: "in memory",
  temporal: "Temporal",
};
/** Measured only if `--store` names them: Temporal takes a quarter of an hour by itself, and needs its server. */
const ON_REQUEST = ["temporal"];

const rate = (key, label, unit) => ({ key, label, unit, better: "more" });
const cost = (key, label, unit) => ({ key, label, unit, better: "less" });
/** A metric that charts show too. */
const charted = (metric) => ({ ...metric, charted: true });
/** A figure for information, without a comparison. */
const fact = (key, label, unit) => ({ key, label, unit });

const all = (size, names) => Object.fromEntries(names.map((name) => [name, size]));

/** Measured on Temporal. A run takes tens of milliseconds there, most of it in the server, so W1 has fewer runs. */
const TEMPORAL = ["holdfast-temporal", "holdfast-temporal-local", "temporal-sdk", "temporal-sdk-local"];

/** Peers that are so slow in some workloads that they are measured only in the first round, to stay within the 20 minutes. */
const SLOW = ["openworkflow", "dbos", "restate"];

/**
 * The workloads in order. Each has its metrics (charts show the first one), the contenders with their sizes by store, and the contenders
 * that are measured only once (`once`); one that is `onRequest` is measured only if `--only` names it. A peer that can't do the common size has a smaller one, and tables say so: OpenWorkflow is limited to 1,000
 * steps and polls for a `result()` once per second; neither it nor DBOS nor Restate parks 100,000 runs in the available time. Restate
 * brings its own server and log, and is listed with PostgreSQL, where the others have a server too.
 */
export const workloads = [
  {
    id: "W1",
    title: "throughput: runs of 5 steps, concurrency 100",
    metrics: [
      rate("rate", "W1 runs of 5 steps", "runs/s"),
      fact("processorMs", "W1 processor time per run", "ms"),
      fact("delayP99", "W1 event loop delay, p99", "ms"),
      fact("delayMax", "W1 event loop delay, max", "ms"),
      cost("workerMs", "W1 processor time of the worker, per run", "ms"),
      cost("workerMiB", "W1 memory of the worker", "MiB"),
      cost("readyMs", "worker process started until ready", "ms"),
    ],
    on: {
      sqlite: all(1_000, ["holdfast", "holdfast-normal", "raw", "openworkflow"]),
      postgres: all(1_000, ["holdfast", "raw", "openworkflow", "dbos", "restate"]),
      none: all(1_000, ["holdfast", "holdfast-kv", "rivet", "rivet-own"]),
      temporal: all(300, TEMPORAL),
    },
  },
  {
    id: "W2",
    title: "latency: start to result of a run of one step",
    metrics: [cost("p50", "W2 start to result, p50", "ms"), cost("p99", "W2 p99", "ms")],
    on: {
      sqlite: { ...all(200, ["holdfast", "holdfast-normal", "raw"]), openworkflow: { fixed: 3 } },
      postgres: { ...all(200, ["holdfast", "raw", "dbos", "restate"]), openworkflow: { fixed: 3 } },
      none: all(200, ["holdfast", "holdfast-kv", "rivet"]),
      temporal: all(200, TEMPORAL),
    },
  },
  {
    id: "W3",
    title: "depth: one run of 1,000 steps in sequence",
    metrics: [cost("ms", "W3 1,000 steps in sequence", "ms"), fact("batches", "W3 driver batches", "")],
    on: {
      sqlite: all(1_000, ["holdfast", "holdfast-normal", "raw", "openworkflow"]),
      postgres: all(1_000, ["holdfast", "raw", "openworkflow", "dbos", "restate"]),
      none: all(1_000, ["holdfast", "holdfast-kv", "holdfast-level", "rivet", "rivet-own"]),
      temporal: all(1_000, TEMPORAL),
    },
  },
  {
    id: "W3",
    part: "long",
    title: "depth: one run of 5,000 steps",
    metrics: [cost("ms", "W3 5,000 steps", "ms")],
    on: {
      sqlite: all(5_000, ["holdfast", "raw"]),
      postgres: all(5_000, ["holdfast", "raw"]),
      none: all(5_000, ["holdfast-kv", "rivet"]),
    },
  },
  {
    id: "W3",
    part: "longest",
    once: ["holdfast", "raw"],
    title: "depth: one run of 20,000 steps",
    metrics: [cost("ms", "W3 20,000 steps", "ms")],
    on: { sqlite: all(20_000, ["holdfast", "raw"]) },
  },
  {
    id: "W4",
    title: "width: one run of 500 parallel steps",
    metrics: [cost("ms", "W4 500 parallel steps", "ms"), fact("batches", "W4 driver batches", "")],
    on: {
      sqlite: all(500, ["holdfast", "holdfast-normal", "raw", "openworkflow"]),
      postgres: all(500, ["holdfast", "raw", "openworkflow", "dbos", "restate"]),
      none: all(500, ["holdfast", "holdfast-kv", "holdfast-level", "rivet"]),
      temporal: all(500, TEMPORAL),
    },
  },
  {
    id: "W5",
    once: SLOW,
    title: "resume: signal to the next completed step of a run with 10,000 records",
    metrics: [
      cost("cachedMs", "W5 signal to next step, in memory, p50", "ms"),
      charted(cost("uncachedMs", "W5 signal to next step, evicted, p50", "ms")),
      rate("recordsPerSecond", "W5 records read and replayed", "records/s"),
    ],
    on: {
      sqlite: { ...all(10_000, ["holdfast", "raw"]), openworkflow: 1_800 },
      postgres: { ...all(10_000, ["holdfast", "raw", "dbos", "restate"]), openworkflow: 1_800 },
    },
  },
  {
    id: "wake",
    title: "wake: read and replay a run of 10,000 records and find nothing to do",
    metrics: [
      cost("ms", "wake a run of 10,000 records", "ms"),
      rate("recordsPerSecond", "records read and replayed", "records/s"),
      fact("lists", "wake, driver lists", ""),
    ],
    on: { none: all(10_000, ["holdfast-kv", "holdfast-level", "rivet"]) },
  },
  {
    id: "W6",
    once: SLOW,
    title: "crowd: parked runs of one step; signals to 1,000 of them (a tenth, where there are fewer than 10,000), at random",
    metrics: [
      rate("rate", "W6 signalled runs that advance", "runs/s"),
      charted(cost("bytesPerRun", "W6 database, per parked run", "bytes")),
      fact("heapPerRun", "W6 heap of the worker, per parked run", "bytes"),
      fact("rssBefore", "W6 memory of the process before the crowd", "MiB"),
      fact("rssAfter", "W6 memory of the process with the crowd", "MiB"),
      cost("p50Before", "W2 p50 before the crowd", "ms"),
      cost("p50Beside", "W2 p50 with the crowd", "ms"),
    ],
    on: {
      sqlite: { holdfast: { size: 100_000, large: 1_000_000 }, raw: { size: 100_000, large: 1_000_000 }, openworkflow: 2_000 },
      postgres: { holdfast: { size: 20_000, large: 1_000_000 }, raw: 20_000, openworkflow: 2_000, dbos: 2_000, restate: 2_000 },
    },
  },
  {
    id: "W7",
    once: SLOW,
    title: "entity: one run, updates from 50 clients that each wait for the reply",
    metrics: [rate("rate", "W7 updates of one entity", "updates/s"), cost("p99", "W7 reply, p99", "ms")],
    on: {
      sqlite: all(10_000, ["holdfast", "holdfast-normal", "raw"]),
      postgres: { ...all(10_000, ["holdfast", "raw"]), dbos: 500, restate: 2_000 },
    },
  },
  {
    id: "W8",
    once: SLOW,
    title: "fan-out: one parent, 1,000 children of one step",
    metrics: [cost("ms", "W8 1,000 children", "ms")],
    on: {
      sqlite: all(1_000, ["holdfast", "holdfast-normal", "raw", "openworkflow"]),
      postgres: all(1_000, ["holdfast", "raw", "openworkflow", "dbos", "restate"]),
    },
  },
  {
    id: "W9",
    once: SLOW,
    title: "worker processes: W1 with one and with two, separate from the client",
    metrics: [
      rate("two", "W9 two worker processes", "runs/s"),
      rate("one", "W9 one worker process", "runs/s"),
      fact("gain", "W9 two over one", "×"),
    ],
    on: {
      sqlite: { holdfast: 4_000, openworkflow: 500 },
      postgres: { holdfast: 4_000, openworkflow: 1_000 },
    },
  },
  {
    id: "W10",
    title: "replay: histories of 100 records that `replay` checks",
    metrics: [rate("rate", "W10 histories checked by replay", "histories/s"), fact("events", "W10 events of a history", "")],
    on: { none: all(5_000, ["holdfast-core"]), temporal: all(1_000, ["holdfast-temporal", "temporal-sdk"]) },
  },
  {
    id: "queues",
    title: "step queues on Temporal: W1 and W3 with one and with three worker processes",
    onRequest: true,
    metrics: [
      rate("rateOne", "W1, one worker process", "runs/s"),
      rate("rateThree", "W1, three worker processes", "runs/s"),
      cost("msOne", "W3, per step, one worker process", "ms"),
      cost("msThree", "W3, per step, three worker processes", "ms"),
    ],
    on: { temporal: all(100, ["holdfast-temporal", "holdfast-temporal-shared"]) },
  },
  {
    id: "jobs",
    title: "jobs: a backlog of jobs without steps, handed over in one call where there is one, by a worker with 100 slots",
    onRequest: true,
    metrics: [rate("rate", "jobs, plain queue", "jobs/s")],
    on: {
      sqlite: all(10_000, ["holdfast"]),
      postgres: { ...all(10_000, ["holdfast", "pg-boss", "graphile-worker"]), dbos: 2_000 },
    },
  },
  {
    id: "jobs",
    part: "concurrency",
    title: "jobs in a queue that runs at most 50 at a time",
    onRequest: true,
    metrics: [rate("rate", "jobs, at most 50 at a time", "jobs/s")],
    on: { sqlite: all(10_000, ["holdfast"]), postgres: { holdfast: 10_000, dbos: 2_000 } },
  },
  {
    id: "jobs",
    part: "rate",
    title: "jobs in a queue with a rate that is never reached: what counting costs",
    onRequest: true,
    metrics: [rate("rate", "jobs, with a rate", "jobs/s")],
    on: { sqlite: all(10_000, ["holdfast"]), postgres: { holdfast: 10_000, dbos: 2_000 } },
  },
  {
    id: "jobs",
    part: "keys",
    title: "jobs of 100 keys, at most one of each key at a time",
    onRequest: true,
    metrics: [rate("rate", "jobs, one at a time of each of 100 keys", "jobs/s")],
    on: { sqlite: all(10_000, ["holdfast"]), postgres: { holdfast: 10_000, dbos: 2_000 } },
  },
  {
    id: "slots",
    title: "slots: from the end of a job to the start of the next, in a queue that runs one at a time",
    onRequest: true,
    metrics: [cost("p50", "freed slot to the next start, p50", "ms"), cost("p95", "freed slot to the next start, p95", "ms")],
    on: { sqlite: all(500, ["holdfast"]), postgres: { holdfast: 500, dbos: { fixed: 20 } } },
  },
  {
    id: "keys",
    title: "keys: claims from a backlog of two runs of each of very many keys, at most one of each key at a time",
    onRequest: true,
    metrics: [
      rate("rate", "claims among 100,000 keys", "runs/s"),
      cost("p50", "a claim of 100, p50", "ms"),
      cost("p95", "a claim of 100, p95", "ms"),
    ],
    on: { postgres: all(100_000, ["holdfast-store"]) },
  },
  {
    id: "core",
    title: "core: operations through the executor, one run after the other",
    metrics: [
      rate("live", "executor, live", "operations/s"),
      rate("replayed", "executor, in replay", "operations/s"),
      cost("bytes", "history in memory, per operation", "bytes"),
    ],
    on: { none: all(100_000, ["holdfast-core"]) },
  },
  {
    id: "cost",
    title: "cost: what a run of W1 costs the server",
    once: ["holdfast", "openworkflow", "dbos"],
    metrics: [
      cost("perStep", "statements per step", ""),
      cost("serverMs", "processor time of the server, per run", "ms"),
      cost("ownMs", "processor time of the worker, per run", "ms"),
      cost("bytesPerRun", "rows and indexes, per run", "bytes"),
      cost("walPerRun", "write-ahead log, per run", "bytes"),
    ],
    on: { postgres: all(1_000, ["holdfast", "openworkflow", "dbos"]) },
  },
];

const SMALLEST = 10;

/** The size of a measurement: `given` is a number, or an object with sizes for special cases. */
function sizeOf(given, { quick, large }) {
  if (typeof given === "number") return quick ? Math.max(SMALLEST, Math.round(given / 10)) : given;
  if (given.fixed !== undefined) return given.fixed;
  return large ? given.large : sizeOf(given.size, { quick });
}

/** Whether a contender is selected; `holdfast` selects all its variants. */
const picked = (choice, name) => choice === undefined || choice.some((pick) => name === pick || name.startsWith(`${pick}-`));

/** The measurements of one round, in order: the contenders of one workload on one store follow each other. */
export function measurements({ only, peers, storeNames, quick = false, large = false } = {}) {
  return workloads
    .filter(({ id, onRequest }) => (only === undefined ? onRequest !== true : only.includes(id)))
    .flatMap((workload) =>
      Object.entries(workload.on)
        .filter(([store]) => (storeNames === undefined ? !ON_REQUEST.includes(store) : storeNames.includes(store)))
        .flatMap(([store, sizes]) =>
          Object.entries(sizes)
            .filter(([contender]) => picked(peers, contender))
            .map(([contender, given]) => ({
              key: [workload.id, workload.part, store, contender].filter(Boolean).join(" "),
              workload: workload.id,
              part: workload.part,
              once: workload.once?.includes(contender) === true,
              store,
              contender,
              size: sizeOf(given, { quick, large }),
            })),
        ),
    );
}
