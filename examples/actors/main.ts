// A process with many actors: it creates them, sends some customers through the shops, and ends when their cards are full and rewarded. The
// other cards sleep and cost nothing. Run it again after it was killed: it sends everything again under the same keys, and no visit is
// stamped twice.

import { card, FULL } from "./actor.ts";
import { ActorHost } from "./host.ts";

const count = Number(process.env["ACTORS"] ?? 2_000);
const customers = Array.from({ length: count }, (_, i) => `customer-${i}`);
/** One customer in eight visits the shops. */
const visitors = customers.filter((_, i) => i % 8 === 0);

const host = await ActorHost.open(process.env["ACTORS_DB"] ?? "actors.db", card);
console.log("open");

/** Runs many at a time: the database writes concurrent changes together. */
async function each(names: readonly string[], work: (customer: string) => Promise<void>): Promise<void> {
  const waiting = [...names];
  const worker = async () => {
    for (let customer = waiting.shift(); customer !== undefined; customer = waiting.shift()) await work(customer);
  };
  await Promise.all(Array.from({ length: 200 }, worker));
}

const there = new Set<string>();
for await (const customer of host.actors()) there.add(customer);
await each(
  customers.filter((customer) => !there.has(customer)),
  (customer) => host.create(customer, customer),
);
console.log(`created ${count - there.size}`);

for (let visit = 1; visit <= FULL; visit++) {
  await each(visitors, async (customer) => {
    try {
      await host.actor(customer).signal("visit", { shop: `shop ${visit}` }, { idempotencyKey: `visit-${visit}` });
    } catch (error) {
      if ((error as { code?: string }).code !== "HF_RUN_CLOSED") throw error; // the card was full already
    }
  });
  console.log(`visit ${visit}`);
}

await host.quiet();
const statuses: Record<string, number> = {};
for await (const customer of host.actors()) {
  const { status } = await host.actor(customer).result();
  statuses[status] = (statuses[status] ?? 0) + 1;
}
console.log(`completed ${statuses["completed"]}, sleeping ${statuses["sleeping"]}`);
await host.close();
