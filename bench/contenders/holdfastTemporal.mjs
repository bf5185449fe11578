// Holdfast on a Temporal server. Its workers are separate processes, as those of Temporal's SDK.

import { randomUUID } from "node:crypto";
import { DEFAULT_LIMITS, jsonCodec } from "@holdfast/core";
import { openBackend } from "@holdfast/temporal";
import { Holdfast, replay, workflow } from "holdfast";
import { byCallers } from "../statistics.mjs";

/** The number of callers that start runs and wait for their results. */
const CALLERS = 100;
/** A run of so many steps leaves about a hundred events: six for each step. */
const STEPS_OF_HISTORY = 16;
const HISTORIES = 50;

/** The workflows, with remote or with local steps. */
function workflowsWith(options) {
  const five = workflow("five", async (ctx, input) => {
    for (let i = 0; i < 5; i++) await ctx.step(`step-${i}`, async () => ({ ok: true, i, input }), options);
    return { done: true };
  });
  const one = workflow("one", async (ctx) => ctx.step("only", async () => ({ ok: true }), options));
  const chain = workflow("chain", async (ctx, steps) => {
    for (let i = 0; i < steps; i++) await ctx.step("work", async () => ({ ok: true, i }), options);
    return steps;
  });
  const wide = workflow("wide", async (ctx, width) => {
    const results = await Promise.all(
      Array.from({ length: width }, (_, i) => ctx.step(`wide-${i}`, async () => ({ ok: true, i }), options)),
    );
    return results.length;
  });
  return { five, one, chain, wide };
}

/** `sharesSteps`: no worker has a queue for the steps of its own runs; all steps go to the queue of all workers. */
async function openEngine(url, sharesSteps) {
  if (!sharesSteps) return Holdfast.open(url);
  const logger = { debug() {}, info() {}, warn() {}, error: console.error };
  const options = { codec: jsonCodec, logger, limits: DEFAULT_LIMITS, namespace: undefined };
  return Holdfast.with({ backend: await openBackend(url, options, { sticky: 5_000, ownQueue: 0 }) });
}

export async function open({ url }, { workers, isLocal = false, sharesSteps = false }) {
  const { five, one, chain, wide } = workflowsWith(isLocal ? { local: true } : {});
  const engine = await openEngine(url, sharesSteps);
  if (workers > 0)
    await engine.worker({ workflows: [five, one, chain, wide], concurrency: 100, activityConcurrency: 100, determinism: "off" });
  const result = async (definition, input) => (await engine.start(definition, input)).result();

  let histories = [];
  return {
    throughput: (runs) => byCallers(CALLERS, runs, (i) => result(five, { i })),
    latency: () => result(one, undefined),
    depth: (steps) => result(chain, steps),
    width: (count) => result(wide, count),
    async prepare(count) {
      const runs = [];
      for (let i = 0; i < HISTORIES; i++) runs.push(await engine.start(chain, STEPS_OF_HISTORY));
      await Promise.all(runs.map((run) => run.result()));
      const recorded = await Promise.all(runs.map((run) => run.history()));
      histories = Array.from({ length: count }, (_, i) => renamed(recorded[i % HISTORIES]));
      return recorded[0].turns.length;
    },
    async check(count) {
      for (let i = 0; i < count; i++) await replay(chain, histories[i]);
    },
    close: () => engine.close(),
  };
}

/** Another run with the same events. */
function renamed(history) {
  const [started, ...rest] = history.turns;
  const attributes = { ...started.workflowExecutionStartedEventAttributes, originalExecutionRunId: randomUUID() };
  return { ...history, turns: [{ ...started, workflowExecutionStartedEventAttributes: attributes }, ...rest] };
}
