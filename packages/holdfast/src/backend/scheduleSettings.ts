// The settings of a schedule as text, and whether two of them are equal.
// Owns: the form in which stores keep them.
// Invariants: T7 (values are compared decoded: a codec may encode equal values differently), P8 (values in JSON stay readable).

import { isDeepStrictEqual } from "node:util";
import { type Codec, type Duration, type Payload, parseDuration, payloadFromJson, payloadToJson } from "@holdfast/core";
import type { Timing } from "../schedules/ticks.ts";
import type { ScheduleSettings } from "./schedules.ts";

export function settingsToText(settings: ScheduleSettings): string {
  const { run } = settings;
  const signals = run.signals.map(({ name, payload }) => ({ name, payload: payloadToJson(payload) }));
  return JSON.stringify({ ...settings, run: { ...run, input: payloadToJson(run.input), signals } });
}
export function settingsFromText(text: string): ScheduleSettings {
  const { run, ...rest } = JSON.parse(text) as ScheduleSettings;
  const signals = run.signals.map(({ name, payload }) => ({ name, payload: payloadFromJson(payload) }));
  return { ...rest, run: { ...run, input: payloadFromJson(run.input), signals } };
}

export function timingOf({ cron, every, timezone }: ScheduleSettings): Timing {
  return { cron, every: every === undefined ? undefined : parseDuration(every), timezone };
}
export function isSameTiming(a: ScheduleSettings, b: ScheduleSettings): boolean {
  return isDeepStrictEqual(timingOf(a), timingOf(b));
}
/** False also if a value can't be decoded: then it is written again. */
export function areEqual(a: ScheduleSettings, b: ScheduleSettings, codec: Codec): boolean {
  try {
    return isSameTiming(a, b) && isDeepStrictEqual(comparable(a, codec), comparable(b, codec));
  } catch {
    return false;
  }
}
function comparable({ overlap, catchUp, jitter, run }: ScheduleSettings, codec: Codec): unknown {
  const { workflow, version, queue, key, priority, deadline, retry, attributes, retention } = run;
  const decoded = (payload: Payload): unknown => codec.decode(payload);
  // By way of JSON: what was read back has no fields that are undefined.
  const plain = JSON.stringify([workflow, version, queue, key, priority, deadline, retry, Object.entries(attributes).sort(), retention]);
  const signals = run.signals.map(({ name, payload }) => [name, decoded(payload)]);
  return [overlap, lengthOf(catchUp), lengthOf(jitter), plain, decoded(run.input), signals];
}
/** A duration in milliseconds; 0 if there is none. */
export function lengthOf(duration: Duration | undefined): number {
  return duration === undefined ? 0 : parseDuration(duration);
}
