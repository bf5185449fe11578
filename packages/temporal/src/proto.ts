// Temporal's protobuf messages: the types and the conversions of times and texts.
// Owns: nothing; it is the only module that imports the generated messages.
// Invariants: times of Holdfast are milliseconds; Temporal's are seconds and nanoseconds, and are cut to whole milliseconds.

import proto from "@temporalio/proto";
import Long from "long";

export type { coresdk, temporal } from "@temporalio/proto";
export const { coresdk: core, temporal: api } = proto;

/** Seconds come as a number, a Long, or a string, depending on where a message was made. */
interface ProtoTime {
  readonly seconds?: Long | number | string | null | undefined;
  readonly nanos?: number | null | undefined;
}

export function durationOf(ms: number): { seconds: Long; nanos: number } {
  const seconds = Math.floor(ms / 1_000);
  return { seconds: Long.fromNumber(seconds), nanos: Math.round((ms - seconds * 1_000) * 1e6) };
}

/** A moment, in milliseconds since 1970. */
export function timestampOf(ms: number): { seconds: Long; nanos: number } {
  return durationOf(ms);
}

export function msOf(time: ProtoTime): number {
  return Number(time.seconds ?? 0) * 1_000 + Math.floor((time.nanos ?? 0) / 1e6);
}
/** Undefined if the time is not set. */
export function msIfSet(time: ProtoTime | null | undefined): number | undefined {
  return time === null || time === undefined ? undefined : msOf(time);
}

/** Half of a surrogate pair, which protobuf refuses, and with it the whole message. */
const HALF = /\p{Surrogate}/u;

export function isText(text: string): boolean {
  return !HALF.test(text);
}
/** Halves of surrogate pairs are replaced, as every UTF-8 encoder does. */
export function textOf(text: string): string {
  return isText(text) ? text : text.replace(/\p{Surrogate}/gu, "\uFFFD");
}
