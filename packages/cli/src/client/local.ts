// The client on a store: the handlers run in this process.
// Owns: the engine and the inspection that it opens.
// Invariants: reading opens the store for reading only: nothing is created, and a file that does not exist reads as empty. The engine is
// opened by the first call that writes. Answers are those of the server.

import { type Codec, Holdfast } from "holdfast";
import { type Inspection, inspect, openReadOnly } from "holdfast/inspect";
import { BulkTokens } from "../api/bulkTokens.ts";
import { checkedRequest, handle, queryText } from "../api/call.ts";
import type { Caller, CodeHost, ConsoleContext } from "../api/context.ts";
import { type ConsoleEvent, EventHub, topicsOf, topicText } from "../api/events.ts";
import type { HandledRoute } from "../api/handlers/handler.ts";
import { jsonText } from "../api/json.ts";
import { consoleError, refusal } from "../api/problem.ts";
import { type RequestOf, type ResponseOf, routeOf } from "../api/routes.ts";
import type { CallOptions, Client, ClientEvent, EventOptions } from "./client.ts";

/** Options of a client on a store. */
export interface LocalOptions {
  /**
   * The codec that the runs are stored with.
   * @defaultValue `jsonCodec`
   */
  readonly codec?: Codec | undefined;
  /**
   * The namespace of the runs.
   * @defaultValue none
   */
  readonly namespace?: string | undefined;
  /**
   * Calls that write are refused.
   * @defaultValue `false`
   */
  readonly readOnly?: boolean | undefined;
  /** The user's code, for queries. */
  readonly code?: CodeHost | undefined;
}

/** The person at the terminal has the store itself. */
const CALLER: Caller = { name: "local", role: "admin", values: true };

/** Opens nothing yet: an unreachable store is an error of the first call. */
export async function openLocal(url: string | undefined, options: LocalOptions = {}): Promise<Client> {
  return new LocalClient(new OpenedStore(url, options), options);
}
/** On an engine of this process, which stays open. */
export function clientOf(engine: Holdfast, options: Pick<LocalOptions, "readOnly" | "code"> = {}): Client {
  let inspection: Inspection | undefined;
  const store = {
    engine: async () => engine,
    inspection: async () => {
      inspection ??= inspect(engine);
      return inspection;
    },
    close: async () => inspection?.close(),
  };
  return new LocalClient(store, options);
}

interface Opened {
  engine(): Promise<Holdfast>;
  inspection(): Promise<Inspection>;
  close(): Promise<void>;
}

/** What is opened when it is needed, each at most once. */
class OpenedStore implements Opened {
  readonly #url: string | undefined;
  readonly #options: { readonly codec?: Codec; readonly namespace?: string };
  readonly #readOnly: boolean;
  #engine: Promise<Holdfast> | undefined;
  #reading: Promise<Inspection> | undefined;
  #inspected: Promise<Inspection> | undefined;

  constructor(url: string | undefined, { codec, namespace, readOnly = false }: LocalOptions) {
    this.#url = url;
    this.#options = { ...(codec !== undefined && { codec }), ...(namespace !== undefined && { namespace }) };
    this.#readOnly = readOnly;
  }
  async engine(): Promise<Holdfast> {
    if (this.#readOnly) throw refusal("HF_FORBIDDEN", "The store was opened for reading only.");
    this.#engine ??= Holdfast.open(this.#url, this.#options);
    return this.#engine;
  }
  /** Once there is an engine it is the one that is read: a store that did not exist before was empty. */
  async inspection(): Promise<Inspection> {
    if (this.#engine !== undefined) {
      this.#inspected ??= this.#engine.then(inspect);
      return this.#inspected;
    }
    this.#reading ??= openReadOnly(this.#url, this.#options);
    return this.#reading;
  }
  async close(): Promise<void> {
    const opened = [this.#reading, this.#inspected, this.#engine];
    for (const one of opened) await one?.then((it) => it.close()).catch(() => undefined);
  }
}

class LocalClient implements Client {
  readonly #store: Opened;
  readonly #context: ConsoleContext;
  readonly #readOnly: boolean;
  readonly #hub: EventHub;
  readonly #closed = new AbortController();

  constructor(store: Opened, { readOnly = false, code }: Pick<LocalOptions, "readOnly" | "code">) {
    this.#store = store;
    this.#readOnly = readOnly;
    const now = Date.now;
    this.#context = {
      engine: () => store.engine(),
      inspection: () => store.inspection(),
      code,
      bulkTokens: new BulkTokens(now),
      readOnly,
      now,
    };
    this.#hub = new EventHub(this.#context);
  }

  async call<R extends HandledRoute>(route: R, request: RequestOf<R> & CallOptions = {}): Promise<ResponseOf<R>> {
    const { query, body, idempotencyKey, signal } = request;
    const params = (request.params ?? {}) as Readonly<Record<string, string>>;
    try {
      if (this.#readOnly && routeOf(route).role !== "read") throw refusal("HF_FORBIDDEN", "The store was opened for reading only.");
      const raw = { params, query: queryText(route, query), body: plain(body), idempotencyKey, signal };
      return (await handle(route, checkedRequest(route, raw), this.#context, CALLER)) as ResponseOf<R>;
    } catch (error) {
      signal?.throwIfAborted();
      throw consoleError(error);
    }
  }
  async *events(topics: readonly string[], { signal, lastEventId }: EventOptions = {}): AsyncIterable<ClientEvent> {
    const waiting: ConsoleEvent[] = [];
    let notice: (() => void) | undefined;
    const ends = AbortSignal.any([this.#closed.signal, ...(signal === undefined ? [] : [signal])]);
    const wake = (): void => notice?.();
    ends.addEventListener("abort", wake);
    const unsubscribe = await this.#hub
      .subscribe(topicsOf(topicText(topics)), lastEventId, (event) => {
        waiting.push(event);
        wake();
      })
      .catch((error: unknown) => {
        throw consoleError(error);
      });
    try {
      while (!ends.aborted) {
        const next = waiting.shift();
        if (next !== undefined) yield next;
        else
          await new Promise<void>((resolve) => {
            notice = resolve;
          });
      }
    } finally {
      ends.removeEventListener("abort", wake);
      unsubscribe();
    }
  }
  async close(): Promise<void> {
    this.#closed.abort();
    this.#hub.close();
    await this.#store.close();
  }
}

/** As it would arrive over HTTP: what JSON has no form for is left out. */
function plain(body: unknown): unknown {
  return body === undefined ? undefined : (JSON.parse(jsonText(body) ?? "null") as unknown);
}
