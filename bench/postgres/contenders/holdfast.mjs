// Holdfast on PostgreSQL: default settings.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Holdfast, workflow } from "holdfast";
import { five, workflows } from "./holdfastWorkflows.mjs";

const [, one, chain, wide] = workflows;
const parked = workflow("parked", async (ctx) => ctx.waitForSignal("never"));

export async function open(url, { processes }) {
  const engine = await Holdfast.open(url);
  // With worker processes of their own, this one only starts runs.
  const worker = processes === undefined ? await engine.worker({ workflows, concurrency: 100, determinism: "off" }) : undefined;
  const children = [];
  const startFives = (runs) =>
    engine.startMany(
      five,
      Array.from({ length: runs }, (_, i) => ({ input: { i } })),
    );
  return {
    async throughput(runs) {
      const started = await startFives(runs);
      await Promise.all(started.map((run) => run.result()));
    },
    async latency() {
      await (await engine.start(one, undefined)).result();
    },
    async depth(steps) {
      await (await engine.start(chain, steps)).result();
    },
    async width(count) {
      await (await engine.start(wide, count)).result();
    },
    async crew(size) {
      const script = fileURLToPath(new URL("./holdfastWorker.mjs", import.meta.url));
      for (let i = 0; i < size; i++)
        children.push(spawn(process.execPath, [script, url], { stdio: ["ignore", "ignore", "inherit", "ipc"] }));
      await Promise.all(children.map((child) => new Promise((resolve) => child.once("message", resolve))));
    },
    async handed(runs) {
      const { completed } = await engine.count({ workflow: "five" });
      await startFives(runs);
      while ((await engine.count({ workflow: "five" })).completed < completed + runs)
        await new Promise((resolve) => setTimeout(resolve, 10));
    },
    /** Runs that really ran, and wait for a signal; out of memory, in the database. */
    async crowd(runs) {
      const parker = await engine.worker({ workflows: [parked], queue: "crowd", concurrency: 500, cachedRuns: 0, determinism: "off" });
      for (let at = 0; at < runs; at += 1_000) {
        await engine.startMany(
          parked,
          Array.from({ length: Math.min(1_000, runs - at) }, () => ({ input: undefined, queue: "crowd" })),
        );
      }
      while ((await engine.count({ workflow: "parked" })).sleeping < runs) await new Promise((resolve) => setTimeout(resolve, 100));
      await parker.stop();
    },
    async close() {
      await Promise.all(
        children.map((child) => {
          const ended = new Promise((resolve) => child.once("exit", resolve));
          child.kill("SIGTERM");
          return ended;
        }),
      );
      await worker?.stop();
      await engine.close();
    },
  };
}
