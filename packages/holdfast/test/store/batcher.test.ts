// The batcher, with a write function of the test: what shares a call, and what happens to items that are refused, busy or lost.

import { realEnvironment } from "@holdfast/host";
import { describe, expect, test } from "vitest";
import type { Answer } from "../../src/store/batch.ts";
import { Batcher, type BatcherOptions, type Write } from "../../src/store/batcher.ts";
import { StoreError, StoreRefusedError } from "../../src/store/errors.ts";

interface Item {
  readonly key: string;
  readonly n: number;
}
const UNLIMITED = { items: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY, calls: 1 };
const keyOf = ({ key }: Item): string => key;
const resultOf = ({ key, n }: Item): string => `${key}${n}`;
/** Longer than a batch waits for more. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
}
const items = (count: number): Item[] => Array.from({ length: count }, (_, n) => ({ key: `k${n}-`, n }));
const refusal = new StoreRefusedError({ where: "the store", reason: "not this one" });
const busy = () => new StoreError("locked", { code: "HF_STORE_BUSY", retryable: true, fault: "busy" });
const away = () => new StoreError("The server is away.", { code: "HF_STORE_UNAVAILABLE", retryable: true });

function batcherOf(write: Write<Item, string>, more: Partial<BatcherOptions<Item, string>> = {}): Batcher<Item, string> {
  return new Batcher(realEnvironment, write, { limits: UNLIMITED, keyOf, ...more });
}
/** A batcher whose writes end when the test ends them. */
function held(calls: number, more: Partial<BatcherOptions<Item, string>> = {}) {
  const writes: { readonly items: readonly Item[]; end(): void; fail(error: Error): void }[] = [];
  const write: Write<Item, string> = (batch) =>
    new Promise((resolve, reject) => {
      writes.push({ items: batch, end: () => resolve(batch.map(resultOf)), fail: reject });
    });
  return { made: batcherOf(write, { calls, ...more }), writes };
}
const outcomes = (made: Batcher<Item, string>, all: readonly Item[]) => Promise.allSettled(all.map((item) => made.add(item)));

describe("what shares a call", () => {
  test("D3 with one call at a time, what comes during a call goes into the next, all of it", async () => {
    const { made, writes } = held(1);
    const first = made.add({ key: "a", n: 1 });
    await settled();
    const more = items(40).map((item) => made.add(item));
    await settled();
    expect(writes.map((write) => write.items.length)).toEqual([1]);
    writes[0]?.end();
    await settled();
    expect(writes.map((write) => write.items.length)).toEqual([1, 40]);
    writes[1]?.end();
    expect(await Promise.all([first, ...more])).toEqual(["a1", ...items(40).map(resultOf)]);
    expect(made.idle).toBe(true);
  });

  test("D3 of a crowd no call takes more than its share: the rest is for the next, and a few go together", async () => {
    const { made, writes } = held(2, { most: () => 25 });
    const all = items(60).map((item) => made.add(item));
    await settled();
    expect(writes.map((write) => write.items.length)).toEqual([25, 25]);
    writes[1]?.end();
    await settled();
    expect(writes.map((write) => write.items.length)).toEqual([25, 25, 10]);
    for (const write of writes) write.end();
    expect(await Promise.all(all)).toEqual(items(60).map(resultOf));
    const few = items(3).map((item) => made.add(item));
    await settled();
    expect(writes.slice(3).map((write) => write.items.length)).toEqual([3]);
    writes[3]?.end();
    await Promise.all(few);
    expect(made.idle).toBe(true);
  });

  test("D3 between two calls the event loop has a turn", async () => {
    const events: string[] = [];
    const made = batcherOf(
      async (batch) => {
        events.push(`write ${batch.length}`);
        setImmediate(() => events.push("turn"));
        return batch.map(resultOf);
      },
      { limits: { ...UNLIMITED, items: 2 } },
    );
    await Promise.all(items(5).map((item) => made.add(item)));
    expect(events.slice(0, 5)).toEqual(["write 2", "turn", "write 2", "turn", "write 1"]);
  });

  test("D3 a full share leaves at once, whatever else is about to come; less waits for it, but not forever", async () => {
    const { made, writes } = held(2, { most: () => 20, expecting: () => true });
    for (const item of items(20)) void made.add(item);
    await new Promise((resolve) => setImmediate(resolve));
    expect(writes.map((write) => write.items.length)).toEqual([20]);
    void made.add({ key: "a", n: 1 });
    await new Promise((resolve) => setImmediate(resolve));
    expect(writes).toHaveLength(1);
    await settled();
    expect(writes.map((write) => write.items.length)).toEqual([20, 1]);
  });

  test("D3 items with one key are written in order: they wait for what is under way, though there is room for another call", async () => {
    const { made, writes } = held(2);
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
    expect(writes[2]?.items.map(({ n }) => n)).toEqual([2, 3]);
    writes[2]?.end();
    expect(await Promise.all([second, third])).toEqual(["a2", "a3"]);
  });

  test("each item that was written is reported before any caller hears of it", async () => {
    const told: string[] = [];
    const made = batcherOf(async (batch) => batch.map(resultOf), { written: (item, result) => void told.push(`${item.n} ${result}`) });
    await Promise.all(items(2).map((item) => made.add(item).then((result) => told.push(`heard ${result}`))));
    expect(told).toEqual(["0 k0-0", "1 k1-1", "heard k0-0", "heard k1-1"]);
  });
});

describe("calls that fail", () => {
  test("D2 a call that can't be carried out fails its items, and no others", async () => {
    const { made, writes } = held(2);
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

  test("a store that throws instead of rejecting fails its batch, and the next one goes its way", async () => {
    let fails = true;
    const made = batcherOf((batch) => {
      if (fails) throw new Error("no store");
      return Promise.resolve(batch.map(resultOf));
    });
    await expect(made.add({ key: "a", n: 1 })).rejects.toThrow("no store");
    fails = false;
    expect(await made.add({ key: "a", n: 2 })).toBe("a2");
    expect(made.idle).toBe(true);
  });

  test.each([
    ["HF_STORE_UNAVAILABLE", away()],
    ["a file that is locked", new StoreError("Locked.", { code: "HF_STORE_BUSY", retryable: true })],
    ["an error that no store has made", new Error("who knows")],
  ])("D3 %s is not the fault of an item: nothing is tried again, not even halfway through", async (_, error) => {
    const calls: number[] = [];
    let failure: unknown = error;
    const made = batcherOf(async (batch) => {
      calls.push(batch.length);
      const thrown = failure;
      failure = error;
      throw thrown;
    });
    expect((await outcomes(made, items(8))).map(({ status }) => status)).toEqual(items(8).map(() => "rejected"));
    expect(calls).toEqual([8]);
    failure = refusal;
    const ended = await outcomes(made, items(8));
    expect(ended.every((one) => one.status === "rejected" && one.reason === error)).toBe(true);
    expect(calls).toEqual([8, 8, 4]);
  });
});

describe("what a store refuses", () => {
  function refusing(isBad: (item: Item) => boolean, more: Partial<BatcherOptions<Item, string>> = {}) {
    const written: Item[] = [];
    const told: Item[] = [];
    const calls: number[] = [];
    const write: Write<Item, string> = async (batch) => {
      calls.push(batch.length);
      await Promise.resolve();
      if (batch.some(isBad)) throw refusal;
      written.push(...batch);
      return batch.map(resultOf);
    };
    return { made: batcherOf(write, { written: (item) => void told.push(item), ...more }), written, told, calls };
  }

  test("D2 D3 fails the items that are at fault and no others, and nothing is written twice", async () => {
    const all = items(50);
    const isBad = ({ n }: Item): boolean => [0, 1, 30, 49].includes(n);
    const { made, written, told, calls } = refusing(isBad);
    const ended = await outcomes(made, all);
    for (const [i, item] of all.entries())
      expect(ended[i]).toMatchObject(isBad(item) ? { reason: { code: "HF_STORE_REFUSED" } } : { value: resultOf(item) });
    expect(written).toEqual(all.filter((item) => !isBad(item)));
    expect(told).toEqual(written);
    expect(calls.length).toBeLessThan(4 * 2 * 7);
    expect(made.idle).toBe(true);
  });

  test("D3 keeps the order of items with one key, those included that come meanwhile", async () => {
    const { made, written } = refusing(({ n }) => n === 2, { calls: 2 });
    const first = outcomes(made, [1, 2, 3, 4].map((n) => ({ key: "a", n }))); // biome-ignore format: one line
    await new Promise((resolve) => setImmediate(resolve));
    const second = outcomes(made, [{ key: "a", n: 5 }]);
    expect((await first).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    await second;
    expect(written.map(({ n }) => n)).toEqual([1, 3, 4, 5]);
  });
});

describe("what another transaction has locked", () => {
  type Says = "answers" | "rejects";
  /** A batcher on a store that finds some keys locked, and says so either way. */
  function locking(locked: Set<string>, says: Says, more: Partial<BatcherOptions<Item, string>> = {}) {
    const written: Item[] = [];
    const calls: { readonly keys: string; readonly wait: boolean }[] = [];
    const write: Write<Item, string> = async (batch, wait) => {
      calls.push({ keys: batch.map(keyOf).join(""), wait });
      await Promise.resolve();
      if (says === "rejects" && batch.some(({ key }) => locked.has(key))) throw busy();
      const free = batch.filter(({ key }) => !locked.has(key));
      written.push(...free);
      return batch.map((item): Answer<string> => (locked.has(item.key) ? "busy" : resultOf(item)));
    };
    return { made: batcherOf(write, more), written, calls };
  }
  const ways: [Says, number][] = [
    ["answers", 1],
    ["answers", 2],
    ["rejects", 1],
    ["rejects", 2],
  ];

  test.each(ways)(
    "D3 M1 holds up no other, and what is behind it keeps its order (the store %s; %i calls at once)",
    async (says, calls) => {
      const locked = new Set(["b", "e"]);
      const { made, written } = locking(locked, says, { calls });
      const first = [..."abcdefgh"].flatMap((key) => [{ key, n: 1 }, { key, n: 2 }]); // biome-ignore format: one line
      const added = first.map((item) => made.add(item));
      await Promise.all(added.filter((_, i) => !"be".includes((first[i] as Item).key)));
      const behind = made.add({ key: "b", n: 3 });
      expect(await made.add({ key: "z", n: 1 })).toBe("z1");
      expect(written.some(({ key }) => "be".includes(key))).toBe(false);
      expect(made.idle).toBe(false);
      locked.clear();
      await Promise.all([...added, behind]);
      for (const key of "abcdefgh")
        expect(written.filter((item) => item.key === key).map(({ n }) => n)).toEqual(key === "b" ? [1, 2, 3] : [1, 2]);
      await expect.poll(() => made.idle).toBe(true);
    },
  );

  test("D3 however many wait, they are looked at in one call, and the store may wait for them a moment", async () => {
    const locked = new Set(["a", "b", "c"]);
    const { made, calls } = locking(locked, "answers");
    const added = [..."axbcy"].map((key) => made.add({ key, n: 1 }));
    await expect.poll(() => calls.length).toBeGreaterThanOrEqual(3);
    expect(calls.slice(0, 3)).toEqual([{ keys: "axbcy", wait: false }, { keys: "abc", wait: true }, { keys: "abc", wait: true }]); // biome-ignore format: one line
    locked.clear();
    expect(await Promise.all(added)).toEqual(["a1", "x1", "b1", "c1", "y1"]);
  });

  test.each(["answers", "rejects"] as const)(
    "HF_STORE_BUSY after its patience it fails, and what is behind it does not (the store %s)",
    async (says) => {
      const locked = new Set(["a"]);
      const { made, written } = locking(locked, says, { patience: 0 });
      await expect(made.add({ key: "a", n: 1 })).rejects.toMatchObject({ code: "HF_STORE_BUSY", retryable: true });
      locked.clear();
      expect(await made.add({ key: "a", n: 2 })).toBe("a2");
      expect(written).toEqual([{ key: "a", n: 2 }]);
    },
  );

  test("D3 one of them that is refused once it is its turn fails alone", async () => {
    const locked = new Set(["a", "b", "c"]);
    const write: Write<Item, string> = async (batch) => {
      if (locked.size === 0 && batch.some(({ key }) => key === "b")) throw refusal;
      return batch.map((item): Answer<string> => (locked.has(item.key) ? "busy" : resultOf(item)));
    };
    const made = batcherOf(write);
    const ended = outcomes(made, [..."abcb"].map((key, n) => ({ key, n }))); // biome-ignore format: one line
    expect(await made.add({ key: "x", n: 1 })).toBe("x1");
    locked.clear();
    expect(await ended).toMatchObject([{ value: "a0" }, { reason: refusal }, { value: "c2" }, { reason: refusal }]);
  });

  test("D3 a store that goes away while some wait fails those", async () => {
    let isAway = false;
    const write: Write<Item, string> = async (batch) => {
      if (isAway) throw away();
      return batch.map((item): Answer<string> => (item.key === "a" ? "busy" : resultOf(item)));
    };
    const made = batcherOf(write);
    const ended = outcomes(made, [{ key: "a", n: 1 }, { key: "b", n: 1 }, { key: "a", n: 2 }]); // biome-ignore format: one line
    await made.add({ key: "b", n: 2 });
    isAway = true;
    const code = { reason: { code: "HF_STORE_UNAVAILABLE" } };
    expect(await ended).toMatchObject([code, { value: "b1" }, code]);
    await expect.poll(() => made.idle).toBe(true);
  });

  test("a caller that is notified of it hears of the end as well", async () => {
    const locked = new Set(["a"]);
    const { made } = locking(locked, "answers");
    const events: string[] = [];
    const over = new Promise<void>((done) => {
      made.put({
        item: { key: "a", n: 1 },
        setAside: () => void events.push("aside"),
        resolve: (result) => done(void events.push(result)),
        reject: () => done(),
      });
    });
    await expect.poll(() => events.length).toBe(1);
    locked.clear();
    await over;
    expect(events).toEqual(["aside", "a1"]);
  });
});

test("D3 a caller that throws when it is notified does not stop others from being notified", async () => {
  const thrown: unknown[] = [];
  const note = (error: unknown): void => void thrown.push(error);
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").on("unhandledRejection", note);
  try {
    const told: string[] = [];
    const made = batcherOf(async (batch) => batch.map(resultOf));
    const hear = (item: Item) => {
      const resolve = (result: string): void => {
        told.push(result);
        if (item.n === 0) throw new Error("not heard");
      };
      made.put({ item, resolve, reject: () => {} });
    };
    items(3).forEach(hear);
    await settled();
    expect(told).toEqual(items(3).map(resultOf));
    expect(thrown.map(String)).toEqual(["Error: not heard"]);
  } finally {
    process.off("unhandledRejection", note);
    for (const listener of others) process.on("unhandledRejection", listener);
  }
});

// ── any store ──

/** The same numbers each time. */
function dice(seed: number): (limit: number) => number {
  let state = seed * 2_654_435_761;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/**
 * A store that keeps the contract, and otherwise does what the dice say: bad items are refused, keys are locked and come free again, which it
 * answers or rejects with; calls overlap, and now and then the server is away.
 */
function anyStore(seed: number, roll: (limit: number) => number, isBad: (item: Item) => boolean, mayGoAway: boolean) {
  const locked = new Set<string>();
  const written: Item[] = [];
  const underWay = new Map<string, number>();
  const faults: string[] = [];
  const write: Write<Item, string> = async (batch) => {
    if (batch.length === 0 || batch.length > 7) faults.push(`a call with ${batch.length} items`);
    const keys = new Set(batch.map(keyOf));
    for (const key of keys) {
      underWay.set(key, (underWay.get(key) ?? 0) + 1);
      if ((underWay.get(key) ?? 0) > 1) faults.push(`two calls at once with key ${key}`);
    }
    for (let turns = roll(4); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
    if (roll(4) === 0) locked.add(`k${roll(5)}`);
    if (roll(2) === 0) locked.clear();
    try {
      if (mayGoAway && roll(12) === 0) throw away();
      const isBusy = batch.map(({ key }) => locked.has(key));
      if (isBusy.includes(true) && roll(3) === 0) throw busy();
      const free = batch.filter((_, i) => isBusy[i] === false);
      if (free.some(isBad)) throw refusal;
      written.push(...free);
      return batch.map((item, i) => (isBusy[i] === true ? "busy" : resultOf(item)));
    } finally {
      for (const key of keys) underWay.set(key, (underWay.get(key) ?? 0) - 1);
    }
  };
  return { write, written, faults, seed };
}

test.each([1, 2, 3])(
  "D2 D3 M1 on any store: each item is settled once, each key keeps its order, and no item fails because of another (%i calls at once)",
  async (calls) => {
    for (let seed = 1; seed <= 150; seed++) {
      const roll = dice(seed * 10 + calls);
      const mayGoAway = roll(4) === 0;
      const bad = new Set<string>();
      const isBad = (item: Item): boolean => bad.has(resultOf(item));
      const { write, written, faults } = anyStore(seed, roll, isBad, mayGoAway);
      // Asides are looked at without a pause, so that a thousand rounds take no time.
      const after = (_: number, callback: () => void) => {
        setImmediate(callback);
        return { cancel() {} };
      };
      const environment = { ...realEnvironment, after };
      const made = new Batcher<Item, string>(environment, write, { limits: { ...UNLIMITED, items: 7 }, keyOf, calls });
      const told = new Map<string, string[]>();
      const all: Item[] = [];
      for (let n = 0; n < 40; n++) {
        const item = { key: `k${roll(5)}`, n };
        all.push(item);
        if (roll(6) === 0) bad.add(resultOf(item));
        const name = resultOf(item);
        told.set(name, []);
        made.put({
          item,
          resolve: (result) => void told.get(name)?.push(`done ${result}`),
          reject: (error) => void told.get(name)?.push((error as StoreError).code),
        });
        if (roll(5) === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      await expect.poll(() => made.idle, { interval: 1 }).toBe(true);
      const about = `seed ${seed}`;
      expect(faults, about).toEqual([]);
      const writtenNames = new Set(written.map(resultOf));
      expect(writtenNames.size, about).toBe(written.length);
      for (const item of all) {
        const name = resultOf(item);
        const expected = isBad(item) ? ["HF_STORE_REFUSED"] : [`done ${name}`];
        const answers = told.get(name) ?? [];
        if (mayGoAway && answers[0] === "HF_STORE_UNAVAILABLE")
          expect([name, answers, writtenNames.has(name)]).toEqual([name, [answers[0]], false]);
        else expect([about, answers, writtenNames.has(name)]).toEqual([about, expected, !isBad(item)]);
      }
      for (const key of new Set(all.map(keyOf))) {
        const order = written.filter((item) => item.key === key).map(({ n }) => n);
        expect(order, about).toEqual(order.toSorted((a, b) => a - b));
      }
    }
  },
  60_000,
);
