// The PostgreSQL store of Holdfast by itself: claims from a queue with a limit for each of very many keys.

import { jsonCodec } from "@holdfast/core";
import { PostgresStore } from "@holdfast/postgres";

const CREATED_AT_ONCE = 1_000;
const CLAIMED_AT_ONCE = 100;
const CLAIMS = 300;
const LEASE = 60_000;
const PER_KEY = 2;

export async function open({ url }) {
  const store = new PostgresStore({ connectionString: url });
  await store.open();
  return {
    /** What each of so many claims took, in milliseconds; what is claimed ends before the next claim. */
    async claims(keys) {
      await store.setQueue("jobs", { perKey: { concurrency: 1 } });
      const input = jsonCodec.encode(null);
      const common = { workflow: "job", version: undefined, input, queue: "jobs", priority: 0, attributes: {}, onConflict: "reject" };
      for (let round = 0; round < PER_KEY; round++)
        for (let at = 0; at < keys; at += CREATED_AT_ONCE) {
          const numbers = Array.from({ length: Math.min(CREATED_AT_ONCE, keys - at) }, (_, i) => at + i);
          await store.create(numbers.map((i) => ({ ...common, id: `${round}-${i}`, key: `key-${i}`, seed: `${i}` })));
        }
      const values = [];
      let claimed = 0;
      for (let i = 0; i < CLAIMS; i++) {
        const since = performance.now();
        const { runs } = await store.claim({
          workerId: "w",
          queue: "jobs",
          serves: [{ workflow: "job", versions: "*" }],
          limit: CLAIMED_AT_ONCE,
          lease: LEASE,
          cached: () => undefined,
        });
        values.push(performance.now() - since);
        claimed += runs.length;
        await store.commit(
          runs.map(({ run: { id, execution, epoch } }) => ({
            ...{ runId: id, execution, epoch, workerId: "w", status: "completed", lease: "keep" },
            close: { status: "completed", output: input },
          })),
        );
      }
      return { claimed, values };
    },
    close: () => store.close(),
  };
}
