// The Postgres store keeps the port, on a real server, through crashes: an instance is dropped unclosed and another opens its schema.

import { storeConformance } from "@holdfast/conformance";
import type { Store } from "holdfast/store";
import { describe, test } from "vitest";
import { useDatabase } from "./support.ts";

const database = useDatabase();
const opened = new Map<Store, { schema: string; clock: () => number }>();

async function open(schema: string, clock: () => number): Promise<Store> {
  const store = await database.open({ schema, clock, connections: 4 });
  opened.set(store, { schema, clock });
  return store;
}
const again = (store: Store): Promise<Store> => {
  const { schema, clock } = opened.get(store) ?? { schema: "", clock: Date.now };
  return open(schema, clock);
};

describe("PostgresStore", () => {
  storeConformance({
    name: "Postgres",
    test,
    makeStore: async ({ clock }) => open(await database.emptySchema(), clock),
    reopen: again,
    beside: again,
  });
});
