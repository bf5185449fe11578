// pg-boss on PostgreSQL: jobs without steps. A worker fetches a batch, twice per second at most.

import PgBoss from "pg-boss";
import { until } from "../statistics.mjs";

const QUEUE = "jobs";
/** Several workers with large batches: a worker that has emptied its batch waits for its next half second. */
const WORKERS = 4;
const BATCH = 2_500;
const AT_ONCE = 1_000;

export async function open({ url }) {
  const boss = new PgBoss({ connectionString: url, max: 10, supervise: false, schedule: false });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  await boss.createQueue(QUEUE);
  let done = 0;
  for (let i = 0; i < WORKERS; i++)
    await boss.work(QUEUE, { batchSize: BATCH, pollingIntervalSeconds: 0.5 }, async (jobs) => {
      done += jobs.length;
    });
  return {
    async jobs(count) {
      const before = done;
      for (let at = 0; at < count; at += AT_ONCE)
        await boss.insert(Array.from({ length: Math.min(AT_ONCE, count - at) }, (_, i) => ({ name: QUEUE, data: { i: at + i } })));
      await until(() => done >= before + count);
    },
    close: () => boss.stop({ graceful: false }),
  };
}
