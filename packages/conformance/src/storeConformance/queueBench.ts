// Conformance: what tests of queues share.
// Owns: nothing.
// Invariants: none of its own.

import assert from "node:assert/strict";
import type { ClaimRequest, NewRun, QueueStore, StoredQueueSpec } from "holdfast/store";
import { type Bench, type Held, heldOf, payload, runIds } from "./bench.ts";

/** The queue that these tests are about. */
export const Q = { queue: "q" } as const;

export function queuesOf(bench: Bench): QueueStore {
  assert.ok(bench.raw.setQueue !== undefined, "the store has queues");
  return bench.raw as unknown as QueueStore;
}
export const limit = (bench: Bench, spec: StoredQueueSpec): Promise<void> => queuesOf(bench).setQueue("q", spec);

export async function add(bench: Bench, ids: readonly string[], more: Partial<NewRun> = {}): Promise<void> {
  await bench.store.create(ids.map((id) => bench.newRun(id, { ...Q, ...more })));
}
export async function claimIds(bench: Bench, more: Partial<ClaimRequest> = {}): Promise<string[]> {
  return runIds(await bench.claim({ ...Q, ...more }));
}
export async function claimHeld(bench: Bench, more: Partial<ClaimRequest> = {}): Promise<Held[]> {
  return (await bench.claim({ ...Q, ...more })).runs.map(heldOf);
}
export async function first<T>(items: Promise<readonly T[]>): Promise<T> {
  const item = (await items)[0];
  assert.ok(item !== undefined, "there is one at least");
  return item;
}
export const CONTINUED = { status: "continued", next: { input: payload(2), version: undefined, seed: "2", carried: [] } } as const;
