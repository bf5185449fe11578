// The client of the console: the same calls on a store and over HTTP.
// Owns: the interface.
// Invariants: both implementations give the same answer to the same call, and throw the same ConsoleError.

import type { RequestOf, ResponseOf, RouteId } from "../api/routes.ts";

/** Something that has changed in the store. */
export interface ClientEvent {
  /** The id of the event, for `lastEventId`. */
  readonly id: string;
  /** The topic: "runs", "run", "counts", "workers". */
  readonly event: string;
  /** What has changed. */
  readonly data: unknown;
}
/** Options of `client.events`. */
export interface EventOptions {
  /** Ends the stream. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The id of the last event that was seen: what has changed since then comes first.
   * @defaultValue only what changes from now on
   */
  readonly lastEventId?: string | undefined;
}
/** The calls of the console, on a store or over HTTP. Made by `openClient`. */
export interface Client {
  /**
   * Calls a route.
   * @throws `ConsoleError` for every failure, with the code of its cause.
   */
  call<R extends Exclude<RouteId, "events">>(route: R, request?: RequestOf<R> & CallOptions): Promise<ResponseOf<R>>;
  /** Ends when `signal` aborts or the client is closed. */
  events(topics: readonly string[], options?: EventOptions): AsyncIterable<ClientEvent>;
  /** Ends all streams and closes the store or the connections. */
  close(): Promise<void>;
}
/** Options of `client.call`. */
export interface CallOptions {
  /** Stops waiting for the answer. */
  readonly signal?: AbortSignal | undefined;
}
