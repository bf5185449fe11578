// What users say of a run: where it lives, what runs it, how it starts.
// Owns: the options of `runWorkflow`, `createWorkflow` and `openWorkflow`, and of sends.
// Invariants: what is said of a start counts once, when the run comes to be.

import type { Codec, Duration, Limits, Logger, Queries, Signals, StartSignal, StoredRetryPolicy, Updates, Workflow } from "@holdfast/core";
import type { AnyActivity } from "@holdfast/host";
import type { EngineDriver } from "./driver.ts";
import type { Environment } from "./environment.ts";
import type { Router } from "./router.ts";
import type { ParentLink } from "./storage/contents.ts";

// biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; callers give `In`, whatever the workflow makes of it
export interface OpenOptions<In, O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> {
  /** Of the run's own namespace: the same object for as long as the process lives. */
  readonly driver: EngineDriver;
  readonly workflow: Workflow<any, O, S, U, Q, In>;
  readonly id: string;
  /** Activities that the workflow calls; they run in place. A list, or the exports of a module. */
  readonly activities?: readonly AnyActivity[] | Readonly<Record<string, unknown>>;
  /** For children and for messages to other runs. */
  readonly router?: Router;
  /** Default: JSON. */
  readonly codec?: Codec;
  /** Default: warnings and errors go to the console. */
  readonly logger?: Logger;
  readonly limits?: Partial<Limits>;
  /** How long the code of one turn may take. Default "2s". */
  readonly turnTimeout?: Duration;
  /** What calling Date.now, Math.random, setTimeout or fetch in workflow code does. Needs Node. Default "off". */
  readonly determinism?: "off" | "warn" | "error";
  /** Report a turn that has not come back after this long on stderr, from a separate thread. Needs Node. Default: no such report. */
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
  /** Of the run as a whole. Default: the workflow's. */
  readonly retry?: StoredRetryPolicy;
  readonly version?: string;
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /** Of a child: as its router was given it. */
  readonly parent?: ParentLink;
}

/** What is said of a start counts if the namespace is empty; a run that is there goes on as it was started. */
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
  /** A repeated send with the same key is one delivery (M3). */
  readonly idempotencyKey?: string;
}

export interface UpdateOptions extends SendOptions {
  /** How long to wait for the reply. The update goes on without it. */
  readonly timeout?: Duration;
  /** Keep offering it until a `receive` accepts it, for at most this long by the run's clock (M8). Default: once. */
  readonly acceptWithin?: Duration;
}

// biome-ignore lint/suspicious/noExplicitAny: inference helpers; the only arguments that every workflow is assignable to
export type AnyOpenOptions = OpenOptions<any, any, any, any, any>;
export type AnyRunOptions = AnyOpenOptions & StartOptions & { readonly input?: unknown };
