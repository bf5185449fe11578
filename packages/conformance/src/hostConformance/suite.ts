// What a group of tests registers itself with, and helpers for assertions.
// Owns: nothing.
// Invariants: asserts come from node:assert; nothing here knows a test runner.

import assert from "node:assert/strict";
import { type Activity, type AnyWorkflow, replay } from "@holdfast/core";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { HostClock, Scaled, SuiteHost } from "./clock.ts";
import type { HostRun } from "./host.ts";

/** What a host may not offer, besides rules: left out by name. */
export type HostCapability = "transaction" | "operations" | "startOptions" | "acceptWithin" | "dieAt" | "queues";

type Need = HostCapability | "exact-clock";

export interface TestNeeds {
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  readonly activities?: readonly Activity<any, any>[];
  /** A capability; or "exact-clock": what happens at one moment and not a second later, which no real clock can tell apart. */
  readonly needs?: Need | readonly Need[];
}
/** For tests that take one host after the other: fresh; those of the test before it are closed. */
export type MakeHost = () => Promise<SuiteHost>;

export interface Suite {
  /** The title begins with the ids of the rules that it proves. The host is fresh. */
  test(title: string, run: (host: SuiteHost, makeHost: MakeHost) => Promise<void>, needs?: TestNeeds): void;
  /** Durations of workflow code go through it. Those of calls of the host (`skip`, `deadline`) do so by themselves. */
  readonly t: Scaled;
  /** By a virtual clock, which costs nothing, all moments are tried; by a real one, some. */
  readonly clock: HostClock;
}

export const same: (actual: unknown, expected: unknown, message?: string) => void = assert.deepStrictEqual;

/** Asserts that the promise is rejected, with this code or with a message that matches. */
export async function fails(promise: Promise<unknown>, how: string | RegExp): Promise<void> {
  const error = await failure(promise);
  if (typeof how === "string") assert.equal(error.code, how, error.message);
  else assert.match(error.message, how);
}
/** The error that a promise is rejected with. */
// biome-ignore lint/suspicious/noExplicitAny: an error of whatever class; what it has is what is tested
export async function failure(promise: Promise<unknown>): Promise<any> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  return assert.fail(`The promise resolved with ${JSON.stringify(value)} instead of being rejected.`);
}
/** Asserts that there is one line, and that it matches. */
export function says(lines: readonly string[], what: RegExp): void {
  same(lines.length, 1, lines.join("; "));
  assert.match(lines[0] ?? "", what);
}
/** Y5: asserts that the recorded history can be replayed. */
export async function replayed(run: HostRun, code: AnyWorkflow): Promise<void> {
  if (run.replay !== undefined) await run.replay();
  else await replay(code, await run.history());
}
export const never = (): Promise<never> => new Promise<never>(() => {});
/** Waits for this many rounds of the event loop: for tests that try one moment after the other. */
export async function macrotasks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => void setImmediate(resolve));
}
export const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** A schema that accepts the numbers that pass. */
export function numbers(passes: (value: number) => boolean = () => true): StandardSchemaV1<number, number> {
  return {
    "~standard": {
      version: 1,
      vendor: "holdfast",
      validate: (value) =>
        typeof value === "number" && passes(value) ? { value } : { issues: [{ message: "Another number is expected." }] },
    },
  };
}
