// The history of a run as a list of events: what came in and what went out, turn by turn.
// Owns: their words, and the published state after each turn. Pure.

import type { History } from "../api/types.ts";

export interface Event {
  readonly key: string;
  readonly turn: number;
  readonly time: number;
  readonly direction: "in" | "out";
  readonly type: string;
  /** What it is about: an operation, a message, a child. */
  readonly subject: string;
  readonly record: unknown;
}
export interface StateAt {
  readonly turn: number;
  readonly time: number;
  readonly value: unknown;
}
interface RecordedTurn {
  readonly index: number;
  readonly time: number;
  readonly jobs: readonly Record<string, unknown>[];
  readonly commands: readonly Record<string, unknown>[];
  readonly state?: unknown;
}

/** The turns of a history, as far as they are what this page knows (a Temporal history has events instead). */
export function turnsOf(history: History): RecordedTurn[] {
  return history.turns.filter(
    (turn): turn is RecordedTurn =>
      typeof turn === "object" &&
      turn !== null &&
      "jobs" in turn &&
      Array.isArray(turn.jobs) &&
      "commands" in turn &&
      Array.isArray(turn.commands),
  );
}

export function eventsOf(history: History): Event[] {
  const names = new Map<unknown, string>();
  const events: Event[] = [];
  for (const { index, time, jobs, commands } of turnsOf(history)) {
    for (const command of commands) {
      const { seq, unit, name } = command;
      if (seq !== undefined && typeof name === "string") names.set(seq, unit ? `${String(unit)}/${name}` : name);
    }
    const add = (direction: "in" | "out", records: readonly Record<string, unknown>[]): void => {
      for (const [i, record] of records.entries()) {
        const { type, name, seq, id } = record;
        const subject = names.get(seq) ?? (typeof name === "string" ? name : typeof id === "string" ? id : "");
        events.push({ key: `${index} ${direction} ${i}`, turn: index, time, direction, type: String(type), subject, record });
      }
    };
    add("in", jobs);
    add("out", commands);
  }
  return events;
}

/** What was in the messages that the run got, by their ids. Those of turns that were trimmed are missing. */
export function payloadsOf(history: History | undefined): ReadonlyMap<unknown, unknown> {
  const jobs = history === undefined ? [] : turnsOf(history).flatMap((turn) => turn.jobs);
  return new Map(jobs.filter((job) => "payload" in job).map(({ id, payload }) => [id, payload]));
}

/** Each turn that published a state. A commit carries the state of turns that were trimmed. */
export function statesOf(history: History): StateAt[] {
  const states: StateAt[] = [];
  for (const { index, time, state, commands } of turnsOf(history)) {
    const commit = commands.findLast(({ type, state: kept }) => type === "commit" && kept !== undefined);
    if (state !== undefined) states.push({ turn: index, time, value: state });
    else if (commit !== undefined && states.length === 0) states.push({ turn: index, time, value: commit["state"] });
  }
  return states;
}
/** The state after a turn, and the one before that: undefined where there is none. */
export function stateAfter(
  states: readonly StateAt[],
  turn: number,
): { readonly before: StateAt | undefined; readonly at: StateAt | undefined } {
  const i = states.findLastIndex((one) => one.turn <= turn);
  return { before: states[i - 1], at: states[i] };
}
