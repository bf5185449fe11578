// `driverConformance`: what the port promises, held against an implementation of it.
// Owns: the options of the suite, and its tests.
// Invariants: every title begins with the id of the rule it proves (SEMANTICS); no test sleeps, reads a clock or knows the driver.
//
// With vitest:    describe("my driver", () => driverConformance({ name: "my driver", test, makeDriver }));
// With node:test: the same. Asserts come from node:assert.

import assert from "node:assert/strict";
import type { EngineDriver, KvEntry, KvWrite } from "@holdfast/kv";

/** Options of `driverConformance`. */
export interface DriverConformanceOptions {
  /** Of the driver, for titles. */
  readonly name: string;
  /** The runner's: `test(title, fn)`. */
  readonly test: (title: string, run: () => Promise<void>) => unknown;
  /** A driver of a fresh namespace with nothing in it. */
  readonly makeDriver: () => Promise<EngineDriver> | EngineDriver;
  /** Called after each test with every driver that it was given. */
  readonly close?: ((driver: EngineDriver) => Promise<void> | void) | undefined;
  /** Where namespaces share a storage: another one, fresh, in the same. */
  readonly beside?: ((driver: EngineDriver) => Promise<EngineDriver> | EngineDriver) | undefined;
  /** For storage that lasts: the process ends. Opens the same namespace again. */
  readonly reopen?: ((driver: EngineDriver) => Promise<EngineDriver> | EngineDriver) | undefined;
  /**
   * For storage that lasts: another process opens a fresh namespace, calls `writeUntilKilled` with a driver of it, and is killed (SIGKILL)
   * once some batches were written. Then opens that namespace here.
   */
  readonly killed?: (() => Promise<EngineDriver> | EngineDriver) | undefined;
  /** When the alarm of a run is set for, if the driver can be asked. */
  readonly alarmOf?: ((driver: EngineDriver, runId: string) => Promise<number | undefined> | number | undefined) | undefined;
  /**
   * The largest value to try, in bytes.
   * @defaultValue `1_048_576` (1 MiB)
   */
  readonly largestValue?: number | undefined;
}

type Test = (title: string, run: (driver: EngineDriver, given: (driver: EngineDriver) => EngineDriver) => Promise<void>) => void;

/** Defines the tests that a driver of the key-value host has to pass, with any test runner. */
export function driverConformance(options: DriverConformanceOptions): void {
  const { name, makeDriver, close } = options;
  const test: Test = (title, run) => {
    options.test(`${title} (${name})`, async () => {
      const opened: EngineDriver[] = [];
      const given = (driver: EngineDriver): EngineDriver => {
        opened.push(driver);
        return driver;
      };
      try {
        await run(given(await makeDriver()), given);
      } finally {
        for (const driver of opened.reverse()) await close?.(driver);
      }
    });
  };
  emptiness(test);
  order(test);
  length(test);
  prefixes(test);
  ranges(test);
  batches(test);
  values(test, options.largestValue ?? 1_048_576);
  isolation(test, options);
  alarms(test, options);
  watching(test);
  crashes(test, options);
}

// ── words ──

const bytes = (...numbers: number[]): Uint8Array => Uint8Array.from(numbers);
const NONE = bytes();
const set = (key: Uint8Array, value: Uint8Array = key): KvWrite => ({ type: "set", key, value });
const hex = (array: Uint8Array): string => [...array].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const keysOf = (entries: readonly KvEntry[]): string[] => entries.map(({ key }) => hex(key));
async function keys(driver: EngineDriver, prefix: Uint8Array = NONE): Promise<string[]> {
  return keysOf(await driver.list(prefix));
}
/** The class may differ from the one that was passed in: a Buffer is accepted. */
function sameBytes(actual: Uint8Array | undefined, expected: Uint8Array): void {
  assert.ok(actual !== undefined, "there is no such key");
  assert.equal(hex(actual), hex(expected));
}

// ── the rules ──

function emptiness(test: Test): void {
  test("H3 an empty namespace has nothing, and deleting from it is not an error", async (driver) => {
    assert.equal(await driver.get(bytes(1)), undefined);
    assert.deepEqual(await driver.list(NONE), []);
    assert.deepEqual(await driver.list(bytes(1)), []);
    await driver.delete(bytes(1));
    await driver.deletePrefix(bytes(1));
    await driver.deleteRange(bytes(1), bytes(9));
    await driver.deletePrefix(NONE);
    await driver.batch([]);
    assert.deepEqual(await driver.list(NONE), []);
  });
  test("H3 a key is there once it is set, has its last value, and is gone once it is deleted", async (driver) => {
    await driver.set(bytes(7), bytes(1, 2, 3));
    sameBytes(await driver.get(bytes(7)), bytes(1, 2, 3));
    await driver.set(bytes(7), bytes(4));
    sameBytes(await driver.get(bytes(7)), bytes(4));
    assert.deepEqual(await keys(driver), ["07"]);
    await driver.delete(bytes(7));
    assert.equal(await driver.get(bytes(7)), undefined);
    assert.deepEqual(await keys(driver), []);
  });
}

function order(test: Test): void {
  test("M2 keys are listed in byte order, 0x00 and 0xff among them, shorter ones first", async (driver) => {
    const sorted = [
      bytes(0), bytes(0, 0), bytes(0, 1), bytes(0, 0xff), bytes(1), bytes(1, 0), bytes(1, 0, 0), bytes(1, 0xff), bytes(1, 0xff, 0),
      bytes(2), bytes(0x7f), bytes(0x7f, 0xff), bytes(0x80), bytes(0xc3, 0xa9), bytes(0xfe), bytes(0xff), bytes(0xff, 0), bytes(0xff, 0xff),
    ]; // biome-ignore format: a list
    // Neither as they should come nor backwards.
    const mixed = sorted.map((key, i) => ({ key, rank: (i * 7) % sorted.length })).sort((a, b) => a.rank - b.rank);
    for (const { key } of mixed) await driver.set(key, key);
    const entries = await driver.list(NONE);
    assert.deepEqual(keysOf(entries), sorted.map(hex));
    for (const { key, value } of entries) sameBytes(value, key);
  });
  test("H4 last gives the greatest key of a prefix, where a driver has it", async (driver) => {
    if (driver.last === undefined) return;
    assert.equal(await driver.last(bytes(1)), undefined);
    await driver.batch([bytes(1, 3), bytes(1, 0xff, 7), bytes(1), bytes(1, 9), bytes(2), bytes(0, 0xff)].map((key) => set(key)));
    sameBytes(await driver.last(bytes(1)), bytes(1, 0xff, 7));
    await driver.delete(bytes(1, 0xff, 7));
    sameBytes(await driver.last(bytes(1)), bytes(1, 9));
    sameBytes(await driver.last(bytes(0)), bytes(0, 0xff));
    sameBytes(await driver.last(NONE), bytes(2));
    assert.equal(await driver.last(bytes(1, 4)), undefined);
  });
  test("M2 every byte has its place", async (driver) => {
    const all = Array.from({ length: 256 }, (_, byte) => bytes(9, byte));
    await driver.batch(all.toReversed().map((key) => set(key)));
    assert.deepEqual(await keys(driver, bytes(9)), all.map(hex));
  });
}

function length(test: Test): void {
  test("H3 keys of 2,000 bytes that differ in their last byte are different keys", async (driver) => {
    const long = (last: number) => new Uint8Array(2_000).fill(0xff).with(1_999, last);
    await driver.batch([2, 0, 1].map((last) => set(long(last), bytes(last))));
    assert.deepEqual(
      (await driver.list(long(0).subarray(0, 1_999))).map(({ value }) => hex(value)),
      ["00", "01", "02"],
    );
    await driver.delete(long(1));
    assert.equal(await driver.get(long(1)), undefined);
    sameBytes(await driver.get(long(2)), bytes(2));
  });
}

function prefixes(test: Test): void {
  const family = [bytes(0x61), bytes(0x61, 0), bytes(0x61, 0x62), bytes(0x61, 0xff), bytes(0x61, 0xff, 0xff, 1)];
  const strangers = [bytes(0x60), bytes(0x60, 0xff), bytes(0x62), bytes(0x62, 0x61), bytes(0xff)];
  const fill = (driver: EngineDriver) => driver.batch([...strangers, ...family].map((key) => set(key)));

  test("H3 list gives just the keys that begin with the bytes of the prefix", async (driver) => {
    await fill(driver);
    assert.deepEqual(await keys(driver, bytes(0x61)), family.map(hex));
    assert.deepEqual(await keys(driver, bytes(0x61, 0xff)), ["61ff", "61ffff01"]);
    assert.deepEqual(await keys(driver, bytes(0x61, 0x61)), []);
    assert.deepEqual(await keys(driver, bytes(0xff)), ["ff"]);
    assert.deepEqual(await keys(driver, bytes(0xff, 0xff)), []);
    assert.equal((await keys(driver)).length, family.length + strangers.length);
  });
  test("L4 deletePrefix deletes just the keys that begin with the bytes of the prefix", async (driver) => {
    await fill(driver);
    await driver.deletePrefix(bytes(0x61));
    assert.deepEqual(await keys(driver), strangers.map(hex));
    await driver.deletePrefix(bytes(0xff));
    assert.deepEqual(await keys(driver), ["60", "60ff", "62", "6261"]);
    await driver.deletePrefix(NONE);
    assert.deepEqual(await keys(driver), []);
  });
}

function ranges(test: Test): void {
  test("L4 deleteRange deletes from its start up to its end, and not the end", async (driver) => {
    const all = [bytes(1), bytes(2), bytes(2, 0), bytes(2, 0xff), bytes(3), bytes(3, 0), bytes(0xff)];
    await driver.batch(all.map((key) => set(key)));
    await driver.deleteRange(bytes(2), bytes(3));
    assert.deepEqual(await keys(driver), ["01", "03", "0300", "ff"]);
    await driver.deleteRange(bytes(3, 0), bytes(3));
    await driver.deleteRange(bytes(3), bytes(3));
    assert.deepEqual(await keys(driver), ["01", "03", "0300", "ff"]);
    await driver.deleteRange(bytes(0), bytes(0xff));
    assert.deepEqual(await keys(driver), ["ff"]);
  });
}

function batches(test: Test): void {
  test("D2 a batch sets and deletes at once", async (driver) => {
    await driver.batch([set(bytes(1)), set(bytes(2)), set(bytes(3)), set(bytes(3, 1)), set(bytes(4, 1)), set(bytes(4, 2))]);
    await driver.batch([
      { type: "delete", key: bytes(1) },
      set(bytes(2), bytes(9)),
      { type: "deletePrefix", prefix: bytes(3) },
      { type: "deleteRange", start: bytes(4, 2), end: bytes(5) },
      set(bytes(6)),
    ]);
    assert.deepEqual(await keys(driver), ["02", "0401", "06"]);
    sameBytes(await driver.get(bytes(2)), bytes(9));
  });
  test("D2 the writes of a batch count in their order", async (driver) => {
    await driver.batch([set(bytes(1), bytes(1)), set(bytes(1), bytes(2)), set(bytes(2)), { type: "delete", key: bytes(2) }]);
    await driver.batch([{ type: "delete", key: bytes(3) }, set(bytes(3))]);
    await driver.batch([set(bytes(4, 1)), { type: "deletePrefix", prefix: bytes(4) }, set(bytes(4, 2))]);
    await driver.batch([set(bytes(5, 1)), { type: "deleteRange", start: bytes(5), end: bytes(6) }, set(bytes(5, 2))]);
    assert.deepEqual(await keys(driver), ["01", "03", "0402", "0502"]);
    sameBytes(await driver.get(bytes(1)), bytes(2));
  });
  test("D2 a reader sees a batch whole or not at all", async (driver) => {
    const count = 50;
    const batch = (value: number) => Array.from({ length: count }, (_, i) => set(bytes(8, i), bytes(value)));
    await driver.batch(batch(0));
    const written = (async () => {
      for (let value = 1; value <= 20; value++) await driver.batch(batch(value));
    })();
    for (let i = 0; i < 20; i++) {
      const entries = await driver.list(bytes(8));
      assert.deepEqual([entries.length, new Set(entries.map(({ value }) => hex(value))).size], [count, 1]);
    }
    await written;
  });
  test("D3 batches that are asked for together are all written, in the order in which they were", async (driver) => {
    await Promise.all(Array.from({ length: 50 }, (_, i) => driver.batch([set(bytes(1), bytes(i)), set(bytes(2, i))])));
    sameBytes(await driver.get(bytes(1)), bytes(49));
    assert.equal((await keys(driver, bytes(2))).length, 50);
  });
}

function values(test: Test, largest: number): void {
  test("P8 values are any bytes, none among them", async (driver) => {
    await driver.set(bytes(1), NONE);
    sameBytes(await driver.get(bytes(1)), NONE);
    const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    await driver.set(bytes(2), all);
    sameBytes(await driver.get(bytes(2)), all);
    assert.deepEqual(
      (await driver.list(NONE)).map(({ value }) => value.length),
      [0, 256],
    );
  });
  test("P9 large values come back whole", async (driver) => {
    const large = Uint8Array.from({ length: largest }, (_, i) => (i * 31 + (i >>> 8)) & 255);
    await driver.batch([set(bytes(1), large), set(bytes(2), large.subarray(1))]);
    const entries = await driver.list(NONE);
    assert.deepEqual(
      entries.map(({ value }) => value.length),
      [largest, largest - 1],
    );
    assert.equal(Buffer.compare(entries[0]?.value ?? NONE, large), 0);
    assert.equal(Buffer.compare((await driver.get(bytes(2))) ?? NONE, large.subarray(1)), 0);
  });
  test("P8 long keys are keys like others", async (driver) => {
    const long = Uint8Array.from({ length: 700 }, (_, i) => i & 255);
    await driver.set(long, bytes(1));
    await driver.set(long.subarray(0, 699), bytes(2));
    assert.deepEqual(
      (await driver.list(bytes(0))).map(({ value }) => hex(value)),
      ["02", "01"],
    );
    sameBytes(await driver.get(long), bytes(1));
  });
  test("P8 what was handed out is the caller's: changing it changes nothing that is stored", async (driver) => {
    await driver.set(bytes(1), bytes(1, 2, 3));
    (await driver.get(bytes(1)))?.fill(9);
    for (const { key, value } of await driver.list(NONE)) {
      key.fill(9);
      value.fill(9);
    }
    sameBytes(await driver.get(bytes(1)), bytes(1, 2, 3));
    assert.deepEqual(await keys(driver), ["01"]);
  });
}

function isolation(test: Test, { beside }: DriverConformanceOptions): void {
  if (beside === undefined) return;
  test("H3 namespaces don't see each other, whatever their keys", async (driver, given) => {
    const other = given(await beside(driver));
    await driver.batch([set(bytes(1)), set(bytes(0xff, 0xff))]);
    assert.deepEqual(await keys(other), []);
    assert.equal(await other.get(bytes(1)), undefined);
    await other.batch([set(bytes(1), bytes(5)), set(bytes(0))]);
    await other.deletePrefix(NONE);
    await other.deleteRange(bytes(0), bytes(0xff, 0xff, 0xff));
    assert.deepEqual(await keys(driver), ["01", "ffff"]);
    sameBytes(await driver.get(bytes(1)), bytes(1));
  });
}

function alarms(test: Test, { alarmOf }: DriverConformanceOptions): void {
  test("H3 alarms are set again and cleared, also where there is none", async (driver) => {
    await driver.clearAlarm("run-1");
    await driver.setAlarm("run-1", 5_000);
    await driver.setAlarm("run-1", 9_000);
    await driver.clearAlarm("run-1");
    await driver.setAlarm("run-1", 0);
    assert.deepEqual(await driver.list(NONE), [], "an alarm is not a key of the namespace");
    await driver.clearAlarm("run-1");
  });
  if (alarmOf === undefined) return;
  test("H3 a run has one alarm, the last that was set; others have theirs", async (driver) => {
    await driver.setAlarm("run-1", 5_000);
    await driver.setAlarm("run-2", 6_000);
    await driver.setAlarm("run-1", 3_000);
    assert.deepEqual([await alarmOf(driver, "run-1"), await alarmOf(driver, "run-2")], [3_000, 6_000]);
    await driver.clearAlarm("run-1");
    assert.deepEqual([await alarmOf(driver, "run-1"), await alarmOf(driver, "run-2")], [undefined, 6_000]);
    await driver.clearAlarm("run-2");
  });
}

function watching(test: Test): void {
  test("D9 a watcher is notified of announcements, until it stops", async (driver) => {
    let told = 0;
    let onTold: () => void = () => {};
    const stop = driver.watch(() => {
      told++;
      onTold();
    });
    const heard = new Promise<void>((resolve) => {
      onTold = resolve;
    });
    driver.announce();
    await heard;
    stop();
    const before = told;
    // Another watcher is called, so the one that has stopped would have been called by now.
    const other = new Promise<void>((resolve) => {
      const stopOther = driver.watch(() => {
        stopOther();
        resolve();
      });
    });
    driver.announce();
    await other;
    assert.equal(told, before);
  });
}

function crashes(test: Test, { reopen, killed, alarmOf }: DriverConformanceOptions): void {
  if (reopen !== undefined) {
    test("D2 what was written is there when the namespace is opened again", async (driver, given) => {
      await driver.batch([set(bytes(0)), set(bytes(0xff)), set(bytes(1), NONE)]);
      await driver.set(bytes(2), bytes(2, 2));
      await driver.delete(bytes(0));
      const again = given(await reopen(driver));
      assert.deepEqual((await again.list(NONE)).map(({ key, value }) => [hex(key), hex(value)]), [["01", ""], ["02", "0202"], ["ff", "ff"]]); // biome-ignore format: a table
    });
    if (alarmOf !== undefined) {
      test("H3 alarms outlive the process", async (driver, given) => {
        await driver.setAlarm("run-1", 1_234);
        await driver.setAlarm("run-2", 5_678);
        await driver.clearAlarm("run-2");
        const again = given(await reopen(driver));
        assert.deepEqual([await alarmOf(again, "run-1"), await alarmOf(again, "run-2")], [1_234, undefined]);
      });
    }
  }
  if (killed !== undefined) {
    test("D2 a process that is killed leaves batches whole or not at all", async (_, given) => {
      const driver = given(await killed());
      const entries = await driver.list(NONE);
      const rounds = new Set(entries.map(({ value }) => hex(value.subarray(0, 4))));
      assert.equal(entries.length, KILLED_KEYS, "every batch sets all the keys, and one at least was written");
      assert.equal(rounds.size, 1, `the keys are of batches ${[...rounds].join(", ")}`);
    });
  }
}

const KILLED_KEYS = 40;

/** For `killed`: writes batches forever. `onWritten` is called after each: kill the process after a few. */
export async function writeUntilKilled(driver: EngineDriver, onWritten: (batches: number) => void = () => {}): Promise<never> {
  for (let round = 1; ; round++) {
    const value = new Uint8Array(2_000);
    new DataView(value.buffer).setUint32(0, round);
    await driver.batch(Array.from({ length: KILLED_KEYS }, (_, i) => set(bytes(i), value)));
    onWritten(round);
  }
}
