// Streams of events (SSE) over HTTP.
// Owns: how many there are, in all and of each caller.
// Invariants: at most 500, and 20 of one caller, then 429; a stream that is not read is closed instead of growing; a beat every 15 s.

import { type ConsoleEvent, type EventHub, topicsOf } from "../api/events.ts";
import { refusal } from "../api/problem.ts";

const MOST = 500;
const MOST_OF_ONE = 20;
const BEAT = 15_000;
/** Events that wait for a slow reader. It may come again with the id of the last one that it got. */
const MOST_WAITING = 256;

export interface StreamLimits {
  readonly all?: number;
  readonly ofOne?: number;
  readonly beat?: number;
}

export class Streams {
  readonly #hub: EventHub;
  readonly #limits: Required<StreamLimits>;
  /** How to end each, and its request: the signal of a request that was collected never aborts. */
  readonly #open = new Map<() => void, Request>();
  readonly #byCaller = new Map<string, number>();

  constructor(hub: EventHub, limits: StreamLimits = {}) {
    this.#hub = hub;
    this.#limits = { all: MOST, ofOne: MOST_OF_ONE, beat: BEAT, ...limits };
  }

  async open(caller: string, topics: string, request: Request): Promise<ReadableStream<Uint8Array>> {
    const names = topicsOf(topics);
    const lastEventId = request.headers.get("last-event-id") ?? undefined;
    const { signal } = request;
    const free = this.#take(caller);
    const encoder = new TextEncoder();
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
    let unsubscribe: (() => void) | undefined;
    let beat: NodeJS.Timeout | undefined;
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      clearInterval(beat);
      signal.removeEventListener("abort", end);
      this.#open.delete(end);
      unsubscribe?.();
      free();
      try {
        controller?.close();
      } catch {
        // The reader has cancelled it.
      }
    };
    const send = (chunk: string): void => {
      if (isOver || controller === undefined) return;
      if ((controller.desiredSize ?? 0) < -MOST_WAITING) return end();
      controller.enqueue(encoder.encode(chunk));
    };
    const body = new ReadableStream<Uint8Array>({
      start: (given) => {
        controller = given;
      },
      cancel: end,
    });
    this.#open.set(end, request);
    signal.addEventListener("abort", end, { once: true });
    // A first line, so that proxies and clients see that the stream is open.
    send(": open\n\n");
    beat = setInterval(() => send(": beat\n\n"), this.#limits.beat);
    try {
      unsubscribe = await this.#hub.subscribe(names, lastEventId, (event) => send(textOf(event)));
    } catch (error) {
      end();
      throw error;
    }
    if (isOver || signal.aborted) {
      end();
      unsubscribe();
    }
    return body;
  }
  /** Returns how to give the place back. */
  #take(caller: string): () => void {
    const own = this.#byCaller.get(caller) ?? 0;
    if (this.#open.size >= this.#limits.all)
      throw refusal("HF_TOO_MANY_STREAMS", `The server has ${this.#limits.all} event streams already.`);
    if (own >= this.#limits.ofOne) throw refusal("HF_TOO_MANY_STREAMS", `This token has ${this.#limits.ofOne} event streams already.`);
    this.#byCaller.set(caller, own + 1);
    return () => {
      const left = (this.#byCaller.get(caller) ?? 1) - 1;
      if (left > 0) this.#byCaller.set(caller, left);
      else this.#byCaller.delete(caller);
    };
  }
  close(): void {
    for (const end of [...this.#open.keys()]) end();
  }
}

/** JSON has no line breaks, so that each field is one line. */
function textOf({ id, event, data }: ConsoleEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
