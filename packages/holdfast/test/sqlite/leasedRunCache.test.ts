// What the SQLite store remembers of runs between their turns, against a store that remembers nothing: random calls, from two
// connections to one file, must be answered as the memory store answers them.

import { Bench, COMPLETED, failure, type Held, heldOf, payload, signal } from "@holdfast/conformance/bench";
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { SqliteStore } from "../../src/store/sqlite/store.ts";
import { newPath, openStore } from "./support.ts";

/** A small generator of whole numbers below a limit (mulberry32). */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const RUNS = ["a", "b", "c"];

/** Plays one game on these stores, which share what they store, and tells how each call was answered. */
async function play(seed: number, clock: { time: number }, stores: readonly (MemoryStore | SqliteStore)[]): Promise<string[]> {
  const roll = dice(seed);
  const log: string[] = [];
  const claims = new Map<string, Held[]>();
  const words = await Bench.on({ makeStore: () => stores[0] as MemoryStore | SqliteStore });
  for (let move = 0; move < 60; move++) {
    const store = stores[roll(8) === 0 ? stores.length - 1 : 0] as MemoryStore | SqliteStore;
    const id = RUNS[roll(RUNS.length)] as string;
    const mine = claims.get(id) ?? [];
    // Mostly the newest claim, sometimes one that is over.
    const held = mine[roll(4) === 0 ? roll(Math.max(mine.length, 1)) : mine.length - 1];
    words.time = clock.time;
    const call = roll(12);
    const answer = await (async (): Promise<unknown> => {
      switch (call) {
        case 0:
          return (
            await store.create([
              words.newRun(id, { queue: "default", onConflict: "restart-if-closed", deadline: roll(2) === 0 ? 1_000 : undefined }),
            ])
          ).map(({ status }) => status);
        case 1: {
          const serves = [{ workflow: "order", versions: "*" }] as const;
          const request = { workerId: `w${roll(2)}`, queue: "default", serves, limit: 2, lease: 1_000, cached: () => undefined };
          const { runs } = await store.claim(request);
          for (const run of runs) claims.set(run.run.id, [...(claims.get(run.run.id) ?? []), heldOf(run)]);
          return runs.map(({ run, inbox, recovered }) => [run.id, run.epoch, run.turns, inbox.map(({ job }) => job.type), recovered]);
        }
        case 2:
          return (await store.send([{ runId: id, message: { job: signal(`s${move}`) } }])).map(({ status }) => status);
        case 3:
          return roll(3) > 0 ? [] : (await store.terminate([{ runId: id, reason: undefined }])).map(({ status }) => status);
        case 4:
          return store.resume([id]);
        case 5:
          clock.time += roll(1_500);
          return (await store.expire()).expired;
      }
      if (held === undefined) return "no worker has it";
      const turn = words.turn({ ...held });
      const usual = { ...words.draft(held), seen: 0, turn };
      const kinds = [
        usual,
        usual,
        { ...usual, rollbacks: 1 },
        { ...usual, children: [words.newRun(`${id}/child${move}`, { queue: "children" })] },
        { ...usual, lease: "park", status: "sleeping", wakeAt: clock.time + 500 },
        { ...usual, close: COMPLETED, status: "completed" },
        { ...usual, close: { status: "failed", error: failure("no") }, status: "failed" },
        {
          ...usual,
          close: { status: "continued", next: { input: payload(1), version: undefined, seed: "s", carried: [] } },
          status: "pending",
        },
      ] as const;
      const commit = kinds[roll(kinds.length)] ?? usual;
      // Now and then beside a write that fails, and takes the transaction back with it.
      const isDisturbed = roll(5) === 0 && stores.length > 1;
      const written = store.commit([commit]);
      if (isDisturbed) await store.create([words.newRun("broken", { attributes: { no: 1n as never } })]).catch(() => {});
      const result = await written;
      if (result[0]?.status === "committed") held.turns++;
      const keeps = commit.lease === "keep" && !("close" in commit);
      return result.map((one) => (one.status === "committed" && keeps ? one.inbox.map(({ job }) => job.type) : one.status));
    })();
    const rows = await store.get(RUNS);
    const seen = rows.map(
      (row) => row && [row.status, row.epoch, row.execution, row.attempt, row.turns, row.historyLength, row.availableAt],
    );
    log.push(JSON.stringify([move, call, id, answer, seen]));
  }
  return log;
}

test("D4 D9 K6 what is remembered of a run is what its row says, no matter who writes between turns", async () => {
  for (let seed = 1; seed <= 100; seed++) {
    const path = newPath();
    const clock = { time: 1_000_000 };
    const stores = [await openStore(path, { clock: () => clock.time }), await openStore(path, { clock: () => clock.time })];
    const played = await play(seed, clock, stores);
    const again = { time: 1_000_000 };
    expect(played, `seed ${seed}`).toEqual(await play(seed, again, [new MemoryStore({ clock: () => again.time })]));
  }
}, 60_000);
