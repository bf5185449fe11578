// How a run reaches other runs: the host's to know.
// Owns: the port `Router`.
// Invariants: M12 (unknown and closed runs are told apart), K6 (children follow their parent's end); everything is said at least once, and
// the same thing said again changes nothing.
//
// A namespace knows no other. Whoever keeps many of them gives `runWorkflow` a router, which finds the driver of a run by its id and
// appends to it. A call that throws is made again later, with growing waits: throw only if trying again may help. An InvalidInputError or
// LimitExceededError, as `createChild` and `deliver` throw them, is an answer: the operation fails with it.

import type { Outcome, Payload, StoredRunRetry } from "@holdfast/core";
import type { ParentLink } from "./storage/contents.ts";

/** A child to be started: `createChild(child, { driver, workflow })` does. */
export interface ChildStart {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly input: Payload;
  readonly parent: ParentLink;
  /** Milliseconds from its start, or with `deadlineAt` a moment. */
  readonly deadline: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly retry: StoredRunRetry | undefined;
  readonly queue: string | undefined;
  /** Undefined: its parent's. */
  readonly priority?: number | undefined;
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
  /** "restart-if-closed": a closed run of the id is to get its next execution, as this child. `createChild` answers "conflict" all the same. */
  readonly onConflict?: "reject" | "restart-if-closed";
}
/** A signal from run to run. */
export interface RoutedSignal {
  /** The same when it is sent again. */
  readonly id: string;
  readonly name: string;
  readonly payload: Payload;
}
export type Delivery = "sent" | "not-found" | "closed";

export interface Router {
  /** Answers when the child is durable. "started" also for a run of this id that has the same parent: the call is made again after a crash. "conflict" for any other. */
  start(child: ChildStart): Promise<"started" | "conflict">;
  /** Hand it to the other run's `deliver`. */
  signal(runId: string, signal: RoutedSignal): Promise<Delivery>;
  cancel(runId: string, reason: string | undefined): Promise<Delivery>;
  terminate(runId: string, reason: string | undefined): Promise<Delivery>;
  /** A child has ended: hand it to the parent's `childEnded`. */
  ended(parent: ParentLink, outcome: Outcome): Promise<void>;
}
