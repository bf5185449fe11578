// The timeline of a run as the page keeps it: times are milliseconds, operations are found by number and by location.
// Owns: reading the API's timeline, and adding what is new to it. Pure.

import type { Timeline as TimelineJson } from "../api/types.ts";
import { toMs } from "../base/times.ts";
import { visible } from "../base/values.ts";

export interface Attempt {
  readonly number: number;
  readonly status: "running" | "completed" | "failed" | "lost";
  readonly startedAt: number;
  readonly endedAt: number | undefined;
  readonly workerId: string | undefined;
}
export interface Operation {
  readonly seq: number;
  readonly turn: number;
  readonly location: string;
  readonly unit: string;
  readonly kind: string;
  readonly name: string;
  readonly status: string;
  readonly scheduledAt: number;
  readonly endedAt: number | undefined;
  readonly wakeAt: number | undefined;
  readonly retryAt: number | undefined;
  readonly childId: string | undefined;
  readonly error: { readonly name: string; readonly message: unknown } | undefined;
  readonly attempts: readonly Attempt[];
}
export interface Unit {
  readonly path: string;
  readonly role: TimelineJson["units"][number]["role"];
  readonly parent: string | undefined;
  readonly startedAt: number;
  readonly endedAt: number | undefined;
  readonly status: string;
}
export interface Turn {
  readonly index: number;
  readonly time: number;
  readonly workerId: string | undefined;
}
export interface Loop {
  readonly location: string;
  readonly iterations: number;
  readonly failed: number;
  readonly kept: number;
}
export type Message = TimelineJson["messages"][number];
export interface Timeline {
  readonly execution: number;
  readonly lastTurn: number;
  readonly complete: boolean;
  readonly turns: readonly Turn[];
  readonly units: readonly Unit[];
  readonly operations: readonly Operation[];
  readonly loops: readonly Loop[];
  readonly messages: readonly Message[];
}

const ms = (time: string): number => toMs(time) ?? 0;
const shown = (text: string | null): string | undefined => (text === null ? undefined : visible(text));

/** Names and workers are only shown; locations and ids stay as they are, because the API is asked with them. */
export function readTimeline(json: TimelineJson): Timeline {
  return {
    execution: json.execution,
    lastTurn: json.lastTurn,
    complete: json.complete,
    turns: json.turns.map(({ index, time, workerId }) => ({ index, time: ms(time), workerId: shown(workerId) })),
    units: json.units.map(({ path, role, parent, startedAt, endedAt, status }) => ({
      path,
      role,
      parent: parent ?? undefined,
      startedAt: ms(startedAt),
      endedAt: toMs(endedAt),
      status,
    })),
    operations: json.operations.map((one) => ({
      seq: one.seq,
      turn: one.turn,
      location: one.location,
      unit: one.unit,
      kind: one.kind,
      name: visible(one.name),
      status: one.status,
      scheduledAt: ms(one.scheduledAt),
      endedAt: toMs(one.endedAt),
      wakeAt: toMs(one.wakeAt),
      retryAt: toMs(one.retryAt),
      childId: one.childId ?? undefined,
      error: one.error ?? undefined,
      attempts: one.attempts.map(({ number, status, startedAt, endedAt, workerId }) => ({
        number,
        status,
        startedAt: ms(startedAt),
        endedAt: toMs(endedAt),
        workerId: shown(workerId),
      })),
    })),
    loops: json.loops,
    messages: json.messages.map((message) => ({ ...message, name: shown(message.name) ?? null })),
  };
}

/** `next` has what changed after the last turn of `before`, and what is open. What it does not mention has not changed. */
export function merge(before: Timeline, next: Timeline): Timeline {
  if (before.execution !== next.execution) return next;
  return {
    ...next,
    complete: before.complete && next.complete,
    turns: mergeBy(before.turns, next.turns, ({ index }) => index).toSorted((a, b) => a.index - b.index),
    units: mergeBy(before.units, next.units, ({ path }) => path),
    operations: mergeBy(before.operations, next.operations, ({ seq }) => seq).toSorted((a, b) => a.seq - b.seq),
    loops: mergeBy(before.loops, next.loops, ({ location }) => location),
    messages: mergeBy(before.messages, next.messages, ({ id }) => id),
  };
}

function mergeBy<T, K>(before: readonly T[], next: readonly T[], keyOf: (item: T) => K): T[] {
  const all = new Map<K, T>(before.map((item) => [keyOf(item), item]));
  for (const item of next) all.set(keyOf(item), item);
  return [...all.values()];
}

/** The last segment of a path as people wrote it. */
export function lastSegment(path: string): string {
  const last = path.slice(path.lastIndexOf("/") + 1);
  return visible(last).replace(/%(25|2F|23|7E)/g, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)));
}
/** The location of the scope that a unit belongs to: `both` of `both/a`. Empty for the root, and for units of no scope. */
export function scopeOf(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash < 0 ? "" : path.slice(0, slash);
}

/** "step charge"; operations without a name have only a kind. */
export function titleOf({ kind, name }: Pick<Operation, "kind" | "name">): string {
  return name === kind || name === "" ? kind : `${kind} ${name}`;
}
/** The time at which the operation is over, for what is still open: now. */
export const endOf = (operation: { readonly endedAt: number | undefined }, now: number): number => operation.endedAt ?? now;

const SCOPES: ReadonlySet<string> = new Set(["parallel", "join", "race", "loop", "try", "shield", "receive"]);
/** Operations that consist of units. */
export const isScope = ({ kind }: Pick<Operation, "kind">): boolean => SCOPES.has(kind);
