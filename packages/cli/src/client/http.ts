// The client over HTTP.
// Owns: nothing.
// Invariants: an answer that is not a success is a ConsoleError, also when no problem document came; a token is never part of a message.

import { queryText } from "../api/call.ts";
import { topicText } from "../api/events.ts";
import type { HandledRoute } from "../api/handlers/handler.ts";
import { pathSegment } from "../api/ids.ts";
import { jsonText } from "../api/json.ts";
import { ConsoleError, problemOf, refusal } from "../api/problem.ts";
import { type RequestOf, type ResponseOf, type RouteId, routeOf } from "../api/routes.ts";
import type { CallOptions, Client, ClientEvent, EventOptions } from "./client.ts";
import { parseEvents } from "./sse.ts";

/** Options of a client over HTTP. */
export interface HttpOptions {
  /**
   * The token that is sent with each call.
   * @defaultValue the one behind the `#` of the url
   */
  readonly token?: string | undefined;
  /**
   * What sends requests.
   * @defaultValue the global `fetch`
   */
  readonly fetch?: ((request: Request) => Promise<Response>) | undefined;
}

/**
 * A client of a console over HTTP. `url` is the address of the page.
 * @throws `ConsoleError` if the address does not begin with http:// or https://.
 */
export function openHttp(url: string, options: HttpOptions = {}): Client {
  return new HttpClient(url, options);
}

/** Between two attempts to open a stream again. */
const RETRY = [200, 1_000, 2_000, 5_000];

class HttpClient implements Client {
  readonly #base: URL;
  readonly #token: string | undefined;
  readonly #fetch: (request: Request) => Promise<Response>;
  readonly #closed = new AbortController();

  constructor(url: string, { token, fetch = (request) => globalThis.fetch(request) }: HttpOptions) {
    const page = URL.canParse(url) ? new URL(url) : undefined;
    if (page === undefined || !/^https?:$/.test(page.protocol))
      throw refusal("HF_INVALID_INPUT", "The address of a server must begin with http:// or https://.");
    this.#token = token ?? new URLSearchParams(page.hash.slice(1)).get("token") ?? undefined;
    // What sends requests would quote it.
    if (this.#token !== undefined && !/^[\x21-\x7e]+$/.test(this.#token))
      throw refusal("HF_INVALID_INPUT", "The token has characters that no token has.");
    page.hash = "";
    page.search = "";
    // Passwords in the address are not sent: the API takes tokens only.
    page.username = "";
    page.password = "";
    if (!page.pathname.endsWith("/")) page.pathname += "/";
    this.#base = new URL("api/v1/", page);
    this.#fetch = fetch;
  }

  async call<R extends HandledRoute>(route: R, request: RequestOf<R> & CallOptions = {}): Promise<ResponseOf<R>> {
    const { query, body, idempotencyKey, signal } = request;
    const { method, media } = routeOf(route);
    const headers: Record<string, string> = { accept: media ?? "application/json" };
    if (idempotencyKey !== undefined) headers["idempotency-key"] = idempotencyKey;
    if (body !== undefined) headers["content-type"] = "application/json";
    const text = jsonText(body);
    const init = { method, headers, ...(text !== undefined && { body: text }) };
    const response = await this.#send(this.#urlOf(route, request, queryText(route, query)), init, signal);
    const answer = await this.#reading(response.text(), signal);
    if (media !== undefined) return answer as ResponseOf<R>;
    return (answer === "" ? undefined : this.#parse(answer)) as ResponseOf<R>;
  }
  #urlOf<R extends RouteId>(route: R, { params }: RequestOf<R>, query: URLSearchParams): URL {
    const given = (params ?? {}) as Readonly<Record<string, string>>;
    const path = routeOf(route).path.replace(/\{(\w+)\}/g, (_, name: string) => pathSegment(given[name] ?? ""));
    const url = new URL(path, this.#base);
    url.search = query.toString();
    return url;
  }
  /** A response that is a success. */
  async #send(url: URL, init: RequestInit & { headers: Record<string, string> }, signal: AbortSignal | undefined): Promise<Response> {
    const headers = { ...init.headers, ...(this.#token !== undefined && { authorization: `Bearer ${this.#token}` }) };
    const ends = AbortSignal.any([this.#closed.signal, ...(signal === undefined ? [] : [signal])]);
    const response = await this.#reading(this.#fetch(new Request(url, { ...init, headers, signal: ends, redirect: "error" })), signal);
    signal?.throwIfAborted();
    if (response.ok) return response;
    const text = await response.text().catch(() => "");
    throw failure(response.status, text);
  }
  async #reading<T>(reading: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof ConsoleError) throw error;
      const cause = (error as { cause?: { code?: unknown; message?: unknown } }).cause;
      const why = cause?.code ?? cause?.message ?? (error as Error).message;
      throw refusal("HF_UNREACHABLE", `The server at ${this.#base.origin} can't be reached: ${String(why)}.`);
    }
  }
  #parse(text: string): unknown {
    try {
      return JSON.parse(text) as unknown;
    } catch (cause) {
      throw refusal("HF_UNREACHABLE", `What answers at ${this.#base.origin} is not a Holdfast server.`, [], cause);
    }
  }

  /** Opens the stream again when it breaks, with the id of the last event. The first time, and what the server refuses, is an error. */
  async *events(topics: readonly string[], { signal, lastEventId }: EventOptions = {}): AsyncIterable<ClientEvent> {
    const ends = AbortSignal.any([this.#closed.signal, ...(signal === undefined ? [] : [signal])]);
    const url = this.#urlOf("events", {}, queryText("events", { topics: topicText(topics) }));
    let last = lastEventId;
    let isFirst = true;
    for (let failures = 0; !ends.aborted; ) {
      try {
        const headers = { accept: "text/event-stream", ...(last !== undefined && { "last-event-id": last }) };
        const response = await this.#send(url, { headers }, ends);
        isFirst = false;
        if (response.body === null) return;
        for await (const event of parseEvents(response.body)) {
          failures = 0;
          last = event.id;
          yield event;
        }
      } catch (error) {
        if (ends.aborted) return;
        if (isFirst || (error instanceof ConsoleError && !error.retryable)) throw error;
      }
      await pause(RETRY[Math.min(failures++, RETRY.length - 1)] ?? 0, ends);
    }
  }
  async close(): Promise<void> {
    this.#closed.abort();
  }
}

function failure(status: number, text: string): ConsoleError {
  try {
    const problem = problemOf(JSON.parse(text));
    if (problem !== undefined) return new ConsoleError(problem);
  } catch {
    // Not a problem document: a proxy answered.
  }
  // Before any program sees it, by the limits of Node or of a proxy.
  if (status === 414 || status === 431) return refusal("HF_INVALID_INPUT", "An id, a name or a filter is too long for the server.");
  const { retryable, ...rest } = refusal(
    "HF_UNREACHABLE",
    `The server answered with status ${status}, and not as a Holdfast server does.`,
  ).toProblem();
  return new ConsoleError({ ...rest, status: status >= 500 ? status : 503, retryable: retryable && status >= 500 });
}
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const over = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    signal.addEventListener("abort", over);
  });
}
