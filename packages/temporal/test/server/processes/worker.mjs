// node worker.mjs <url> <ledger> [options as JSON]: a worker in a process of its own, which its parent may kill.
// Every function of a step writes a line to the ledger when it begins: run, step, attempt, process, time. A step whose name begins with
// "held" tells the parent that it has begun, and ends when the parent says so. "stop" stops the worker.

import { appendFileSync } from "node:fs";
import { Holdfast, Receive, workflow } from "holdfast";

const [, , url, ledger, options = "{}"] = process.argv;
let release = () => {};
const released = new Promise((resolve) => {
  release = resolve;
});

const body =
  (ctx, name) =>
  async ({ attempt }) => {
    appendFileSync(ledger, `${JSON.stringify({ run: ctx.run.id, step: name, attempt, pid: process.pid, at: Date.now() })}\n`);
    if (name.startsWith("held")) {
      process.send({ begun: name, run: ctx.run.id });
      await released;
    }
    await new Promise((resolve) => setTimeout(resolve, 50)); // its work
    return name;
  };
const step = (ctx, name) => ctx.step(name, body(ctx, name), { retry: { initialInterval: 10, maxAttempts: 20 } });

/** The names of steps, one after the other; an inner list is a set of branches at the same time; "signal" waits for one. */
async function follow(ctx, plan) {
  const results = [];
  for (const part of plan) {
    if (Array.isArray(part)) {
      const branches = part.map((names) => (branch) => follow(branch, names));
      results.push((await ctx.parallel(branches)).map(({ value }) => value));
    } else if (part === "signal") results.push(await ctx.waitForSignal("go"));
    else results.push(await step(ctx, part));
  }
  return results;
}
const planned = workflow("planned", (ctx, plan) => follow(ctx, plan));
/** Answers updates with what their steps return. */
const entity = workflow("entity", async (ctx) => {
  const { state } = await ctx.receive([], {
    signals: { end: (_, names) => Receive.stop(names) },
    updates: {
      run: async (name, names, handler) => Receive.reply(await step(handler, name), [...names, name]),
    },
  });
  return state;
});
/** Waits for a child that follows the plan. */
const parent = workflow("parent", (ctx, plan) => ctx.child(planned, plan, { id: `${ctx.run.id}-child` }));

const logger = { debug() {}, info() {}, warn() {}, error() {} };
const holdfast = await Holdfast.open(url, { logger });
const worker = await holdfast.worker({ workflows: [planned, entity, parent], lease: "5s", gracePeriod: "30s", ...JSON.parse(options) });
process.on("message", async (message) => {
  if (message === "release") release();
  if (message !== "stop") return;
  const stopped = worker.stop();
  process.send({ stopping: true });
  await stopped;
  await holdfast.close();
  process.send({ stopped: true });
  process.disconnect();
});
process.send({ ready: worker.id });
