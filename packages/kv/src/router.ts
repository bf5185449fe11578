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
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly input: Payload;
  readonly parent: ParentLink;
  /** Milliseconds from its start. `deadlineAt` is a moment instead. */
  readonly deadline: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly retry: StoredRunRetry | undefined;
  readonly queue: string | undefined;
  /** Default: its parent's. */
  readonly priority?: number | undefined;
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
  readonly name: string;
  readonly payload: Payload;
}
export type Delivery = "sent" | "not-found" | "closed";

export interface Router {
  /**
   * Resolves when the child is durable. "started" also if a run with this id and the same parent exists: the call is repeated after a
   * crash. "conflict" if the existing run has another parent.
   */
  start(child: ChildStart): Promise<"started" | "conflict">;
  /** Pass it to `deliver` of the other run's handle. */
  signal(runId: string, signal: RoutedSignal): Promise<Delivery>;
  cancel(runId: string, reason: string | undefined): Promise<Delivery>;
  terminate(runId: string, reason: string | undefined): Promise<Delivery>;
  /** A child has ended: pass it to `childEnded` of the parent's handle. */
  ended(parent: ParentLink, outcome: Outcome): Promise<void>;
}
