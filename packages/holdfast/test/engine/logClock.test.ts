// Lines that are gathered are written by the time of the engine's environment: a simulation, which owns it, repeats its log too.

import type { Timer } from "@holdfast/host";
import { BlockedLog } from "@holdfast/host";
import { expect, test } from "vitest";
import { OutageLog, TakeoverLog } from "../../src/engine/outages.ts";
import { StoreError } from "../../src/store/errors.ts";

/** Time that passes only when the test advances it. */
class Clock {
  time = 0;
  #timers: { at: number; callback: () => void }[] = [];

  elapsed(): number {
    return this.time;
  }
  patience(ms: number, callback: () => void): Timer {
    const timer = { at: this.time + ms, callback };
    this.#timers.push(timer);
    return {
      cancel: () => {
        this.#timers = this.#timers.filter((one) => one !== timer);
      },
    };
  }
  pass(ms: number): void {
    this.time += ms;
    const due = this.#timers.filter(({ at }) => at <= this.time);
    this.#timers = this.#timers.filter(({ at }) => at > this.time);
    for (const { callback } of due) callback();
  }
}
function setUp() {
  const lines: string[] = [];
  const note = (message: string) => void lines.push(message);
  return { clock: new Clock(), lines, logger: { debug: note, info: note, warn: note, error: note } };
}

test("V4 a run that is blocked is logged when half a second has passed without another, and not again within ten", () => {
  const { clock, lines, logger } = setUp();
  const log = new BlockedLog(logger, clock);
  const block = (runId: string) => log.note({ runId, workflow: "w", code: "c", error: new Error("no stock") }, "reason");
  block("a");
  clock.pass(499);
  expect(lines).toEqual([]);
  clock.pass(1);
  expect(lines).toEqual(["Run a is blocked: no stock"]);
  block("b");
  clock.pass(9_999);
  expect(lines).toHaveLength(1);
  clock.pass(1);
  expect(lines[1]).toBe("Run b is blocked: no stock");
});

test("W3 runs that are taken over within a second share a line", () => {
  const { clock, lines, logger } = setUp();
  const log = new TakeoverLog(logger, clock);
  log.note("w1");
  clock.pass(999);
  log.note("w1");
  expect(lines).toEqual([]);
  clock.pass(1);
  expect(lines).toEqual(["Took over 2 runs from w1 (lease expired)."]);
});

test("a line about a store that can't be used comes once in ten seconds, and an outage is as long as it was", () => {
  const { clock, lines, logger } = setUp();
  const log = new OutageLog(logger, clock);
  const error = new StoreError("busy", { code: "HF_STORE_BUSY", retryable: true });
  log.warn("Leases could not be renewed.", { error });
  clock.pass(9_999);
  log.warn("Leases could not be renewed.", { error });
  expect(lines).toHaveLength(1);
  clock.pass(1);
  log.warn("Leases could not be renewed.", { error });
  expect(lines).toHaveLength(2);
  log.gone(error);
  clock.pass(60_000);
  log.reached();
  expect(lines.at(-1)).toBe("Database reachable again after 1m.");
});
