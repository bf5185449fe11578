// Temporal's TypeScript SDK: its client in the measuring process, its worker in a separate process, with activities or local activities.

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { Client, Connection } from "@temporalio/client";
import { bundleWorkflowCode, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import { byCallers } from "../statistics.mjs";

const CALLERS = 100;
const STEPS_OF_HISTORY = 16;
const HISTORIES = 50;
const workflowsPath = join(import.meta.dirname, "temporalSdk", "workflows.js");
const activities = {
  work: async (i, input) => ({ ok: true, i, input }),
};

/** `host`, `namespace` and `queue` of temporal://host/namespace?queue=queue. */
function targetOf(url) {
  const { host, pathname, searchParams } = new URL(url);
  return { address: host, namespace: decodeURIComponent(pathname.slice(1)), taskQueue: searchParams.get("queue") };
}
const logger = { log() {}, trace() {}, debug() {}, info() {}, warn: console.error, error: console.error };

async function startWorker({ address, namespace, taskQueue }) {
  const connection = await NativeConnection.connect({ address });
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue,
    workflowsPath,
    activities,
    maxConcurrentWorkflowTaskExecutions: 100,
    maxConcurrentActivityTaskExecutions: 100,
    maxConcurrentLocalActivityExecutions: 100,
  });
  const ended = worker.run();
  return async () => {
    worker.shutdown();
    await ended;
    await connection.close();
  };
}

export async function open({ url }, { workers, isLocal = false }) {
  Runtime.install({ logger });
  const { address, namespace, taskQueue } = targetOf(url);
  const stopWorker = workers > 0 ? await startWorker({ address, namespace, taskQueue }) : undefined;
  const connection = await Connection.connect({ address });
  const client = new Client({ connection, namespace });
  const start = (type, ...args) => client.workflow.start(type, { taskQueue, workflowId: randomUUID(), args: [isLocal, ...args] });
  const result = (type, ...args) => client.workflow.execute(type, { taskQueue, workflowId: randomUUID(), args: [isLocal, ...args] });

  let histories = [];
  let workflowBundle;
  return {
    throughput: (runs) => byCallers(CALLERS, runs, (i) => result("five", { i })),
    latency: () => result("one"),
    depth: (steps) => result("chain", steps),
    width: (count) => result("wide", count),
    async prepare(count) {
      workflowBundle = await bundleWorkflowCode({ workflowsPath, logger });
      const handles = [];
      for (let i = 0; i < HISTORIES; i++) handles.push(await start("chain", STEPS_OF_HISTORY));
      await Promise.all(handles.map((handle) => handle.result()));
      const recorded = await Promise.all(handles.map((handle) => handle.fetchHistory()));
      histories = Array.from({ length: count }, (_, i) => renamed(recorded[i % HISTORIES]));
      return recorded[0].events.length;
    },
    async check(count) {
      const given = histories.slice(0, count).map((history) => ({ workflowId: randomUUID(), history }));
      let checked = 0;
      for await (const { error } of Worker.runReplayHistories({ workflowBundle }, given)) {
        if (error !== undefined) throw error;
        checked++;
      }
      if (checked !== count) throw new Error(`${checked} of ${count} histories were replayed.`);
    },
    async close() {
      await stopWorker?.();
      await connection.close();
    },
  };
}

/** Another run with the same events: Core does not replay a run twice at the same time. */
function renamed(history) {
  const [started, ...rest] = history.events;
  const attributes = { ...started.workflowExecutionStartedEventAttributes, originalExecutionRunId: randomUUID() };
  return { events: [{ ...started, workflowExecutionStartedEventAttributes: attributes }, ...rest] };
}
