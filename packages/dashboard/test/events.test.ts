import { expect, test } from "vitest";
import type { History } from "../src/api/types.ts";
import { eventsOf, payloadsOf, stateAfter, statesOf } from "../src/run/events.ts";

const history = {
  format: "holdfast-history/1",
  run: {},
  turns: [
    {
      index: 0,
      time: 1,
      jobs: [{ type: "start", runId: "r" }],
      commands: [{ type: "step", seq: 1, unit: "", name: "charge", n: 0 }],
      state: { n: 1 },
    },
    { index: 1, time: 2, jobs: [{ type: "resolve", seq: 1 }], commands: [{ type: "step", seq: 2, unit: "both/a", name: "ship", n: 0 }] },
    {
      index: 2,
      time: 3,
      jobs: [{ type: "signal", id: "s", name: "approve", payload: { by: "Ada" } }],
      commands: [{ type: "complete" }],
      state: { n: 2 },
    },
  ],
} as unknown as History;

test("events name the operation that they belong to", () => {
  expect(eventsOf(history).map(({ turn, direction, type, subject }) => [turn, direction, type, subject])).toEqual([
    [0, "in", "start", ""],
    [0, "out", "step", "charge"],
    [1, "in", "resolve", "charge"],
    [1, "out", "step", "both/a/ship"],
    [2, "in", "signal", "approve"],
    [2, "out", "complete", ""],
  ]);
});

test("the state after a turn is the last one that was published by then", () => {
  const states = statesOf(history);
  expect(stateAfter(states, 1)).toMatchObject({ before: undefined, at: { turn: 0, value: { n: 1 } } });
  expect(stateAfter(states, 2)).toMatchObject({ before: { value: { n: 1 } }, at: { turn: 2, value: { n: 2 } } });
  expect(stateAfter([], 2)).toEqual({ before: undefined, at: undefined });
});

test("what is not a turn of ours is left out", () => {
  expect(eventsOf({ ...history, format: "temporal-history/1", turns: [{ eventId: 1 }] })).toEqual([]);
});

test("messages have what was in them", () => {
  expect([...payloadsOf(history)]).toEqual([["s", { by: "Ada" }]]);
  expect(payloadsOf(undefined).size).toBe(0);
});
