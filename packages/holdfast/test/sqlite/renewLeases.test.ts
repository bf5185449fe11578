// Leases on SQLite: a renewal is a write only if it is worth one.

import { type Bench, type Held, LEASE } from "@holdfast/conformance/bench";
import { expect, test } from "vitest";
import { newPath, openBench } from "./support.ts";

const renewed = async (bench: Bench, { runId, epoch }: Held) => {
  expect(await bench.store.renew("w1", LEASE, [{ runId, epoch, seen: 0 }])).toEqual([{ held: true, inbox: [] }]);
  return (await bench.row(runId)).availableAt;
};

test("W3 a clock that is set back does not make leases longer: a worker that takes over would wait for as long", async () => {
  const bench = await openBench();
  const held = await bench.running("a");
  bench.time -= 3_600_000;
  expect(await renewed(bench, held)).toBe(bench.time + LEASE);
});

test.each([-0.05, 0.05])("W3 a lease that is off by %d of its length stays as it is", async (share) => {
  const bench = await openBench();
  const held = await bench.running("a");
  const { availableAt } = await bench.row("a");
  bench.time += share * LEASE;
  expect(await renewed(bench, held)).toBe(availableAt);
});

test("W3 a process that begins after the clock was set back finds the leases of the dead", async () => {
  const path = newPath();
  const dead = await openBench(path);
  await dead.running("a");
  const heir = await openBench(path);
  heir.time = dead.time - 3_600_000;
  await heir.store.expire();
  expect((await heir.row("a")).availableAt).toBe(heir.time + LEASE);
  heir.time += LEASE;
  expect(await heir.claimRun("a", { workerId: "w2" })).toMatchObject({ recovered: true });
});
