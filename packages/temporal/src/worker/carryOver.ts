// What an execution hands to the next one when the server wants a shorter history: the run's turns, from which it goes on.
// Owns: the form of that input, and what is kept of handled messages.
// Invariants: L3 R11 (the next execution goes on where a loop or receive has committed), P10 (it is the same execution to users: number,
// seed and keys stay), M3 (a repeated message is recognized across executions).

import {
  type Codec,
  fromHistory,
  opened,
  payloadToJson,
  type ReplayTurn,
  replayView,
  type StartJob,
  sealed,
  type Turn,
  toHistory,
} from "@holdfast/core";
import type { HandledKey } from "../headers.ts";
import { CARRIED_ENCODING } from "../names.ts";
import { encodingOf, readJson, type TemporalPayload } from "../payloads.ts";

const ENCODING = new TextEncoder().encode(CARRIED_ENCODING);
/** The server refuses an input of 2 MiB. */
export const LARGEST = 1024 * 1024;

/** Milliseconds for which a handled message is remembered: with a key of the sender's, and without. */
const KEPT_KEY = 24 * 3_600_000;
const KEPT_ID = 3_600_000;
const MOST_KEYS = 1_000;
const MOST_KEY_BYTES = 256 * 1024;

interface Envelope {
  readonly holdfast: 1;
  readonly input: unknown;
  readonly turns: readonly unknown[];
}

/** The turns as the argument of the next execution. */
export function carriedInput(turns: readonly Turn[], codec: Codec): TemporalPayload {
  const start = turns[0]?.jobs.find((job): job is StartJob => job.type === "start");
  if (start === undefined) throw new Error("The first turn has no start."); // every execution begins with one
  const { turns: portable } = toHistory(sealed(replayView(turns), codec), {
    id: start.runId,
    workflow: start.workflow,
    input: start.input,
    status: "running",
  });
  const envelope: Envelope = { holdfast: 1, input: payloadToJson(start.input), turns: portable };
  return { metadata: { encoding: ENCODING }, data: new TextEncoder().encode(JSON.stringify(envelope)) };
}
/** The turns that the execution before has handed over; undefined for an ordinary input. */
export function carriedTurns(payload: TemporalPayload | null | undefined, codec: Codec): ReplayTurn[] | undefined {
  if (payload === null || payload === undefined || encodingOf(payload) !== CARRIED_ENCODING) return undefined;
  const { turns } = readJson(payload) as Envelope;
  const run = { id: "", workflow: "", version: undefined, input: null, status: "running" } as const;
  return opened(fromHistory({ format: "holdfast-history/1", run, turns }), codec);
}
/** Updates and keyed signals that were handled, the newest last. */
export class HandledKeys {
  readonly #handled = new Map<string, HandledKey>();

  constructor(keys: readonly HandledKey[] = []) {
    for (const handled of keys) this.#handled.set(handled.key, handled);
  }
  get(key: string): HandledKey | undefined {
    return this.#handled.get(key);
  }
  add(handled: HandledKey): void {
    this.#handled.delete(handled.key);
    this.#handled.set(handled.key, handled);
  }
  /** What the next execution should know. */
  carried(now: number): HandledKey[] {
    const kept: HandledKey[] = [];
    let bytes = 0;
    for (const handled of [...this.#handled.values()].reverse()) {
      bytes += sizeOf(handled);
      if (kept.length >= MOST_KEYS || bytes > MOST_KEY_BYTES) break;
      if (now - handled.at < (isGiven(handled) ? KEPT_KEY : KEPT_ID)) kept.push(handled);
    }
    return kept.reverse();
  }
}
function isGiven({ outcome, isGiven: isOwn }: HandledKey): boolean {
  return outcome === undefined || isOwn === true;
}
function sizeOf({ key, outcome }: HandledKey): number {
  const { value, error } = outcome ?? {};
  return key.length + (value?.length ?? 0) + (error === undefined ? 0 : JSON.stringify(error).length) + 100;
}
