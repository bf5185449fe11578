// Which schedule has started a run, and for which tick.
// Owns: the search attributes in which Temporal's schedules say so.
// Invariants: T1 (the tick is the nominal time); a run that a schedule of another SDK has started names it, too.

import type { StartHeader } from "./headers.ts";
import { jsonPayload, readJson, type TemporalPayload } from "./payloads.ts";

/** Filters use it, too. */
export const SCHEDULE = "TemporalScheduledById";
const TICK = "TemporalScheduledStartTime";

type Fields = Readonly<Record<string, TemporalPayload>>;

export interface ScheduledBy {
  readonly schedule?: string;
  /** Milliseconds since 1970. A run that a caller has triggered has none. */
  readonly tick?: number;
}

/** `fields`: the search attributes of the execution. */
export function scheduledBy({ schedule: named, tick: carried }: StartHeader, fields: Fields | null | undefined): ScheduledBy {
  const id = named ?? readJson(fields?.[SCHEDULE]);
  const time = readJson(fields?.[TICK]);
  const tick = carried ?? (typeof time === "string" ? Date.parse(time) : undefined);
  return {
    ...(typeof id === "string" && { schedule: id }),
    ...(tick !== undefined && !Number.isNaN(tick) && { tick }),
  };
}
/** The search attributes that say so, for starts that Temporal's scheduler does not make. */
export function scheduledFields({ schedule, tick }: ScheduledBy): Record<string, TemporalPayload> {
  return {
    ...(schedule !== undefined && { [SCHEDULE]: typed(schedule, "Keyword") }),
    ...(tick !== undefined && { [TICK]: typed(new Date(tick).toISOString(), "Datetime") }),
  };
}
function typed(value: string, type: string): TemporalPayload {
  const payload = jsonPayload(value);
  return { ...payload, metadata: { ...payload.metadata, type: new TextEncoder().encode(type) } };
}
