// What the driver of a run needs from its worker.
// Owns: nothing; an interface. The worker implements it, the simulation and the tests see it through the worker.
// Invariants: none of its own.

import type { AnyWorkflow, Codec, Job, Limits, Logger, StepBody, StepInfo, Turn, TurnWatch } from "@holdfast/core";
import type { Environment, TurnQueue } from "@holdfast/host";
import type { BlockedLog } from "../host/blocking.ts";
import type { AttemptRow, CommitResult, InboxMessage, RunRow, TurnCommit } from "../store/port.ts";
import type { RunDriver } from "./runDriver.ts";
import type { Setbacks } from "./setbacks.ts";

/** How a claim ended. */
export type ClaimEnd = "parked" | "closed" | "blocked" | "lost";

export interface DriverHost {
  readonly workerId: string;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  now(): number;
  replaceStep(name: string): ((info: unknown) => unknown) | undefined;
  /** D6: a step in a transaction of the store. */
  transact(claim: { runId: string; epoch: number; seq: number }, body: StepBody, info: StepInfo): Promise<InboxMessage | "stale">;
  readonly limits: Partial<Limits>;
  readonly turnTimeout: number;
  readonly maxRecoveries: number;
  /** Sees workflow code run. */
  readonly watch: TurnWatch | undefined;
  /** With the determinism guard on: code that changes a state in place gets a TypeError (R9). */
  readonly freezeStates: boolean;
  /** Calls one of the two, later. */
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void;
  /** The row of a run, if there is one. */
  look(runId: string): Promise<RunRow | undefined>;
  history(runId: string): Promise<readonly Turn[]>;
  attempts(runId: string): Promise<readonly (AttemptRow & { readonly task?: boolean })[]>;
  /** Refines a signal by the workflow's schema before it is delivered (M13). */
  checked(workflow: AnyWorkflow, job: Job): Promise<Job>;
  codeOf(workflow: AnyWorkflow): string;
  /** W4: a run is on its way back; a worker that stops waits for it. */
  givesBack(given: Promise<void>): void;
  /** K7: a deadline seems to have passed: the store is to look. */
  lookAtDeadlines(): void;
  readonly blocked: Setbacks;
  readonly blockedLog: BlockedLog;
  readonly turnQueue: TurnQueue;
  /** Turns that are being computed: their commits come soon. */
  computing: number;
  /** The claim of this driver is over. */
  released(driver: RunDriver, how: ClaimEnd): void;
}
