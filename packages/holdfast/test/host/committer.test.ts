// Group commit: what goes together, in which order, and how much at once.

import { realEnvironment } from "@holdfast/host";
import { describe, expect, test, vi } from "vitest";
import { Batcher, Committer } from "../../src/host/committer.ts";
import { partlyWritten, StoreError, StoreRefusedError } from "../../src/store/errors.ts";
import type { NewRun, Store, TurnCommit } from "../../src/store/port.ts";

interface Item {
  readonly key: string;
  readonly n: number;
}
/** A batcher whose writes end when they are told to. */
function batcher(atOnce: number, more: { most?: () => number; expecting?: () => boolean } = {}) {
  const writes: { readonly items: readonly Item[]; end(): void; fail(error: Error): void }[] = [];
  const made = new Batcher<Item, string>(
    realEnvironment,
    (items) =>
      new Promise((resolve, reject) => {
        writes.push({ items, end: () => resolve(items.map(({ key, n }) => `${key}${n}`)), fail: reject });
      }),
    { atOnce, keyOf: ({ key }) => key, ...more },
  );
  return { made, writes };
}
const commit = (committer: Committer, turn: TurnCommit) => new Promise((done, failed) => committer.commit(turn, done, failed));
/** Longer than a batch waits for more. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
}
const items = (count: number): Item[] => Array.from({ length: count }, (_, n) => ({ key: `k${n}-`, n }));

test("D3 with one write at a time, what comes during a write goes into the next, all of it", async () => {
  const { made, writes } = batcher(1);
  const first = made.add({ key: "a", n: 1 });
  await settled();
  const more = items(40).map((item) => made.add(item));
  await settled();
  expect(writes.map((write) => write.items.length)).toEqual([1]);
  writes[0]?.end();
  await settled();
  expect(writes.map((write) => write.items.length)).toEqual([1, 40]);
  writes[1]?.end();
  expect(await Promise.all([first, ...more])).toEqual(["a1", ...items(40).map(({ key, n }) => `${key}${n}`)]);
  expect(made.idle).toBe(true);
});

test("a store that throws instead of rejecting fails its batch, and the next one goes its way", async () => {
  let fails = true;
  const made = new Batcher<number, number>(realEnvironment, (numbers) => {
    if (fails) throw new Error("no store");
    return Promise.resolve([...numbers]);
  });
  await expect(made.add(1)).rejects.toThrow("no store");
  fails = false;
  expect(await made.add(2)).toBe(2);
  expect(made.idle).toBe(true);
});

test("each item that was written is told of before anybody who waits hears of it", async () => {
  const told: string[] = [];
  const made = new Batcher<number, string>(realEnvironment, (numbers) => Promise.resolve(numbers.map((n) => `r${n}`)), {
    written: ([item, result]) => told.push(`${item} ${result}`),
  });
  await Promise.all([1, 2].map((n) => made.add(n).then((result) => told.push(`heard ${result}`))));
  expect(told).toEqual(["1 r1", "2 r2", "heard r1", "heard r2"]);
});

test("D3 of a crowd no write takes more than its share: the rest is for the next, and a few go together", async () => {
  const { made, writes } = batcher(2, { most: () => 25 });
  const all = items(60).map((item) => made.add(item));
  await settled();
  expect(writes.map((write) => write.items.length)).toEqual([25, 25]);
  writes[1]?.end();
  await settled();
  expect(writes.map((write) => write.items.length)).toEqual([25, 25, 10]);
  for (const write of writes) write.end();
  expect(await Promise.all(all)).toEqual(items(60).map(({ key, n }) => `${key}${n}`));
  const few = items(3).map((item) => made.add(item));
  await settled();
  expect(writes.slice(3).map((write) => write.items.length)).toEqual([3]);
  writes[3]?.end();
  await Promise.all(few);
  expect(made.idle).toBe(true);
});

test("D3 a full share leaves at once, whatever else is about to come; less waits for it, but not for ever", async () => {
  const { made, writes } = batcher(2, { most: () => 20, expecting: () => true });
  for (const item of items(20)) void made.add(item);
  await new Promise((resolve) => setImmediate(resolve));
  expect(writes.map((write) => write.items.length)).toEqual([20]);
  void made.add({ key: "a", n: 1 });
  await new Promise((resolve) => setImmediate(resolve));
  expect(writes).toHaveLength(1);
  await settled();
  expect(writes.map((write) => write.items.length)).toEqual([20, 1]);
});

test("D3 where the store works elsewhere, half of the runs is written at a time, and the first of many new ones do not wait for the others", async () => {
  const committed: number[] = [];
  const created: number[] = [];
  const store = {
    commitsAtOnce: 2,
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
  await Promise.all(items(100).map(({ key }) => commit(committer, { runId: key } as TurnCommit)));
  expect(committed).toEqual([50, 50]);
  const begun = items(30).map(({ key }) => committer.create({ id: key, first: {} } as NewRun));
  const others = items(250).map(({ key }) => committer.create({ id: key } as NewRun));
  await Promise.all([...begun, ...others]);
  expect(created.toSorted((a, b) => a - b)).toEqual([30, 50, 100, 100]);
  expect(committer.idle).toBe(true);
});

test.each([
  [0, [["a", "b", "c"]]],
  [1, [["a"], ["b", "c"]]],
  [2, [["a", "b", "c"]]],
])(
  "D2 D3 with %i runs in progress, new ones are written once each, and a first one that is alone waits for nobody",
  async (runs, expected) => {
    const created: string[][] = [];
    const create = async (batch: readonly NewRun[]) => {
      created.push(batch.map(({ id }) => id));
      await settled();
      return batch.map(({ id }) => ({ status: "created", id, execution: 1, inboxIds: [] }) as const);
    };
    const store = { create } as Partial<Store> as Store;
    const committer = new Committer(store, realEnvironment, () => false, () => runs, () => {}); // biome-ignore format: one call
    const [first, ...others] = ["a", "b", "c"].map((id) => ({ id, first: {} }) as NewRun);
    const begun = committer.create(first as NewRun);
    await Promise.resolve(); // a microtask later, in the same turn of the event loop
    const more = others.map((run) => committer.create(run));
    expect((await Promise.all([begun, ...more])).map(({ id }) => id)).toEqual(["a", "b", "c"]);
    expect([created, committer.idle]).toEqual([expected, true]);
  },
);

test("D3 what belongs to one run is written in order: it waits for what is on its way, though there is room for another write", async () => {
  const { made, writes } = batcher(2);
  void made.add({ key: "a", n: 1 });
  await settled();
  const second = made.add({ key: "a", n: 2 });
  const other = made.add({ key: "b", n: 1 });
  const third = made.add({ key: "a", n: 3 });
  await settled();
  expect(writes.map((write) => write.items)).toEqual([[{ key: "a", n: 1 }], [{ key: "b", n: 1 }]]);
  writes[1]?.end();
  expect(await other).toBe("b1");
  await settled();
  expect(writes).toHaveLength(2);
  writes[0]?.end();
  await settled();
  expect(writes[2]?.items).toEqual([
    { key: "a", n: 2 },
    { key: "a", n: 3 },
  ]);
  writes[2]?.end();
  expect(await Promise.all([second, third])).toEqual(["a2", "a3"]);
});

test("D2 a write that fails fails those that were in it, and no others", async () => {
  const { made, writes } = batcher(2);
  const lost = made.add({ key: "a", n: 1 });
  await settled();
  const kept = made.add({ key: "b", n: 1 });
  await settled();
  writes[0]?.fail(new Error("no"));
  await expect(lost).rejects.toThrow("no");
  writes[1]?.end();
  expect(await kept).toBe("b1");
  const again = made.add({ key: "a", n: 2 });
  await settled();
  writes[2]?.end();
  expect(await again).toBe("a2");
});

test("D3 whoever throws when it is told keeps nobody else from being told", async () => {
  const thrown: unknown[] = [];
  const note = (error: unknown): void => void thrown.push(error);
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").on("unhandledRejection", note);
  try {
    for (const fails of [false, true]) {
      const store = {
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
        if (id === "a") throw new Error("nobody listens");
      };
      for (const runId of ["a", "b"]) committer.commit({ runId } as TurnCommit, tell(runId), tell(runId));
      await settled();
      expect(told).toEqual(["a", "b"]);
      expect(committer.idle).toBe(true);
    }
    expect(thrown.map(String)).toEqual(["Error: nobody listens", "Error: nobody listens"]);
  } finally {
    process.off("unhandledRejection", note);
    for (const listener of others) process.on("unhandledRejection", listener);
  }
});

describe("what a store refuses", () => {
  const refusal = new StoreRefusedError({ where: "the store", reason: "not this one" });
  /** A batcher on a store that takes batches whole or not at all, or in portions, one after the other. */
  function refusing(isBad: (item: Item) => boolean, portion = Number.POSITIVE_INFINITY, more: { atOnce?: number } = {}) {
    const written: Item[] = [];
    const told: Item[] = [];
    const calls: number[] = [];
    const made = new Batcher<Item, string>(
      realEnvironment,
      async (batch) => {
        calls.push(batch.length);
        const results: string[] = [];
        for (let from = 0; from < batch.length; from += portion) {
          const part = batch.slice(from, from + portion);
          await Promise.resolve();
          if (part.some(isBad)) throw partlyWritten(refusal, results);
          written.push(...part);
          results.push(...part.map(({ key, n }) => `${key}${n}`));
        }
        return results;
      },
      { keyOf: ({ key }) => key, written: ([item]) => void told.push(item), ...more },
    );
    return { made, written, told, calls };
  }
  const outcomes = (made: Batcher<Item, string>, all: readonly Item[]) => Promise.allSettled(all.map((item) => made.add(item)));

  test.each([1, 4, 7, Number.POSITIVE_INFINITY])(
    "D2 D3 fails the items that are at fault and no others, and nothing is written twice (portions of %i)",
    async (portion) => {
      const all = items(50);
      const isBad = ({ n }: Item): boolean => [0, 1, 30, 49].includes(n);
      const { made, written, told, calls } = refusing(isBad, portion);
      const settled = await outcomes(made, all);
      for (const [i, item] of all.entries())
        expect(settled[i]).toMatchObject(
          isBad(item) ? { status: "rejected", reason: { code: "HF_STORE_REFUSED" } } : { status: "fulfilled", value: `${item.key}${i}` },
        );
      expect(written).toEqual(all.filter((item) => !isBad(item)));
      expect(told).toEqual(written);
      expect(calls.length).toBeLessThan(4 * 2 * 7);
      expect(made.idle).toBe(true);
    },
  );

  test("D3 keeps the order of what belongs together, those included that come meanwhile", async () => {
    const { made, written } = refusing(({ n }) => n === 2, undefined, { atOnce: 2 });
    const all = [1, 2, 3, 4].map((n) => ({ key: "a", n }));
    const first = outcomes(made, all);
    await new Promise((resolve) => setImmediate(resolve));
    const second = outcomes(made, [{ key: "a", n: 5 }]);
    expect((await first).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    await second;
    expect(written.map(({ n }) => n)).toEqual([1, 3, 4, 5]);
  });

  test("D2 what was written of a call that could not be ended is told as written, and not written again", async () => {
    const calls: number[] = [];
    const made = new Batcher<Item, string>(realEnvironment, async (batch) => {
      calls.push(batch.length);
      const results = batch.map(({ key, n }): string | undefined => (n % 2 === 0 ? `${key}${n}` : undefined));
      throw partlyWritten(new StoreError("The server is away.", { code: "HF_STORE_UNAVAILABLE", retryable: true }), results);
    });
    const settled = await outcomes(made, items(4));
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "rejected"]);
    expect(settled[1]).toMatchObject({ reason: { code: "HF_STORE_UNAVAILABLE", retryable: true } });
    expect(calls).toEqual([4]);
  });

  test.each([
    ["HF_STORE_UNAVAILABLE", new StoreError("The server is away.", { code: "HF_STORE_UNAVAILABLE", retryable: true })],
    ["HF_STORE_BUSY", new StoreError("Locked.", { code: "HF_STORE_BUSY", retryable: true })],
    ["an error that is none of a store's", new Error("who knows")],
  ])("D3 %s is nobody's fault: nothing is tried again, also not in the midst of it", async (_, error) => {
    const calls: number[] = [];
    let failure: unknown = error;
    const made = new Batcher<Item, string>(realEnvironment, async (batch) => {
      calls.push(batch.length);
      const thrown = failure;
      failure = error;
      throw thrown;
    });
    expect((await outcomes(made, items(8))).map(({ status }) => status)).toEqual(items(8).map(() => "rejected"));
    expect(calls).toEqual([8]);
    failure = refusal;
    const settled = await outcomes(made, items(8));
    expect(settled.every((one) => one.status === "rejected" && one.reason === error)).toBe(true);
    expect(calls).toEqual([8, 8, 4]);
  });
});

describe("what somebody has locked", () => {
  /** A batcher on a store that rejects batches with one that is locked; such a one alone waits. */
  function locking(locked: Set<string>, more: { atOnce?: number } = {}) {
    const written: Item[] = [];
    let free = (): void => {};
    const unlocked = new Promise<void>((resolve) => {
      free = () => {
        locked.clear();
        resolve();
      };
    });
    const write = async (batch: readonly Item[]): Promise<string[]> => {
      await Promise.resolve();
      if (batch.some(({ key }) => locked.has(key))) {
        if (batch.length > 1) throw new StoreError("locked", { code: "HF_STORE_BUSY", retryable: true, isOfOne: true });
        await unlocked;
      }
      written.push(...batch);
      return batch.map(({ key, n }) => `${key}${n}`);
    };
    const made = new Batcher<Item, string>(realEnvironment, write, { keyOf: ({ key }) => key, ...more });
    return { made, written, free };
  }

  test.each([1, 2])("D3 waits by itself, and what comes behind it of its key keeps its order (%i at once)", async (atOnce) => {
    const { made, written, free } = locking(new Set(["b", "e"]), { atOnce });
    const first = [..."abcdefgh"].flatMap((key) => [{ key, n: 1 }, { key, n: 2 }]); // biome-ignore format: one line
    const added = first.map((item) => made.add(item));
    await Promise.all(added.filter((_, i) => !"be".includes((first[i] as Item).key)));
    const behind = made.add({ key: "b", n: 3 });
    expect(await made.add({ key: "z", n: 1 })).toBe("z1");
    expect(written.some(({ key }) => "be".includes(key))).toBe(false);
    expect(made.idle).toBe(false);
    free();
    await Promise.all([...added, behind]);
    for (const key of "abcdefgh")
      expect(written.filter((item) => item.key === key).map(({ n }) => n)).toEqual(key === "b" ? [1, 2, 3] : [1, 2]);
    await vi.waitUntil(() => made.idle);
  });
});

describe("an end that the store can't write yet", () => {
  const busy = new StoreError("A transaction is open.", { code: "HF_STORE_BUSY", retryable: true, isOfOne: true });
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
    await vi.waitFor(() => expect(state.now()).toBeGreaterThan(70_000), { timeout: 5_000 });
    expect(state.heldUp).toEqual(["a"]);
    state.isFree = true;
    expect(await ended).toMatchObject({ status: "committed" });
    expect(committer.idle).toBe(true);
  });

  test("W4 is given up for the commit that gives its run back", async () => {
    const { committer, state } = ending();
    const ended = commit(committer, end);
    ended.catch(() => {});
    await vi.waitFor(() => expect(state.tries).toBeGreaterThan(3));
    expect(await commit(committer, { runId: "a", lease: "park" } as TurnCommit)).toMatchObject({ status: "committed" });
    await expect(ended).rejects.toBe(busy);
    expect(state.now()).toBeLessThan(30_000);
    expect(committer.idle).toBe(true);
  });
});
