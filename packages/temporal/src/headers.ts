// The header `holdfast` of starts, messages and activities: what Temporal has no field for.
// Owns: its fields.
// Invariants: a message without the header is one of another SDK; it works, without what the header would add.

import { type Payload, payloadFromJson, payloadToJson, type RecordedRetry, type SerializedError } from "@holdfast/core";
import type { ScheduleSettings } from "holdfast/backend";
import { jsonPayload, readJson, type TemporalPayload } from "./payloads.ts";

export const HEADER = "holdfast";
type HeaderFields = Record<string, TemporalPayload>;

/** A signal that is part of a start, or that the execution before did not consume. */
export interface CarriedSignal {
  readonly id: string;
  readonly name: string;
  readonly payload: Payload;
  /** The schema has already transformed it (P10). */
  readonly checked?: true;
}
/** An update or a keyed signal that an earlier execution has handled: a repetition is answered, not handled again (M3). */
export interface HandledKey {
  readonly key: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** For an update. */
  readonly outcome?: { readonly value?: Payload; readonly error?: SerializedError };
  /** The key of an update is its sender's own. That of a signal always is. */
  readonly isGiven?: true;
}
export interface StartHeader {
  readonly version?: string | undefined;
  /** The input was not checked against a schema: the starter did not have the definition. */
  readonly isUnchecked?: true;
  readonly deadlineAt?: number | undefined;
  /** Milliseconds from the start; the first activation makes a moment of it. */
  readonly deadline?: number | undefined;
  /** The number of the execution in its chain (P10). Default 1. */
  readonly execution?: number;
  /** When the chain began, in milliseconds since 1970. */
  readonly createdAt?: number;
  readonly signals?: readonly CarriedSignal[];
  readonly keys?: readonly HandledKey[];
  /** Ids of updates that the execution before has accepted and not answered: their callers send them again. */
  readonly openUpdates?: readonly string[];
  /** The idempotency key of the start (M3). */
  readonly key?: string | undefined;
  /** The priority that was asked for; Temporal has only five. Default 0. */
  readonly priority?: number;
  /** Whose work the run is (Q1). The server has only a hash of a long one. */
  readonly workKey?: string;
  /** The id of the parent, for an execution that continues a child. */
  readonly parentId?: string;
  /** The schedule that has started the run. */
  readonly schedule?: string;
  /** The nominal time, in milliseconds since 1970, for an execution that continues one of a tick. */
  readonly tick?: number;
  /** In the action of a schedule: what can't be read from the schedule itself. */
  readonly settings?: RecordedSettings;
  /** In the start of a child: how its parent's code wanted it to be carried out. */
  readonly options?: RecordedOptions;
}
/** The settings of a schedule as they were given: Temporal keeps only what they mean. */
export type RecordedSettings = Omit<ScheduleSettings, "run"> & Pick<ScheduleSettings["run"], "retry" | "retention">;
/** Of a signal or an update. */
export interface MessageHeader {
  /** The idempotency key that its sender gave. */
  readonly key?: string | undefined;
}
export interface ActivityHeader {
  readonly seq: number;
  /** The attempts before those of this scheduling. Default 0. */
  readonly before?: number;
  /** The number of this execution in its chain (P10). Default 1. */
  readonly execution?: number;
  readonly key: string;
  /** For a local one: the time of the turn that scheduled it. */
  readonly at?: number;
  /** No attempt begins after it, except of a rollback (K7). */
  readonly deadlineAt?: number | undefined;
  readonly options?: RecordedOptions;
}
/**
 * How an operation is carried out, as the code said when it was scheduled. Code may change it; what was recorded stays in force, and replay
 * reports a difference only if it is strict (Y2).
 */
export interface RecordedOptions {
  readonly timeout?: number | undefined;
  readonly retry?: RecordedRetry | undefined;
  readonly queue?: string | undefined;
  readonly startToClose?: number | undefined;
  readonly scheduleToClose?: number | undefined;
  readonly scheduleToStart?: number | undefined;
  readonly heartbeat?: number | undefined;
  readonly key?: string | undefined;
  readonly priority?: number | undefined;
  readonly parentClose?: string | undefined;
  readonly attributes?: Readonly<Record<string, string | number | boolean>> | undefined;
  readonly onConflict?: string | undefined;
}

export function headerOf(fields: StartHeader | MessageHeader | ActivityHeader): HeaderFields {
  return { [HEADER]: jsonPayload(payloadsToJson(fields)) };
}
export function startHeader(fields: HeaderFields | null | undefined): StartHeader {
  return (read(fields) ?? {}) as StartHeader;
}
export function messageHeader(fields: HeaderFields | null | undefined): MessageHeader {
  return (read(fields) ?? {}) as MessageHeader;
}
/** Undefined for an activity that a workflow of another SDK has called. */
export function activityHeader(fields: HeaderFields | null | undefined): ActivityHeader | undefined {
  return read(fields) as ActivityHeader | undefined;
}
function read(fields: HeaderFields | null | undefined): unknown {
  const payload = fields?.[HEADER];
  return payload === undefined ? undefined : payloadsFromJson(readJson(payload));
}

// ── encoded values inside the header: only in these two places ──

interface WithPayloads {
  readonly signals?: readonly { readonly payload: unknown }[];
  readonly keys?: readonly { readonly outcome?: { readonly value?: unknown } }[];
}
function payloadsToJson(fields: object): object {
  return convert(fields, (payload) => payloadToJson(payload as Payload));
}
function payloadsFromJson(fields: unknown): unknown {
  if (typeof fields !== "object" || fields === null) return undefined;
  return convert(fields, (json) => payloadFromJson(json));
}
function convert(fields: object, payload: (value: unknown) => unknown): object {
  const { signals, keys } = fields as WithPayloads;
  return {
    ...fields,
    ...(signals !== undefined && { signals: signals.map((signal) => ({ ...signal, payload: payload(signal.payload) })) }),
    ...(keys !== undefined && {
      keys: keys.map((handled) =>
        handled.outcome?.value === undefined ? handled : { ...handled, outcome: { value: payload(handled.outcome.value) } },
      ),
    }),
  };
}
