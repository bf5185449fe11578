// What the driver of a run needs from its worker.
// Owns: nothing; an interface. The worker implements it.
// Invariants: none.

import type { AnyWorkflow, Codec, Job, Limits, Logger, StepBody, StepInfo, Turn, TurnWatch } from "@holdfast/core";
import type { BlockedLog, Environment, TurnQueue } from "@holdfast/host";
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
  /** D6: runs a step in a transaction of the store. */
  transact(claim: { runId: string; epoch: number; seq: number }, body: StepBody, info: StepInfo): Promise<InboxMessage | "stale">;
  readonly limits: Partial<Limits>;
  readonly turnTimeout: number;
  readonly maxRecoveries: number;
  /** Notified when workflow code begins and stops running. */
  readonly watch: TurnWatch | undefined;
  /** With the determinism guard on: code that changes a state in place gets a TypeError (R9). */
  readonly freezeStates: boolean;
  /** Calls one of the two callbacks, later. */
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void;
  /** True while a driver of this worker has the run. */
  drives(runId: string): boolean;
  /** Undefined if there is no such run. */
  rowOf(runId: string): Promise<RunRow | undefined>;
  history(runId: string): Promise<readonly Turn[]>;
  attempts(runId: string): Promise<readonly (AttemptRow & { readonly task?: boolean })[]>;
  /** Applies the workflow's schema to a signal before it is delivered (M13). */
  checked(workflow: AnyWorkflow, job: Job): Promise<Job>;
  codeOf(workflow: AnyWorkflow): string;
  /** W4: a run is being released: the worker waits for this before it stops. */
  waitBeforeStop(released: Promise<void>): void;
  /** K7: a deadline seems to have passed: asks the store to check. */
  checkDeadlines(): void;
  readonly blocked: Setbacks;
  readonly blockedLog: BlockedLog;
  readonly turnQueue: TurnQueue;
  /** The number of turns that are being computed: they will commit soon. */
  computing: number;
  /** The claim of this driver has ended. */
  released(driver: RunDriver, how: ClaimEnd): void;
}
