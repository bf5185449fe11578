// DBOS on PostgreSQL: workflows are started directly, which is the fastest way (a queue polls once per second).

import { DBOS } from "@dbos-inc/dbos-sdk";
import { byCallers, until } from "../statistics.mjs";

const CONCURRENCY = 100;
const HOUR = 3_600;

/** By part of the workload; a queue looks for work as often as it is told to, here every 10 ms instead of once per second. */
const POLLED = { minPollingIntervalMs: 10 };
const LIMITS = {
  concurrency: { globalConcurrency: 50, workerConcurrency: 50 },
  rate: { rateLimit: { limitPerPeriod: 1_000_000, periodSec: 1 } },
  keys: { partitionConcurrency: 1 },
};
const KEYS = 100;

export async function open({ url }, { workload, part } = {}) {
  const moments = { ends: [], starts: [] };
  const job = DBOS.registerWorkflow(async (i) => i, { name: "job" });
  const turnstile = DBOS.registerWorkflow(
    async (i) => {
      moments.starts.push(performance.now());
      await step("work", i);
      moments.ends.push(performance.now());
    },
    { name: "turnstile" },
  );
  let begun = 0;
  let seen = () => {};
  const step = (name, value) => DBOS.runStep(async () => value, { name });
  const five = DBOS.registerWorkflow(
    async (input) => {
      for (let i = 0; i < 5; i++) await step(`step-${i}`, { ok: true, i, input });
      return { done: true };
    },
    { name: "five" },
  );
  const one = DBOS.registerWorkflow(async () => step("only", { ok: true }), { name: "one" });
  const chain = DBOS.registerWorkflow(
    async (steps) => {
      for (let i = 0; i < steps; i++) await step("work", { ok: true, i });
      return steps;
    },
    { name: "chain" },
  );
  const wide = DBOS.registerWorkflow(
    async (width) => (await Promise.allSettled(Array.from({ length: width }, (_, i) => step(`wide-${i}`, { ok: true, i })))).length,
    { name: "wide" },
  );
  const patient = DBOS.registerWorkflow(
    async (steps) => {
      for (let i = 0; i < steps; i++) await step("work", { ok: true, i });
      for (;;) {
        if ((await DBOS.recv("go", HOUR)) === null) return;
        await step("next", { ok: true });
        await DBOS.runStep(async () => seen(), { name: "seen" });
      }
    },
    { name: "patient" },
  );
  const parked = DBOS.registerWorkflow(
    async () => {
      await step("before", { ok: true });
      begun++;
      await DBOS.recv("go", HOUR);
      return step("after", { ok: true });
    },
    { name: "parked" },
  );
  /** DBOS has no updates: a message is the request, an event is the reply. */
  const entity = DBOS.registerWorkflow(
    async () => {
      for (let total = 0; ; ) {
        const message = await DBOS.recv("add", HOUR);
        if (message === null) return total;
        total += message.amount;
        await DBOS.setEvent(message.replyTo, total);
      }
    },
    { name: "entity" },
  );
  const parent = DBOS.registerWorkflow(
    async (children) => {
      const handles = [];
      for (let i = 0; i < children; i++) handles.push(await DBOS.startWorkflow(one)());
      const results = await Promise.allSettled(handles.map((handle) => handle.getResult()));
      return results.filter(({ status }) => status === "fulfilled").length;
    },
    { name: "parent" },
  );
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: url, logLevel: "error", runAdminServer: false });
  await DBOS.launch();
  if (workload === "jobs") await DBOS.registerQueue("jobs", { ...POLLED, workerConcurrency: CONCURRENCY, ...LIMITS[part] });
  if (workload === "slots") await DBOS.registerQueue("jobs", { ...POLLED, globalConcurrency: 1, workerConcurrency: 1 });
  const result = async (workflow, ...args) => (await DBOS.startWorkflow(workflow)(...args)).getResult();

  /** DBOS has no call that enqueues several. */
  const enqueued = async (workflow, count) => {
    const handles = [];
    await byCallers(CONCURRENCY, count, async (i) => {
      const enqueueOptions = part === "keys" ? { enqueueOptions: { queuePartitionKey: `key-${i % KEYS}` } } : {};
      handles.push(await DBOS.startWorkflow(workflow, { queueName: "jobs", ...enqueueOptions })(i));
    });
    await Promise.all(handles.map((handle) => handle.getResult()));
  };

  return {
    jobs: (count) => enqueued(job, count),
    async gaps(count) {
      moments.starts = [];
      moments.ends = [];
      await enqueued(turnstile, count);
      return moments.starts.slice(1).map((start, i) => start - moments.ends[i]);
    },
    throughput: (runs) => byCallers(CONCURRENCY, runs, (i) => result(five, { i })),
    latency: () => result(one),
    depth: (steps) => result(chain, steps),
    width: (count) => result(wide, count),
    /** DBOS keeps waiting workflows in memory and reads them again only when its process starts. */
    async longRun(steps, { evicted }) {
      if (evicted) return undefined;
      const { workflowID } = await DBOS.startWorkflow(patient)(steps);
      return async () => {
        const told = new Promise((resolve) => {
          seen = () => resolve(undefined);
        });
        const start = performance.now();
        await DBOS.send(workflowID, { ok: true }, "go");
        await told;
        return performance.now() - start;
      };
    },
    async crowd(from, runs) {
      const before = begun;
      await byCallers(CONCURRENCY, runs, (i) => DBOS.startWorkflow(parked, { workflowID: `parked-${from + i}` })());
      await until(() => begun >= before + runs);
    },
    async wake(numbers) {
      await byCallers(CONCURRENCY, numbers.length, async (i) => {
        const id = `parked-${numbers[i]}`;
        await DBOS.send(id, { ok: true }, "go");
        await DBOS.retrieveWorkflow(id).getResult();
      });
    },
    async entity() {
      const { workflowID } = await DBOS.startWorkflow(entity)();
      let asked = 0;
      return async () => {
        const replyTo = `reply-${asked++}`;
        await DBOS.send(workflowID, { amount: 1, replyTo }, "add");
        if ((await DBOS.getEvent(workflowID, replyTo, 60)) === null) throw new Error("No reply.");
      };
    },
    async fanOut(children) {
      const done = await result(parent, children);
      if (done !== children) throw new Error(`${done} of ${children} children completed.`);
    },
    close: () => DBOS.shutdown(),
  };
}
