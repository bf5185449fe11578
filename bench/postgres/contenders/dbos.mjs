// DBOS on PostgreSQL: workflows started directly, which is its fastest way (a queue polls once a second).
import { DBOS } from "@dbos-inc/dbos-sdk";

const CONCURRENCY = 100;

export async function open(url) {
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
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: url, logLevel: "error", runAdminServer: false });
  await DBOS.launch();
  const result = async (workflow, ...args) => (await DBOS.startWorkflow(workflow)(...args)).getResult();
  return {
    async throughput(runs) {
      let next = 0;
      const lane = async () => {
        while (next < runs) await result(five, { i: next++ });
      };
      await Promise.all(Array.from({ length: CONCURRENCY }, lane));
    },
    async latency() {
      await result(one);
    },
    async depth(steps) {
      await result(chain, steps);
    },
    async width(count) {
      await result(wide, count);
    },
    async close() {
      await DBOS.shutdown();
    },
  };
}
