// Job: prove that timers of any length come when they are due, and not before.
// Owns: the timer functions that the environment is loaded with.
// Invariants: K8.

import { afterEach, expect, it, vi } from "vitest";

const LONGEST = 2 ** 31 - 1;
const DAY = 86_400_000;

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

/** An environment whose timers are fired by hand. */
async function underHand() {
  const set: { delay: number; fire: () => void; cleared: boolean }[] = [];
  const start = (fire: () => void, delay: number) => {
    const timer = { delay, fire, cleared: false, unref: () => timer };
    set.push(timer);
    return timer;
  };
  const clear = (timer: { cleared: boolean }) => {
    timer.cleared = true;
  };
  for (const name of ["setTimeout", "setInterval"]) vi.stubGlobal(name, start);
  for (const name of ["clearTimeout", "clearInterval"]) vi.stubGlobal(name, clear);
  vi.resetModules();
  const { realEnvironment } = await import("../src/environment.ts");
  return { set, environment: realEnvironment };
}

it("K8 a timer longer than Node's longest is set again until its time has come", async () => {
  const { set, environment } = await underHand();
  let fired = 0;
  environment.after(60 * DAY, () => fired++);
  for (let i = 0; i < 2; i++) {
    expect([set.length, set[i]?.delay, fired]).toEqual([i + 1, LONGEST, 0]);
    set[i]?.fire();
  }
  expect(set[2]?.delay).toBe(60 * DAY - 2 * LONGEST);
  set[2]?.fire();
  expect([set.length, fired]).toEqual([3, 1]);
});

it("K8 it can be cancelled at any time", async () => {
  const { set, environment } = await underHand();
  const timer = environment.after(60 * DAY, () => {});
  set[0]?.fire();
  timer.cancel();
  expect(set.map(({ cleared }) => cleared)).toEqual([false, true]);
});

it("K8 what recurs seldom does not recur at every moment", async () => {
  const { set, environment } = await underHand();
  environment.every(60 * DAY, () => {});
  expect(set[0]?.delay).toBe(LONGEST);
});
