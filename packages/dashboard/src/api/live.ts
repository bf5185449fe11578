// What has changed on the server, as hints for all tabs of the browser.
// Owns: the one stream of events of a browser, which tab holds it, and polling where there is none.
// Invariants: browsers open six connections to a server, so only the leader, the tab that has the Web Lock, holds a stream. It follows the
// topics of all tabs, and passes each event on over a BroadcastChannel. Without Web Locks each tab polls. Events are only hints: a tab reads
// what it shows by itself, with its own token.

import { effect, signal } from "@preact/signals";
import { encodeSegment } from "../base/paths.ts";
import { call, isReachable, open, problemOf } from "./call.ts";
import { storageName } from "./page.ts";
import { EventParser } from "./sse.ts";
import { token } from "./token.ts";

export type Topic = "runs" | "counts" | "workers" | `run:${string}`;
export interface Hint {
  /** "all": the connection is new, and anything may have changed. */
  readonly event: string;
  readonly data: unknown;
  /** Of the event. Absent: the server has sent none. */
  readonly id?: string;
}
export type LiveState = "connecting" | "live" | "polling" | "disconnected";

export const liveState = signal<LiveState>("connecting");

const POLL_MS = 5_000;
/** A tab whose stream was refused tries again after so many polls. */
const POLLS = 6;
const RETRY_MS = [500, 1_000, 2_000, 5_000];
/** The server sends a beat every 15 s: a stream that has been silent for so long is dead. */
const SILENCE_MS = 40_000;
/** A follower that has not been heard of for so long is gone: its topics are dropped. */
const FOLLOWER_MS = 15_000;

type Note =
  | { readonly type: "topics"; readonly tab: string; readonly topics: readonly Topic[] }
  | { readonly type: "hint"; readonly hint: Hint }
  | { readonly type: "state"; readonly state: LiveState }
  | { readonly type: "leader" };

const tab = Math.random().toString(36).slice(2);
const channel = new BroadcastChannel(`${storageName}events`);
const listeners = new Map<(hint: Hint) => void, readonly Topic[]>();
const followers = new Map<string, { topics: readonly Topic[]; heardAt: number }>();
let isLeader = false;
let reconnect: (() => void) | undefined;

/** Calls back for each hint on these topics, until the returned function is called. */
export function follow(topics: readonly Topic[], listener: (hint: Hint) => void): () => void {
  listeners.set(listener, topics);
  announce();
  return () => {
    listeners.delete(listener);
    announce();
  };
}

const ownTopics = (): Topic[] => [...new Set([...listeners.values()].flat())];

function announce(): void {
  if (isLeader) topicsChanged();
  else channel.postMessage({ type: "topics", tab, topics: ownTopics() } satisfies Note);
}

/** Headers of a read in answer to this hint: the server reads once for all pages. */
export function answerTo(hint: Hint | undefined): Readonly<Record<string, string>> {
  return hint?.id === undefined || hint.id === "" ? {} : { "last-event-id": hint.id };
}

function deliver(hint: Hint): void {
  for (const [listener, topics] of [...listeners]) if (concerns(hint, topics)) listener(hint);
}
export function concerns({ event, data }: Hint, topics: readonly Topic[]): boolean {
  if (event === "all") return true;
  if (event !== "run") return topics.some((topic) => topic === event);
  const id = typeof data === "object" && data !== null && "id" in data ? data.id : undefined;
  return topics.some((topic) => topic === `run:${String(id)}`);
}

channel.addEventListener("message", ({ data: note }: MessageEvent<Note>) => {
  switch (note.type) {
    case "topics":
      if (!isLeader) return;
      followers.set(note.tab, { topics: note.topics, heardAt: Date.now() });
      topicsChanged();
      channel.postMessage({ type: "state", state: liveState.value } satisfies Note);
      return;
    case "hint":
      if (!isLeader) deliver(note.hint);
      return;
    case "state":
      if (!isLeader) liveState.value = note.state;
      return;
    case "leader":
      if (!isLeader) announce();
  }
});

// ── the leader ──

function wanted(): string {
  const limit = Date.now() - FOLLOWER_MS;
  for (const [name, { heardAt }] of followers) if (heardAt < limit) followers.delete(name);
  const topics = new Set([...ownTopics(), ...[...followers.values()].flatMap((follower) => follower.topics)]);
  return [...topics].map(topicText).toSorted().join(",");
}
/** Commas separate topics: an id that has one is written as in a path, and so is one that would be read as such. */
const topicText = (topic: Topic): string => (/^run:(?:~|.*,)/s.test(topic) ? `run:${encodeSegment(topic.slice(4))}` : topic);

let streamed = "";
function topicsChanged(): void {
  if (wanted() !== streamed) reconnect?.();
}

function setState(state: LiveState): void {
  liveState.value = state;
  if (isLeader) channel.postMessage({ type: "state", state } satisfies Note);
}
function spread(hint: Hint): void {
  deliver(hint);
  channel.postMessage({ type: "hint", hint } satisfies Note);
}

/** Holds the stream until it is refused for good; then the lock goes to another tab, which may have a better token. */
async function lead(): Promise<void> {
  isLeader = true;
  channel.postMessage({ type: "leader" } satisfies Note);
  const parser = new EventParser();
  let failures = 0;
  let wasLost = false;
  for (;;) {
    streamed = wanted();
    const abort = new AbortController();
    const changed = new Promise<void>((resolve) => {
      reconnect = () => {
        abort.abort();
        resolve();
      };
    });
    if (streamed === "") {
      // This tab shows nothing that changes (a form): wait for a topic.
      setState("live");
      await changed;
      continue;
    }
    const outcome = await stream(streamed, parser, abort.signal, () => {
      failures = 0;
      setState("live");
      if (wasLost) spread({ event: "all", data: null });
      wasLost = false;
    });
    if (outcome === "refused") break;
    if (outcome === "changed") continue;
    wasLost = true;
    setState("disconnected");
    const pause = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)] ?? POLL_MS;
    await Promise.race([changed, new Promise((resolve) => setTimeout(resolve, pause))]);
  }
  isLeader = false;
  reconnect = undefined;
}

async function stream(
  topics: string,
  parser: EventParser,
  signal: AbortSignal,
  opened: () => void,
): Promise<"lost" | "changed" | "refused"> {
  try {
    const response = await openEvents(topics, parser.lastId, signal);
    if (!response.ok || response.body === null) {
      await problemOf(response);
      return response.status >= 500 ? "lost" : "refused";
    }
    opened();
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    for (;;) {
      const silence = setTimeout(() => void reader.cancel(), SILENCE_MS);
      const { done, value } = await reader.read();
      clearTimeout(silence);
      if (done) return "lost";
      for (const { event, data, id } of parser.push(decoder.decode(value, { stream: true }))) spread({ event, data, id });
    }
  } catch {
    if (signal.aborted) return "changed";
    isReachable.value = false;
    return "lost";
  }
}

function openEvents(topics: string, lastEventId: string, signal: AbortSignal): Promise<Response> {
  const headers = lastEventId === "" ? {} : { "last-event-id": lastEventId };
  return open("GET", "events", { query: { topics }, headers, signal });
}

// ── polling ──

async function poll(): Promise<void> {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (document.visibilityState === "hidden" || listeners.size === 0) continue;
    try {
      if (!isReachable.value) await call("GET", "health");
      liveState.value = "polling";
      deliver({ event: "all", data: null });
    } catch {
      liveState.value = "disconnected";
    }
  }
}

/** Starts once there is a token, or a server that asks for none. */
export function goLive(): void {
  setInterval(announce, FOLLOWER_MS / 3);
  if (!("locks" in navigator) || typeof ReadableStream === "undefined") {
    liveState.value = "polling";
    void poll();
    return;
  }
  void leadInTurn();
}

async function leadInTurn(): Promise<void> {
  for (;;) {
    await navigator.locks.request(`${storageName}events`, lead);
    // Refused: the token is wrong, or there are too many streams. Poll once in a while, and try again when the token changes.
    liveState.value = "polling";
    const given = token.peek();
    await new Promise<void>((resolve) => {
      let polls = 0;
      const timer = setInterval(() => {
        deliver({ event: "all", data: null });
        if (++polls >= POLLS) end();
      }, POLL_MS);
      const stop = effect(() => {
        if (token.value !== given) queueMicrotask(end);
      });
      const end = (): void => {
        clearInterval(timer);
        stop();
        resolve();
      };
    });
  }
}
