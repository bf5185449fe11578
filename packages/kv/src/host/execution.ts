// One execution in the memory of this process: what is stored of it, its executor, and what its host does for it.
// Owns: the executor, its open operations, its post, its open updates, and the jobs that wait for its next turn.
// Invariants: P10 (each execution has an executor of its own), X10 (dropping it tells workflow code nothing).

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

// The same objects each time: storage knows them again without looking at what they say.
const RUNNING: Status = { status: "running" };
const ROLLING_BACK: Status = { status: "rolling_back" };

export class Execution {
  readonly settings: Settings;
  readonly storage: Storage;
  head: Head;
  executor: Executor;
  readonly operations: OpenOperations;
  readonly post: Outbox;
  readonly updates = new Updates();
  /** For the next turn. */
  readonly jobs: Job[] = [];
  /** D9: the next turn is given messages only; what else there is comes in the turn after. */
  messagesFirst = false;
  rollingBack = false;
  /** When the run is to be tried again as a whole (D10): until then no code runs. */
  retryRunAt: number | undefined;
  /** M8: when the first update that waits to be accepted is to be given up. */
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
    this.post = new Outbox({ storage, router, environment, logger, runId, onChange });
  }

  /** One by one: there may be more than a call takes arguments. */
  add(jobs: readonly Job[]): void {
    for (const job of jobs) this.jobs.push(job);
  }
  get startJob(): StartJob {
    return startJobOf(this.head);
  }
  /** The first of the commands that this host can't carry out, as an error. */
  unsupportedIn(commands: readonly Command[]): Error | undefined {
    for (const command of commands) {
      const problem = "n" in command ? unsupported(command, this.#bodies) : undefined;
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  // ── how it stands ──

  /** P7: no turn is before this one, also if a resume voids it or it was the last of the execution before. K8: nor before a timer that it fires was due. */
  get lastTime(): number {
    return Math.max(this.storage.turns.at(-1)?.time ?? this.head.lastTime ?? 0, this.operations.latestFired);
  }
  /** Has something happened that is not written, or not in a turn? */
  get hasNews(): boolean {
    return this.operations.hasJobs || this.operations.hasNews;
  }
  /** When something is due next, in milliseconds since 1970. */
  get nextDue(): number | undefined {
    if (this.retryRunAt !== undefined) return this.retryRunAt;
    let next = this.operations.nextDue;
    for (const at of [this.post.nextAt, this.acceptUntil]) if (at !== undefined && (next === undefined || at < next)) next = at;
    return next;
  }
  /** M8: an update has waited for as long as it may: the next turn rejects it. */
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
  /** While it works. */
  get workingStatus(): Status {
    return this.rollingBack ? ROLLING_BACK : RUNNING;
  }
  /** When nothing can advance. */
  get parkedStatus(): Status {
    const status = this.rollingBack && this.retryRunAt === undefined ? "rolling_back" : "sleeping";
    return { status, wakeAt: this.nextDue, waitingFor: this.waitingFor };
  }

  /** Bodies in flight are told why; workflow code hears nothing of it (X10). */
  drop(reason: unknown): void {
    this.operations.abandonAll(reason);
    this.#evict();
  }
  /** An executor that has seen nothing yet takes the place of this one. What is in flight goes on (D5). */
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
