// Looks at deadlines on a store that is slow to answer.

import { realEnvironment } from "@holdfast/host";
import { Holdfast } from "holdfast";
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import { Gate } from "./engines.ts";

test("K7 deadlines are looked at by one call at a time, and looked at again for one that strikes meanwhile", async () => {
  const store = new MemoryStore();
  const chores: (() => void)[] = [];
  const alarms: (() => void)[] = [];
  const environment = {
    ...realEnvironment,
    every: (_: number, chore: () => void) => {
      chores.push(chore);
      return { cancel: () => {} };
    },
    after: (_: number, alarm: () => void) => {
      alarms.push(alarm);
      return { cancel: () => {} };
    },
  };
  const gates: Gate[] = [];
  store.expire = async () => {
    const gate = new Gate();
    gates.push(gate);
    await gate.passed;
    return { expired: 0, now: 0, schedules: [] };
  };
  const engine = await Holdfast.with({ store, environment });
  for (let i = 0; i < 3; i++) for (const chore of chores) chore();
  expect(gates).toHaveLength(1);
  await engine.start("w", undefined, { deadline: 5 });
  for (const alarm of alarms) alarm();
  expect(gates).toHaveLength(1);
  gates[0]?.open();
  await new Promise((resolve) => setImmediate(resolve));
  expect(gates).toHaveLength(2);
  gates[1]?.open();
  await new Promise((resolve) => setImmediate(resolve));
  expect(gates).toHaveLength(2);
  await engine.close();
});
