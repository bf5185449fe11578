// How a run reaches other runs, provided by the host.
// Owns: the port `Router`.
// Invariants: M12 (unknown and closed runs are distinguished), K6 (children follow their parent's end); every call is made at least once,
// and repeating it changes nothing.
//
// A namespace does not know other namespaces. A host with many of them passes `runWorkflow` a router, which finds the driver of a run by
// its id and appends to it. A call that throws is repeated with growing delays: throw only if a retry may help. An InvalidInputError or
// LimitExceededError, as thrown by `createChild` and `deliver`, is an answer: the operation fails with it.

import type { Outcome, Payload, StoredRunRetry } from "@holdfast/core";
import type { ParentLink } from "./storage/contents.ts";

/** A child to start: `createChild(child, { driver, workflow })` does it. */
export interface ChildStart {
  /** The run id of the child. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that runs it. */
  readonly version: string | undefined;
  /** The input, encoded. */
  readonly input: Payload;
  /** The operation that starts it. */
  readonly parent: ParentLink;
  /** Milliseconds from its start. `deadlineAt` is a moment instead. */
  readonly deadline: number | undefined;
  /** When it fails if it is still open, in milliseconds since 1970. */
  readonly deadlineAt: number | undefined;
  /** Retry of the child run as a whole. */
  readonly retry: StoredRunRetry | undefined;
  /** The queue that the code names. This host has no queues. */
  readonly queue: string | undefined;
  /**
   * The priority that the code names.
   * @defaultValue that of the parent
   */
  readonly priority?: number | undefined;
  /** Attributes of the child. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /**
   * "restart-if-closed": a closed run with this id should get its next execution, as this child. `createChild` answers "conflict" in this
   * case, too.
   */
  readonly onConflict?: "reject" | "restart-if-closed";
}
/** A signal from one run to another. */
export interface RoutedSignal {
  /** The same when the signal is sent again. */
  readonly id: string;
  /** The name of the signal. */
  readonly name: string;
  /** The payload, encoded. */
  readonly payload: Payload;
}
/** The result of sending a message to another run. */
export type Delivery = "sent" | "not-found" | "closed";

/** How a run reaches other runs: for hosts with many namespaces. A call that throws is repeated with growing delays. */
export interface Router {
  /**
   * Resolves when the child is durable. "started" also if a run with this id and the same parent exists: the call is repeated after a
   * crash. "conflict" if the existing run has another parent.
   */
  start(child: ChildStart): Promise<"started" | "conflict">;
  /** Pass it to `deliver` of the other run's handle. */
  signal(runId: string, signal: RoutedSignal): Promise<Delivery>;
  /** Requests the cancellation of another run. */
  cancel(runId: string, reason: string | undefined): Promise<Delivery>;
  /** Ends another run without running workflow code. */
  terminate(runId: string, reason: string | undefined): Promise<Delivery>;
  /** A child has ended: pass it to `childEnded` of the parent's handle. */
  ended(parent: ParentLink, outcome: Outcome): Promise<void>;
}
