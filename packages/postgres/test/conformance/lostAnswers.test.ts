// The tests of the port in which an answer is lost, on a network that loses it.

import { storeConformance } from "@holdfast/conformance";
import type { Store } from "holdfast/store";
import { describe, expect, onTestFinished, test } from "vitest";
import { useDatabase } from "../support.ts";
import { Wire } from "../wire.ts";

const database = useDatabase();

describe("PostgresStore, through a network that loses answers", () => {
  const wires = new Map<Store, Wire>();
  const calls = { create: "create_runs_1", commit: "commit_turns_1", send: "send_messages_1" };
  storeConformance({
    name: "Postgres",
    test: (title, run) => (title.includes("answer is lost") ? test(title, run) : undefined),
    async makeStore({ clock }) {
      const { wire, url } = await Wire.to(database.url);
      const store = await database.openBare({ connectionString: url, schema: database.newSchema(), clock });
      wires.set(store, wire);
      onTestFinished(async () => {
        expect(wire.lost).toBe(3);
        await wire.close();
      });
      return store;
    },
    loseAnswer: (store, method) => wires.get(store)?.loseAnswerOf(calls[method]),
  });
});
