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
/** Where a run is stored, and what runs it. */
export interface OpenOptions<In, O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> {
  /** The driver of the run's namespace. Pass the same object as long as the process lives. */
  readonly driver: EngineDriver;
  /** The workflow of the run. */
  readonly workflow: Workflow<any, O, S, U, Q, In>;
  /** The id of the run. */
  readonly id: string;
  /**
   * Activities that the workflow calls; they run in this process. A list, or the exports of a module.
   * @defaultValue none
   */
  readonly activities?: readonly AnyActivity[] | Readonly<Record<string, unknown>>;
  /**
   * Needed for children and for messages to other runs.
   * @defaultValue none: such calls block the run
   */
  readonly router?: Router;
  /**
   * Encodes all user values.
   * @defaultValue `jsonCodec`
   */
  readonly codec?: Codec;
  /**
   * Where messages go.
   * @defaultValue warnings and errors go to the console
   */
  readonly logger?: Logger;
  /**
   * Upper bounds for payloads and histories.
   * @defaultValue payloads of 2 MiB, a warning at 10,000 records, failure at 50,000
   */
  readonly limits?: Partial<Limits>;
  /**
   * How long the code of one turn may take.
   * @defaultValue `"2s"`
   */
  readonly turnTimeout?: Duration;
  /**
   * What happens when workflow code calls Date.now, Math.random, setTimeout or fetch. Needs Node.
   * @defaultValue `"off"`
   */
  readonly determinism?: "off" | "warn" | "error";
  /**
   * Report a turn that has not returned after this time, on stderr, from a separate thread. Needs Node.
   * @defaultValue no report
   */
  readonly watchdog?: Duration;
  /**
   * Time, timers and randomness.
   * @defaultValue the real ones
   */
  readonly environment?: Environment;
}
// biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers

/** Options of a start. They apply once, when the run is created. */
export interface StartOptions<S extends Signals = Signals> {
  /**
   * Delivered with the start.
   * @defaultValue none
   */
  readonly signals?: readonly StartSignal<S>[];
  /**
   * The run fails with `DeadlineExceededError` at this time, or this long after its start.
   * @defaultValue the deadline of the workflow
   */
  readonly deadline?: Duration | Date;
  /**
   * Retries of the run as a whole.
   * @defaultValue the policy of the workflow
   */
  readonly retry?: StoredRetryPolicy;
  /**
   * The version of the workflow that runs it.
   * @defaultValue the version of the definition
   */
  readonly version?: string;
  /**
   * Attributes of the run.
   * @defaultValue none
   */
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /**
   * For a child: the link that its router received.
   * @defaultValue it is not a child
   */
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
  (undefined extends In
    ? {
        /** The input of the workflow. */
        readonly input?: NoInfer<In>;
      }
    : {
        /** The input of the workflow. */
        readonly input: NoInfer<In>;
      });

/** Options of a signal. */
export interface SendOptions {
  /**
   * A repeated send with the same key is delivered once.
   * @defaultValue every send is delivered
   */
  readonly idempotencyKey?: string;
}

/** Options of an update. */
export interface UpdateOptions extends SendOptions {
  /**
   * How long to wait for the reply. The update continues after that.
   * @defaultValue no limit
   */
  readonly timeout?: Duration;
  /**
   * Offer the update again until a `receive` accepts it, for at most this long by the run's clock.
   * @defaultValue it is offered once
   */
  readonly acceptWithin?: Duration;
}

// biome-ignore lint/suspicious/noExplicitAny: inference helpers; the only arguments that every workflow is assignable to
export type AnyOpenOptions = OpenOptions<any, any, any, any, any>;
export type AnyRunOptions = AnyOpenOptions & StartOptions & { readonly input?: unknown };
