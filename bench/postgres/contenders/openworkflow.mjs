// OpenWorkflow on PostgreSQL, as its documentation has it.
import { OpenWorkflow } from "openworkflow";
import { BackendPostgres } from "openworkflow/postgres";

export async function open(url) {
  const backend = await BackendPostgres.connect(url);
  const client = new OpenWorkflow({ backend });
  const five = client.defineWorkflow({ name: "five" }, async ({ input, step }) => {
    for (let i = 0; i < 5; i++) await step.run({ name: `step-${i}` }, async () => ({ ok: true, i, input }));
    return { done: true };
  });
  const one = client.defineWorkflow({ name: "one" }, async ({ step }) => step.run({ name: "only" }, async () => ({ ok: true })));
  const chain = client.defineWorkflow({ name: "chain" }, async ({ input, step }) => {
    for (let i = 0; i < input; i++) await step.run({ name: `work-${i}` }, async () => ({ ok: true, i }));
    return input;
  });
  const wide = client.defineWorkflow({ name: "wide" }, async ({ input, step }) => {
    const results = await Promise.all(
      Array.from({ length: input }, (_, i) => step.run({ name: `wide-${i}` }, async () => ({ ok: true, i }))),
    );
    return results.length;
  });
  const worker = client.newWorker({ concurrency: 100 });
  await worker.start();
  const completed = async () => (await backend.countWorkflowRuns()).completed;
  /** Its own `result()` polls once a second: but for latency we ask the database instead, every 5 ms. */
  const until = async (count) => {
    while ((await completed()) < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  return {
    async throughput(runs) {
      const before = await completed();
      await Promise.all(Array.from({ length: runs }, (_, i) => five.run({ i })));
      await until(before + runs);
    },
    async latency() {
      await (await one.run({})).result();
    },
    async depth(steps) {
      const before = await completed();
      await chain.run(steps);
      await until(before + 1);
    },
    async width(count) {
      const before = await completed();
      await wide.run(count);
      await until(before + 1);
    },
    async close() {
      await worker.stop();
      await backend.stop();
    },
  };
}
