// node measure.mjs <measurement as JSON>: one contender, one workload, one process, one fresh file or database. Prints one line of JSON.
// Each workload is warmed up first, like a server. In addition to wall-clock time it measures the processor time of the server and of this
// process, which hardly depends on the other load of the machine.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { observe } from "./observer.mjs";
import { contenders } from "./plan.mjs";
import { byCallers, quantile, timed } from "./statistics.mjs";

const { contender, workload, part, size, target } = JSON.parse(process.argv[2] ?? "{}");
const { module, options = {} } = contenders[contender];
const { open } = await import(`./contenders/${module}.mjs`);
const observer = await observe(target);

const WARM_UP_MS = 1_500;
/** For workloads that are bound by code instead of the disk: the JIT is done after about 10,000 runs of W1, or 15,000 steps of W3. */
const LONG_WARM_UP_MS = 4_000;
const REPEAT_MS = 1_500;
const LATENCIES_MS = 3_000;
const CLIENTS = 50;
const POKES = 15;
/** The sampling interval of the event loop's delay. Only what exceeds it is delay. */
const DELAY_RESOLUTION_MS = 1;
const delayMs = (nanoseconds) => Math.max(0, nanoseconds / 1e6 - DELAY_RESOLUTION_MS);
/** The number of parked runs that only warm up. */
const VANGUARD = 100;

/** Repeats the work so that the JIT compiles it: at least once, at most `times` times, and for at most `most` milliseconds. */
async function warmUp(times, work, most = WARM_UP_MS) {
  const enough = performance.now() + most;
  for (let i = 0; i < times && (i === 0 || performance.now() < enough); i++) await work();
}
/**
 * The median of up to nine repetitions within a second and a half. Garbage is deliberately not collected in between: with the last objects
 * of a kind V8 also discards the code that it compiled for them, and the benchmark would measure the compiler.
 */
async function repeated(work) {
  const values = [];
  const enough = performance.now() + REPEAT_MS;
  do values.push(await timed(work));
  while (values.length < 9 && performance.now() < enough);
  return { ms: quantile(values, 0.5), times: values.length };
}
const perSecond = (count, ms) => count / (ms / 1_000);
const half = Math.max(1, Math.ceil(size / 2));

/** Measures latencies one after the other: at least three, then as many as fit into the time. */
async function latencies(subject, times) {
  const values = [];
  const enough = performance.now() + LATENCIES_MS;
  for (let i = 0; i < times && (i < 3 || performance.now() < enough); i++) values.push(await timed(() => subject.latency()));
  return { p50: quantile(values, 0.5), p99: quantile(values, 0.99) };
}

const measured = {
  async W1(subject) {
    await warmUp(20, () => subject.throughput(half), LONG_WARM_UP_MS);
    const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
    delay.enable();
    const before = await worker?.usage();
    const { ms, times, processorMs } = await observer.counted(() => repeated(() => subject.throughput(size)), size);
    delay.disable();
    if (worker !== undefined) {
      const after = await worker.usage();
      const workerMs = (after.processorMs - before.processorMs) / size / times;
      return {
        rate: perSecond(size, ms),
        processorMs: processorMs / times + workerMs,
        workerMs,
        workerMiB: after.mib,
        readyMs: worker.readyMs,
      };
    }
    return {
      rate: perSecond(size, ms),
      processorMs: processorMs === undefined ? undefined : processorMs / times,
      // A contender that never yields to the event loop (raw on SQLite) has no figure: the delay was never sampled.
      delayP99: delay.count === 0 ? undefined : delayMs(delay.percentile(99)),
      delayMax: delay.count === 0 ? undefined : delayMs(delay.max),
    };
  },
  async W2(subject) {
    await warmUp(Math.min(50, half), () => subject.latency());
    return latencies(subject, size);
  },
  async W3(subject) {
    await warmUp(20, () => subject.depth(Math.min(900, size)), LONG_WARM_UP_MS);
    return { ...(await repeated(() => subject.depth(size))), ...subject.calls?.() };
  },
  async W4(subject) {
    await warmUp(20, () => subject.width(size));
    return { ...(await repeated(() => subject.width(size))), ...subject.calls?.() };
  },

  /** `longRun` returns a function that signals the run and resolves when its next step is durable; undefined if that is not supported. */
  async W5(subject) {
    const pokes = async (evicted) => {
      const poke = await subject.longRun(Math.floor(size / 2), { evicted });
      if (poke === undefined) return undefined;
      const values = [];
      for (let i = 0; i < POKES + 5; i++) values.push(await poke());
      return quantile(values.slice(5), 0.5);
    };
    const cachedMs = await pokes(false);
    const uncachedMs = await pokes(true);
    return { cachedMs, uncachedMs, recordsPerSecond: uncachedMs === undefined ? undefined : perSecond(size, uncachedMs) };
  },
  async wake(subject) {
    const { wake, calls } = await subject.parkedRun(size);
    await warmUp(20, wake);
    const { ms } = await repeated(wake);
    return { ms, recordsPerSecond: perSecond(size, ms), ...calls() };
  },

  /** Memory is how much more this process, which is client and worker, uses with the parked runs than before, after garbage collection. */
  async W6(subject) {
    const signals = Math.min(1_000, Math.ceil(size / 10));
    await subject.crowd(0, VANGUARD);
    await subject.wake(Array.from({ length: VANGUARD }, (_, i) => i));
    await warmUp(50, () => subject.latency());
    const quiet = await latencies(subject, 200);
    const before = { bytes: await observer.bytes(), memory: memory() };
    await subject.crowd(VANGUARD, size);
    const after = { bytes: await observer.bytes(), memory: memory() };
    const beside = await latencies(subject, 200);
    const chosen = new Set();
    while (chosen.size < signals) chosen.add(VANGUARD + Math.floor(Math.random() * size));
    return {
      rate: perSecond(signals, await timed(() => subject.wake([...chosen]))),
      bytesPerRun: after.bytes === undefined ? undefined : (after.bytes - before.bytes) / size,
      heapPerRun: (after.memory.heapUsed - before.memory.heapUsed) / size,
      rssBefore: before.memory.rss / 2 ** 20,
      rssAfter: after.memory.rss / 2 ** 20,
      p50Before: quiet.p50,
      p50Beside: beside.p50,
    };
  },
  async W7(subject) {
    const update = await subject.entity();
    const values = [];
    await warmUp(1, () => byCallers(CLIENTS, Math.ceil(size / 5), update));
    const ms = await timed(() => byCallers(CLIENTS, size, async (i) => values.push(await timed(() => update(i)))));
    return { rate: perSecond(size, ms), p99: quantile(values, 0.99) };
  },
  async W8(subject) {
    await warmUp(10, () => subject.fanOut(Math.ceil(size / 4)));
    return repeated(() => subject.fanOut(size));
  },

  /** This process starts the runs and waits for them; workers are separate processes. */
  async W9(subject) {
    const crew = [];
    const handed = async () => {
      crew.push(await workerProcess());
      await subject.throughput(half);
      return perSecond(size, await timed(() => subject.throughput(size)));
    };
    try {
      const one = await handed();
      const two = await handed();
      return { one, two, gain: two / one };
    } finally {
      await Promise.all(crew.map(({ end }) => end()));
    }
  },
  async W10(subject) {
    const events = await subject.prepare(size);
    await warmUp(20, () => subject.check(half));
    return { rate: perSecond(size, await timed(() => subject.check(size))), events };
  },
  /** The steps of W3 are as many as the runs of W1: with one worker process, then with three. */
  async queues(subject) {
    const crew = [];
    const handed = async (count) => {
      while (crew.length < count) crew.push(await workerProcess());
      await subject.throughput(half);
      const rate = perSecond(size, await timed(() => subject.throughput(size)));
      return { rate, ms: (await timed(() => subject.depth(size))) / size };
    };
    try {
      const one = await handed(1);
      const three = await handed(3);
      return { rateOne: one.rate, rateThree: three.rate, msOne: one.ms, msThree: three.ms };
    } finally {
      await Promise.all(crew.map(({ end }) => end()));
    }
  },
  async jobs(subject) {
    await warmUp(5, () => subject.jobs(half), LONG_WARM_UP_MS);
    return { rate: perSecond(size, (await repeated(() => subject.jobs(size))).ms) };
  },
  /** `gaps` returns the times from the end of each job to the start of the next. */
  async slots(subject) {
    await subject.gaps(half);
    const values = await subject.gaps(size);
    return { p50: quantile(values, 0.5), p95: quantile(values, 0.95) };
  },
  async keys(subject) {
    const { claimed, values } = await subject.claims(size);
    const ms = values.reduce((sum, value) => sum + value, 0);
    return { rate: perSecond(claimed, ms), p50: quantile(values, 0.5), p95: quantile(values, 0.95) };
  },
  async core(subject) {
    await warmUp(20, () => subject.live(half));
    const live = perSecond(size, await timed(() => subject.live(size)));
    const { turns, bytes } = await subject.recorded(size);
    await warmUp(10, () => subject.replayed(turns));
    return { live, replayed: perSecond(size, await timed(() => subject.replayed(turns))), bytes: bytes / size };
  },
  async cost(subject) {
    await warmUp(20, () => subject.throughput(half));
    return observer.cost(() => subject.throughput(size), size);
  },
};

function memory() {
  globalThis.gc?.();
  return process.memoryUsage();
}

/** Starts a worker of the contender in a separate process; `usage` and `end` are functions. */
async function workerProcess() {
  const start = performance.now();
  const child = spawn(process.execPath, [join(import.meta.dirname, "worker.mjs"), JSON.stringify({ contender, target })], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const answer = () =>
    new Promise((resolve, reject) => {
      const ended = (code) => reject(new Error(`The worker process exited with code ${code}.`));
      child.once("exit", ended);
      child.once("message", (message) => {
        child.off("exit", ended);
        resolve(message);
      });
    });
  await answer();
  return {
    readyMs: performance.now() - start,
    usage() {
      child.send("usage");
      return answer();
    },
    async end() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.disconnect();
      await ended;
    },
  };
}

/** The worker of a run is in this process, except for workloads that start processes themselves, and on Temporal, where it is measured. */
const isAlone = target.store === "temporal" && workload !== "W10" && workload !== "queues";
const worker = isAlone ? await workerProcess() : undefined;
const subject = await open(target, { ...options, workload, part, workers: isAlone || workload === "W9" || workload === "queues" ? 0 : 1 });
try {
  const result = await measured[workload](subject);
  console.log(JSON.stringify(result));
} finally {
  await observer.close();
  await subject.close();
  await worker?.end();
}
process.exit(0); // pending timers of a contender must not keep the process alive
