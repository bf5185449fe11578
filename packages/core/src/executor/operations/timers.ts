// `sleep` and `sleepUntil`: durable timers.
// Owns: nothing between calls; the host keeps the timers.
// Invariants: K8 (a timer fires once, never early), P3 (cancelled when the function of its unit returns), C7 (cancelled at once).

import { preview } from "../../base/text.ts";
import { InvalidInputError } from "../../errors/index.ts";
import type { Duration } from "../../values/index.ts";
import { parseDuration } from "../../values/index.ts";
import type { Behaviour } from "../operation.ts";
import type { Unit } from "../unit.ts";
import { abandon } from "./steps.ts";

/** The latest time that a Date can represent. */
const LAST_TIME = 8.64e15;

const SLEEP: Behaviour = {
  cancel: abandon,
  fire: (operation) => operation.unit.execution.settle(operation, { ok: true, value: undefined }),
  outcome: (operation, outcome) => {
    if (outcome.status === "completed") operation.unit.execution.settle(operation, { ok: true, value: undefined });
  },
};

function open(unit: Unit, name: string, fields: { duration: number } | { until: number }): Promise<void> {
  const operation = unit.execution.open(unit, "sleep", name, fields);
  if (!operation.closed) {
    operation.behaviour = SLEEP;
    operation.floating = true;
  }
  return operation.promise as Promise<void>;
}

export function sleep(unit: Unit, name: string, duration: Duration): Promise<void> {
  return open(unit, name, { duration: parseDuration(duration) });
}

export function sleepUntil(unit: Unit, name: string, time: Date | number): Promise<void> {
  return open(unit, name, { until: checkedTime("ctx.sleepUntil", time) });
}

/** Milliseconds since the Unix epoch. Throws an InvalidInputError if the time is invalid. */
export function checkedTime(what: string, time: Date | number): number {
  const milliseconds = time instanceof Date ? time.getTime() : time;
  if (typeof milliseconds === "number" && Math.abs(milliseconds) <= LAST_TIME) return milliseconds;
  throw new InvalidInputError({
    what,
    issues: [{ message: `${preview(time)} is not a time: expected a valid Date, or milliseconds since the Unix epoch.` }],
  });
}
