// Job: timelines of runs on a store in memory.
// Owns: nothing.

import { Holdfast } from "holdfast";
import { type Timeline, timelineOf } from "holdfast/inspect";
import { MemoryStore } from "holdfast/store";
import { expect } from "vitest";

const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

export async function opened(): Promise<{ engine: Holdfast; timeline(id: string, after?: number): Promise<Timeline> }> {
  const store = new MemoryStore();
  const engine = await Holdfast.with({ store }, { logger: QUIET });
  const timeline = async (id: string, after?: number): Promise<Timeline> => {
    const [[row], turns, attempts, workers] = await Promise.all([
      store.get([id]),
      store.history(id),
      store.attempts(id),
      store.workers(id),
    ]);
    return timelineOf(turns, attempts, workers, { closedAt: row?.finishedAt, after });
  };
  return { engine, timeline };
}

/** Every operation appears once, with the status and the attempts that `run.operations()` gives it. */
export async function expectSame(engine: Holdfast, id: string, timeline: Timeline): Promise<void> {
  const operations = await engine.run(id).operations();
  expect(
    timeline.operations.map(({ location, kind, status, attempts }) => [location, kind, status, attempts.map((one) => one.status)]),
  ).toEqual(operations.map(({ location, kind, status, attempts }) => [location, kind, status, attempts.map((one) => one.status)]));
}
