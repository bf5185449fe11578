// The options of users: where a run is stored, what runs it, how it starts.
// Owns: the options of `runWorkflow`, `createWorkflow` and `openWorkflow`, and of sends.
// Invariants: the options of a start apply once, when the run is created.

import type { Codec, Duration, Limits, Logger, Queries, Signals, StartSignal, StoredRetryPolicy, Updates, Workflow } from "@holdfast/core";
import type { AnyActivity } from "@holdfast/host";
import type { EngineDriver } from "./driver.ts";
import type { Environment } from "./environment.ts";
import type { Router } from "./router.ts";
import type { ParentLink } from "./storage/contents.ts";

// biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; callers pass `In`, whatever the schema transforms it to
export interface OpenOptions<In, O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> {
  /** The driver of the run's namespace. Pass the same object as long as the process lives. */
  readonly driver: EngineDriver;
  readonly workflow: Workflow<any, O, S, U, Q, In>;
  readonly id: string;
  /** Activities that the workflow calls; they run in this process. A list, or the exports of a module. */
  readonly activities?: readonly AnyActivity[] | Readonly<Record<string, unknown>>;
  /** Needed for children and for messages to other runs. */
  readonly router?: Router;
  /** Default: JSON. */
  readonly codec?: Codec;
  /** Default: warnings and errors go to the console. */
  readonly logger?: Logger;
  readonly limits?: Partial<Limits>;
  /** How long the code of one turn may take. Default "2s". */
  readonly turnTimeout?: Duration;
  /** What happens when workflow code calls Date.now, Math.random, setTimeout or fetch. Needs Node. Default "off". */
  readonly determinism?: "off" | "warn" | "error";
  /** Report a turn that has not returned after this time, on stderr, from a separate thread. Needs Node. Default: no report. */
  readonly watchdog?: Duration;
  /** Time, timers and randomness. Default: the real ones. */
  readonly environment?: Environment;
}
// biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers

export interface StartOptions<S extends Signals = Signals> {
  /** Delivered with the start (M8). */
  readonly signals?: readonly StartSignal<S>[];
  /** Default: the workflow's. */
  readonly deadline?: Duration | Date;
  /** Retries of the run as a whole. Default: the workflow's. */
  readonly retry?: StoredRetryPolicy;
  readonly version?: string;
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /** For a child: the link that its router received. */
  readonly parent?: ParentLink;
}

/** The options of a start apply if the namespace is empty. An existing run continues as it was started. */
export type RunOptions<In, O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> = OpenOptions<
  In,
  O,
  S,
  U,
  Q
> &
  StartOptions<NoInfer<S>> &
  (undefined extends In ? { readonly input?: NoInfer<In> } : { readonly input: NoInfer<In> });

export interface SendOptions {
  /** A repeated send with the same key is delivered once (M3). */
  readonly idempotencyKey?: string;
}

export interface UpdateOptions extends SendOptions {
  /** How long to wait for the reply. The update continues after that. Default: no limit. */
  readonly timeout?: Duration;
  /** Offer the update again until a `receive` accepts it, for at most this long by the run's clock (M8). Default: it is offered once. */
  readonly acceptWithin?: Duration;
}

// biome-ignore lint/suspicious/noExplicitAny: inference helpers; the only arguments that every workflow is assignable to
export type AnyOpenOptions = OpenOptions<any, any, any, any, any>;
export type AnyRunOptions = AnyOpenOptions & StartOptions & { readonly input?: unknown };
