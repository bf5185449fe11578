// The public types of a handle on a run.
// Owns: types only; handle.ts implements them.
// Invariants: those of the calls are in their comments.

import type {
  History,
  InputArgs,
  OperationInfo,
  Outcome,
  Queries,
  RunStatus,
  SignalInput,
  Signals,
  UpdateOutput,
  UpdateSent,
  Updates,
} from "@holdfast/core";
import type { SendOptions, UpdateOptions } from "./options.ts";
import type { RunResult } from "./results.ts";
import type { RoutedSignal } from "./router.ts";
import type { ParentLink } from "./storage/contents.ts";

/** What is known about a run. */
export interface RunDescription {
  /** The id of the run. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that it was started with. */
  readonly version: string | undefined;
  /** Where it is in its life. */
  readonly status: RunStatus;
  /** When to run it again. Undefined: only a message can advance it, or it has ended. */
  readonly wakeAt: Date | undefined;
  /** What it waits for, in words. */
  readonly waitingFor: readonly string[];
  /** The number of this execution in the chain of its id, from 1. */
  readonly execution: number;
  /** The number of the attempt at the run as a whole, from 1. */
  readonly attempt: number;
  /** What the run was started with, and what `ctx.setAttributes` has changed. */
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** When it was created. */
  readonly createdAt: Date;
  /** When it fails if it is still open. */
  readonly deadlineAt: Date | undefined;
  /** The operation that started it as a child. */
  readonly parent: ParentLink | undefined;
}

/** A handle on a run: to send to it, to read it, to run it. */
export interface WorkflowHandle<O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> {
  /** The id of the run. */
  readonly id: string;
  /** The result. For a live run: once it has ended, is blocked or evicted. Otherwise: its current status. */
  result(): Promise<RunResult<O>>;
  /**
   * Sends a signal. Resolves when it is durable and the run has an alarm for it.
   * @throws `RunNotFoundError` or `RunClosedError` if it can't be delivered.
   */
  signal<K extends keyof S & string>(name: K, ...payload: InputArgs<SignalInput<S[K]>, SendOptions>): Promise<void>;
  /**
   * Sends an update and resolves with its reply. Runs the run if it is not live.
   * @throws `UpdateRejectedError` if no open `receive` accepts it, or its validator rejects it.
   * @throws `UpdateFailedError` if its handler failed.
   * @throws `RunNotFoundError` or `RunClosedError` if it can't be delivered.
   * @throws `HoldfastError` with the code HF_WAIT_TIMEOUT after `timeout`.
   */
  update<K extends keyof U & string>(name: K, ...input: InputArgs<UpdateSent<U[K]>, UpdateOptions>): Promise<UpdateOutput<U[K]>>;
  /**
   * Asks for something that the workflow derives from its published state.
   * @throws `QueryFailedError` if the workflow declares no such query, or if it throws.
   */
  // biome-ignore lint/suspicious/noExplicitAny: inference helper; whatever the state is, the arguments follow it
  query<K extends keyof Q & string>(name: K, ...args: Parameters<Q[K]> extends [any?, ...infer A] ? A : []): Promise<ReturnType<Q[K]>>;
  /**
   * Requests cancellation: durable when this resolves, whatever the run is doing.
   * @throws `RunNotFoundError` or `RunClosedError` if it can't be delivered.
   */
  cancel(reason?: string): Promise<void>;
  /**
   * Ends the run without running workflow code. A run that is not live ends when it is woken; its alarm is due.
   * @throws `RunNotFoundError` or `RunClosedError` if it can't be delivered.
   */
  terminate(reason?: string): Promise<void>;
  /**
   * Allows another try of a failed run, a blocked run, or steps that wait for their next attempt. Call wake() afterwards.
   * @throws `RunNotFoundError` if the namespace is empty.
   * @throws `HoldfastError` with the code HF_NOT_RESUMABLE if it has ended and did not fail, if its rollbacks have run, or if its deadline
   * is over.
   */
  recover(): Promise<void>;
  /** Runs the run until nothing can advance. A live run checks for new work. */
  wake(): Promise<RunResult<O>>;
  /**
   * Removes a live run from this process: running steps are notified and abandoned, and nothing more is written. Resolves when it is done.
   */
  evict(): Promise<void>;
  /** The last published state; undefined if there is none. */
  state<T = unknown>(): Promise<T | undefined>;
  /**
   * What is known about the run.
   * @throws `RunNotFoundError` if the namespace is empty.
   */
  describe(): Promise<RunDescription>;
  /** Every operation of this execution with its attempts, in order. */
  operations(): Promise<OperationInfo[]>;
  /** The portable history, the input of `replay`. */
  history(): Promise<History>;
  /**
   * For routers: delivers a signal of another run, which may not know this run's schema. A signal that the schema rejects reaches no code.
   */
  deliver(signal: RoutedSignal): Promise<void>;
  /** For routers: delivers the outcome of a child to the operation of this run that started it. */
  childEnded(parent: ParentLink, outcome: Outcome): Promise<void>;
}
