// One execution in the memory of this process: its stored data, its executor, and what the host does for it.
// Owns: the executor, its open operations, its outgoing messages, its open updates, and the jobs for its next turn.
// Invariants: P10 (each execution has its own executor), X10 (workflow code is not notified when it is dropped).

import { type Command, Executor, formatLocation, type Job, type StartJob } from "@holdfast/core";
import { idempotencyKeyOf, isoTime, startJobOf, withholdsRejections } from "@holdfast/host";
import { OpenOperations, waitingWords } from "@holdfast/host/attempts";
import { Outbox } from "../messages/outbox.ts";
import type { Head, Status } from "../storage/contents.ts";
import type { Storage } from "../storage/storage.ts";
import { type BodyContext, bodyOf, CARRIED, unsupported } from "./bodies.ts";
import type { Settings } from "./settings.ts";
import { Updates } from "./updates.ts";
import type { Watching } from "./watching.ts";

// Constant objects: the storage recognizes them without comparing their content.
const RUNNING: Status = { status: "running" };
const ROLLING_BACK: Status = { status: "rolling_back" };

export class Execution {
  readonly settings: Settings;
  readonly storage: Storage;
  head: Head;
  executor: Executor;
  readonly operations: OpenOperations;
  readonly outbox: Outbox;
  readonly updates = new Updates();
  /** Jobs for the next turn. */
  readonly jobs: Job[] = [];
  /** D9: the next turn gets only messages; other jobs come in the turn after. */
  messagesFirst = false;
  rollingBack = false;
  /** When the run is tried again as a whole (D10). No code runs before that. */
  retryRunAt: number | undefined;
  /** M8: when the first update that waits to be accepted is rejected. */
  acceptUntil: number | undefined;
  readonly #bodies: BodyContext;
  readonly #watching: Watching | undefined;

  constructor(settings: Settings, storage: Storage, head: Head, watching: Watching | undefined, onChange: () => void) {
    const { codec, logger, environment, activities, router } = settings;
    const { id: runId, execution, deadlineAt } = head;
    this.settings = settings;
    this.storage = storage;
    this.head = head;
    this.#watching = watching;
    this.executor = newExecutor(settings, watching);
    const attemptsOf = (seq: number) => storage.attemptsOf(seq);
    const executor = () => this.executor;
    this.#bodies = { runId, execution, executor, codec, activities, router, attemptsOf };
    this.operations = new OpenOperations({
      carries: CARRIED,
      environment,
      logger,
      run: { runId, workflow: settings.workflow },
      workerId: "",
      now: () => environment.now(),
      bodyOf: (command, openedAt) => bodyOf(command, openedAt, this.#bodies),
      keyOf: ({ unit, name, n }) => idempotencyKeyOf(runId, execution, formatLocation(unit, name, n)),
      encode: (value, what) => this.executor.encode(value, what),
      deadlineAt: () => deadlineAt,
      expires: true,
      onChange,
    });
    this.outbox = new Outbox({ storage, router, environment, logger, runId, onChange });
  }

  /** One by one, because there may be more jobs than a call accepts arguments. */
  add(jobs: readonly Job[]): void {
    for (const job of jobs) this.jobs.push(job);
  }
  get startJob(): StartJob {
    return startJobOf(this.head);
  }
  /** An error for the first command that this host can't run. */
  unsupportedIn(commands: readonly Command[]): Error | undefined {
    for (const command of commands) {
      const problem = "n" in command ? unsupported(command, this.#bodies) : undefined;
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  // ── state ──

  /**
   * P7: no turn has an earlier time than this, even after a resume, or in the next execution. K8: nor an earlier time than the due time of
   * a timer that it fires.
   */
  get lastTime(): number {
    return Math.max(this.storage.turns.at(-1)?.time ?? this.head.lastTime ?? 0, this.operations.latestFired);
  }
  /** Whether something has happened that is not written, or not part of a turn. */
  get hasNews(): boolean {
    return this.operations.hasJobs || this.operations.hasNews;
  }
  /** When the next event is due, in milliseconds since 1970. */
  get nextDue(): number | undefined {
    if (this.retryRunAt !== undefined) return this.retryRunAt;
    let next = this.operations.nextDue;
    for (const at of [this.outbox.nextAt, this.acceptUntil]) if (at !== undefined && (next === undefined || at < next)) next = at;
    return next;
  }
  /** M8: an update has waited as long as it may: the next turn rejects it. */
  get isPatienceOver(): boolean {
    return this.acceptUntil !== undefined && this.acceptUntil <= this.settings.environment.now();
  }
  get isDue(): boolean {
    const due = this.nextDue;
    return due !== undefined && due <= this.settings.environment.now();
  }
  get waitingFor(): string[] {
    const { retryRunAt } = this;
    return retryRunAt === undefined ? waitingWords(this.executor, this.operations) : [`another attempt at ${isoTime(retryRunAt)}`];
  }
  /** Status while the run works. */
  get workingStatus(): Status {
    return this.rollingBack ? ROLLING_BACK : RUNNING;
  }
  /** Status while nothing can advance. */
  get parkedStatus(): Status {
    const status = this.rollingBack && this.retryRunAt === undefined ? "rolling_back" : "sleeping";
    return { status, wakeAt: this.nextDue, waitingFor: this.waitingFor };
  }

  /** Notifies the bodies in flight of the reason; workflow code is not notified (X10). */
  drop(reason: unknown): void {
    this.operations.abandonAll(reason);
    this.#evict();
  }
  /** Replaces the executor with a new one. Bodies in flight continue (D5). */
  renew(): void {
    this.#evict();
    this.executor = newExecutor(this.settings, this.#watching);
  }
  #evict(): void {
    void this.executor.activate({ time: 0, jobs: [{ type: "evict" }] });
  }
}

function newExecutor({ workflow, codec, logger, limits, environment, turnTimeout }: Settings, watching: Watching | undefined): Executor {
  const options = { workflow, codec, logger, limits, elapsed: environment.worked, turnTimeout, withholdsRejections };
  if (watching === undefined) return new Executor(options);
  return new Executor({ ...options, codec: watching.codec, watch: watching.watch, freezeStates: watching.freezeStates });
}
