// Graphile Worker on PostgreSQL: jobs without steps, with the batching that its documentation recommends for high rates.

import { makeWorkerUtils, run } from "graphile-worker";
import { until } from "../statistics.mjs";

const CONCURRENCY = 100;
const AT_ONCE = 1_000;
const SILENT = { scope: () => SILENT, error: console.error, warn() {}, info() {}, debug() {} };

export async function open({ url }) {
  const worker = {
    connectionString: url,
    concurrentJobs: CONCURRENCY,
    maxPoolSize: 10,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  };
  let done = 0;
  const utils = await makeWorkerUtils({ connectionString: url, logger: SILENT });
  await utils.migrate();
  const runner = await run({
    preset: { worker },
    noHandleSignals: true,
    logger: SILENT,
    taskList: {
      job: async () => {
        done++;
      },
    },
  });
  return {
    async jobs(count) {
      const before = done;
      for (let at = 0; at < count; at += AT_ONCE)
        await utils.addJobs(
          Array.from({ length: Math.min(AT_ONCE, count - at) }, (_, i) => ({ identifier: "job", payload: { i: at + i } })),
        );
      await until(() => done >= before + count);
    },
    async close() {
      await runner.stop();
      await utils.release();
    },
  };
}
