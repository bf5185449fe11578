// Group commit: what of the turns and new runs of a process goes together, and how much at once.

import { realEnvironment } from "@holdfast/host";
import { describe, expect, test } from "vitest";
import { Committer } from "../../src/engine/committer.ts";
import { StoreError } from "../../src/store/errors.ts";
import type { NewRun, Store, TurnCommit } from "../../src/store/port.ts";

const UNLIMITED = { items: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY, calls: 1 };
const commit = (committer: Committer, turn: TurnCommit) => new Promise((done, failed) => committer.commit(turn, done, failed));
/** Longer than a batch waits for more. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
}
const ids = (count: number): string[] => Array.from({ length: count }, (_, n) => `k${n}`);

test("D3 where the store works elsewhere, half of the runs is written at a time, and the first of many new ones do not wait for the others", async () => {
  const committed: number[] = [];
  const created: number[] = [];
  const store = {
    limits: { ...UNLIMITED, calls: 2 },
    async commit(turns: readonly unknown[]) {
      committed.push(turns.length);
      return turns.map(() => ({ status: "committed", inbox: [] }));
    },
    async create(runs: readonly unknown[]) {
      created.push(runs.length);
      return runs.map(() => ({ status: "created" }));
    },
  } as unknown as Store;
  const committer = new Committer(store, realEnvironment, () => false, () => 100, () => {}); // biome-ignore format: one call
  await Promise.all(ids(100).map((runId) => commit(committer, { runId } as TurnCommit)));
  expect(committed).toEqual([50, 50]);
  const begun = ids(30).map((id) => committer.create({ id, input: "", first: { commit: {} } } as unknown as NewRun));
  const others = ids(250).map((id) => committer.create({ id, input: "" } as NewRun));
  await Promise.all([...begun, ...others]);
  expect(created.toSorted((a, b) => a - b)).toEqual([30, 50, 100, 100]);
  expect(committer.idle).toBe(true);
});

test.each([
  [0, [["a", "b", "c"]]],
  [1, [["a"], ["b", "c"]]],
  [2, [["a", "b", "c"]]],
])(
  "D2 D3 with %i runs in progress, new ones are written once each, and a first one that is alone does not wait for others",
  async (runs, expected) => {
    const created: string[][] = [];
    const create = async (batch: readonly NewRun[]) => {
      created.push(batch.map(({ id }) => id));
      await settled();
      return batch.map(({ id }) => ({ status: "created", id, execution: 1, inboxIds: [] }) as const);
    };
    const store = { limits: UNLIMITED, create } as Partial<Store> as Store;
    const committer = new Committer(store, realEnvironment, () => false, () => runs, () => {}); // biome-ignore format: one call
    const [first, ...others] = ["a", "b", "c"].map((id) => ({ id, first: {} }) as NewRun);
    const begun = committer.create(first as NewRun);
    await Promise.resolve(); // a microtask later, in the same turn of the event loop
    const more = others.map((run) => committer.create(run));
    expect((await Promise.all([begun, ...more])).map(({ id }) => id)).toEqual(["a", "b", "c"]);
    expect([created, committer.idle]).toEqual([expected, true]);
  },
);

test("D3 a caller that throws when it is notified does not stop others from being notified", async () => {
  const thrown: unknown[] = [];
  const note = (error: unknown): void => void thrown.push(error);
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").on("unhandledRejection", note);
  try {
    for (const fails of [false, true]) {
      const store = {
        limits: UNLIMITED,
        async commit(turns: readonly unknown[]) {
          if (fails) throw new Error("the disk is full");
          return turns.map(() => ({ status: "committed", inbox: [] }));
        },
      } as unknown as Store;
      const committer = new Committer(
        store,
        realEnvironment,
        () => false,
        () => 10,
        () => {},
      );
      const told: string[] = [];
      const tell = (id: string) => () => {
        told.push(id);
        if (id === "a") throw new Error("no listener");
      };
      for (const runId of ["a", "b"]) committer.commit({ runId } as TurnCommit, tell(runId), tell(runId));
      await settled();
      expect(told).toEqual(["a", "b"]);
      expect(committer.idle).toBe(true);
    }
    expect(thrown.map(String)).toEqual(["Error: no listener", "Error: no listener"]);
  } finally {
    process.off("unhandledRejection", note);
    for (const listener of others) process.on("unhandledRejection", listener);
  }
});

test("D3 no batch is larger than the store takes: by items, and by the bytes of the values in them", async () => {
  const created: string[][] = [];
  const store = {
    limits: { items: 3, bytes: 10, calls: 1 },
    async create(runs: readonly NewRun[]) {
      created.push(runs.map(({ id }) => id));
      return runs.map(({ id }) => ({ status: "created", id, execution: 1, inboxIds: [] }) as const);
    },
  } as Partial<Store> as Store;
  const committer = new Committer(store, realEnvironment, () => false, () => 0, () => {}); // biome-ignore format: one call
  const runs = [2, 2, 2, 2, 9, 1, 20, 1, 9].map((length, n) => ({ id: `${n}:${length}`, input: "x".repeat(length) }) as NewRun);
  await Promise.all(runs.map((run) => committer.create(run)));
  expect(created).toEqual([["0:2", "1:2", "2:2"], ["3:2"], ["4:9", "5:1"], ["6:20"], ["7:1", "8:9"]]);
});

describe("an end that the store can't write yet", () => {
  const busy = new StoreError("A transaction is open.", { code: "HF_STORE_BUSY", retryable: true, fault: "busy" });
  /** A committer on a store that is busy with ends, and an environment in which a wait takes no time. */
  function ending() {
    let now = 0;
    const after = (ms: number, then: () => void) => {
      now += ms;
      return realEnvironment.after(0, then);
    };
    const heldUp: string[] = [];
    const state = { isFree: false, tries: 0, now: () => now, heldUp };
    const store = {
      limits: UNLIMITED,
      async commit(turns: readonly TurnCommit[]) {
        state.tries++;
        if (!state.isFree && turns.some(({ close }) => close !== undefined)) throw busy;
        return turns.map(() => ({ status: "committed", inbox: [] }));
      },
    } as unknown as Store;
    const environment = { ...realEnvironment, after, elapsed: () => now };
    const committer = new Committer(store, environment, () => false, () => 10, () => {}, ({ runId }) => void heldUp.push(runId)); // biome-ignore format: one call
    return { committer, state };
  }
  const end = { runId: "a", close: { status: "completed" } } as TurnCommit;

  test("D6 is tried for as long as it takes, and says so once", async () => {
    const { committer, state } = ending();
    const ended = commit(committer, end);
    await expect.poll(() => state.now()).toBeGreaterThan(70_000);
    expect(state.heldUp).toEqual(["a"]);
    state.isFree = true;
    expect(await ended).toMatchObject({ status: "committed" });
    expect(committer.idle).toBe(true);
  });

  test("W4 is replaced by the commit that gives its run back", async () => {
    const { committer, state } = ending();
    const ended = commit(committer, end);
    ended.catch(() => {});
    await expect.poll(() => state.tries).toBeGreaterThan(3);
    expect(await commit(committer, { runId: "a", lease: "park" } as TurnCommit)).toMatchObject({ status: "committed" });
    await expect(ended).rejects.toBe(busy);
    expect(state.now()).toBeLessThan(30_000);
    expect(committer.idle).toBe(true);
  });
});

test("Q10 runs that come after one another are created in order, while the first of them waits for a lock", async () => {
  let isLocked = true;
  const created: string[] = [];
  const create = async (batch: readonly NewRun[]) => {
    if (isLocked && batch.some(({ after }) => after === "locked"))
      throw new StoreError("A transaction is open.", { code: "HF_STORE_BUSY", retryable: true, fault: "busy" });
    created.push(...batch.map(({ id }) => id));
    return batch.map(({ id }) => ({ status: "created", id, execution: 1, inboxIds: [] }) as const);
  };
  const store = { limits: { ...UNLIMITED, items: 3, calls: 2 }, create } as Partial<Store> as Store;
  const committer = new Committer(store, realEnvironment, () => false, () => 2, () => {}); // biome-ignore format: one call
  const line = ids(8).map((id, i, all) => committer.create({ id, input: "", after: i === 0 ? "locked" : all[i - 1] } as NewRun));
  const other = committer.create({ id: "other", input: "", after: "elsewhere" } as NewRun);
  await other;
  expect(created).toEqual(["other"]);
  isLocked = false;
  await Promise.all(line);
  expect(created).toEqual(["other", ...ids(8)]);
  expect(committer.idle).toBe(true);
});
