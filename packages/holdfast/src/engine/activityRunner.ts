// The activities of a worker: claims them from their queue, runs them, and answers with their outcomes.
// Owns: the tasks in progress.
// Invariants: D11 (each task has its own lease; a late answer is discarded; heartbeats report cancellations and timeouts to the running
// code, and are sent at once after a hint of either), W1 (claims only what it has room and code for; an abandoned task takes no room).

import {
  type Activity,
  type ActivityInfo,
  askedWait,
  type Codec,
  HoldfastError,
  isRetryable,
  type Logger,
  type Payload,
  serializeError,
} from "@holdfast/core";
import { type Environment, idempotencyKeyOf, quietControllerOf, runActivity, type Timer } from "@holdfast/host";
import { Batcher } from "../store/batcher.ts";
import { sizeOfAnswer } from "../store/batchSizes.ts";
import { isRefusal } from "../store/errors.ts";
import type { ClaimedTask, Heartbeat, Store, TaskAnswer } from "../store/port.ts";
import { attemptOver, endReasonOf } from "./attemptEndReason.ts";

export interface ActivityRunnerOptions {
  readonly workerId: string;
  readonly store: Store;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly encode: (value: unknown, what: string) => Payload;
  readonly logger: Logger;
  readonly queue: string;
  readonly activities: ReadonlyMap<string, Activity<unknown, unknown>>;
  readonly concurrency: number;
  readonly lease: number;
  readonly replace: (name: string) => ((args: unknown, info: ActivityInfo) => unknown) | undefined;
}

interface Running {
  readonly task: ClaimedTask;
  readonly controller: AbortController;
  /** Its code has ended, and its answer is being sent. */
  hasEnded: boolean;
  renewalTimer: Timer | undefined;
  /** When one of its limits has passed, a heartbeat asks the store whether the attempt has ended. */
  timeoutTimer: Timer | undefined;
  heartbeatTimer: Timer | undefined;
  details: Payload | undefined;
  /** Heartbeats are sent one after the other, so that neither an older one nor the outcome overtakes any. */
  sending: Promise<void> | undefined;
  sendAgain: boolean;
}

/** Most activities have ended by then, so that a hint costs them nothing. */
const CHECK_AFTER_MS = 10;
/** How long the abort of an attempt waits for the store to say why the attempt has ended. */
const REASON_WITHIN_MS = 250;
/** Checks after hints may take this share of the time. */
const SHARE = 0.03;

export class ActivityRunner {
  readonly #options: ActivityRunnerOptions;
  readonly #answers: Batcher<TaskAnswer, boolean>;
  readonly #heartbeats: Batcher<Heartbeat, boolean>;
  readonly #running = new Map<number, Running>();
  /** A claim that is under way. */
  #claiming: Promise<void> | undefined;
  /** D7: until then, tasks may be leased to this worker without its knowledge. */
  #unknownLeasesUntil = Number.NEGATIVE_INFINITY;
  /** Tasks that have run here and whose outcome could not be stored. */
  readonly #unanswered = new Set<number>();
  /**
   * D7: tasks that have run here and whose attempt the store had ended, and until when. A claim that was sent before they began, and was
   * carried out after that, may have leased them to this worker again as the same attempt.
   */
  readonly #discarded = new Map<number, number>();
  #again = false;
  #stopped = false;
  #alarm: Timer | undefined;
  #onIdle: (() => void) | undefined;
  #isChecking = false;
  #checkAgain = false;
  #nextCheck = 0;

  constructor(options: ActivityRunnerOptions) {
    this.#options = options;
    const { environment, store } = options;
    const { limits } = store;
    this.#answers = new Batcher(environment, (answers, wait) => store.answerTasks(answers, wait), {
      limits,
      keyOf: ({ id }) => String(id),
      sizeOf: sizeOfAnswer,
    });
    this.#heartbeats = new Batcher(environment, (beats) => store.heartbeat(beats), { limits, keyOf: ({ id }) => String(id) });
  }
  get active(): number {
    return this.#running.size;
  }

  get running(): string[] {
    return [...this.#running.values()].map(({ task }) => `${task.id}/${task.token}`);
  }
  get busy(): boolean {
    return this.#claiming !== undefined || !this.#answers.idle || !this.#heartbeats.idle;
  }

  /** Claims as many tasks as there is room for. Called on wake-ups, when a slot becomes free, and periodically. */
  async poll(): Promise<void> {
    const { activities, concurrency } = this.#options;
    if (this.#stopped || activities.size === 0) return;
    if (this.#claiming !== undefined) {
      this.#again = true;
      return;
    }
    const room = concurrency - this.#running.size;
    if (room <= 0) return;
    this.#claiming = this.#claimUpTo(room);
    await this.#claiming;
    this.#claiming = undefined;
    if (!this.#again) return;
    this.#again = false;
    void this.poll();
  }
  async #claimUpTo(room: number): Promise<void> {
    const { store, workerId, queue, activities, lease, environment, logger } = this.#options;
    try {
      const asked = environment.elapsed();
      for (const [id, until] of this.#discarded) if (until <= asked) this.#discarded.delete(id);
      const begun = [this.#running.keys(), this.#unanswered, this.#discarded.keys()];
      const known = asked < this.#unknownLeasesUntil ? [...new Set(begun.flatMap((ids) => [...ids]))] : undefined;
      const claim = await store.claimTasks({ workerId, queue, activities: [...activities.keys()], limit: room, lease, known });
      const { now, nextAt } = claim;
      const tasks = await this.#stillLeased(claim.tasks, asked);
      if (this.#stopped) return await this.#release(tasks); // W4: claimed before the worker stopped; other workers can claim them
      for (const task of tasks) void this.#run(task);
      this.#alarm?.cancel();
      if (nextAt !== undefined) this.#alarm = environment.after(nextAt - now, () => void this.poll());
      if (claim.tasks.length === room) this.#again = true;
    } catch (error) {
      // The store may have executed the call, or may do so later. Tasks that it leases are lost until their leases expire.
      this.#unknownLeasesUntil = environment.elapsed() + lease;
      logger.error("Activities could not be claimed; trying again.", { error });
    }
  }
  /** D11: the leases in an answer that took long may have expired: they are renewed before any task begins. */
  async #stillLeased(claimed: readonly ClaimedTask[], asked: number): Promise<readonly ClaimedTask[]> {
    const { lease, environment } = this.#options;
    let leased = claimed;
    for (let since = asked; leased.length > 0 && environment.elapsed() - since > lease / 2; ) {
      since = environment.elapsed();
      const answers = await this.#renewAll(leased, lease);
      leased = leased.filter((_, i) => answers[i] === true);
    }
    return leased;
  }
  /** For each task, whether it is still leased to this worker. A task that the store refuses is not. */
  #renewAll(tasks: readonly ClaimedTask[], lease: number): Promise<boolean[]> {
    const renew = ({ id, token }: ClaimedTask): Promise<boolean> =>
      this.#heartbeats.add({ id, token, lease }).catch((error: unknown) => {
        if (!isRefusal(error)) throw error;
        return false;
      });
    return Promise.all(tasks.map(renew));
  }
  /** Ends their leases now, so that other workers need not wait until they expire. */
  async #release(tasks: readonly ClaimedTask[]): Promise<void> {
    try {
      await this.#renewAll(tasks, 0);
    } catch (error) {
      this.#options.logger.error("Activities could not be released; other workers can claim them when their leases expire.", { error });
    }
  }

  async #run(task: ClaimedTask): Promise<void> {
    const { codec, encode, environment, activities } = this.#options;
    const running: Running = {
      task,
      controller: quietControllerOf(this.#options.logger, `activity ${task.activity}`),
      hasEnded: false,
      renewalTimer: undefined,
      timeoutTimer: undefined,
      heartbeatTimer: undefined,
      details: undefined,
      sending: undefined,
      sendAgain: false,
    };
    // The previous attempt of this task, if it still runs here, has ended in the store.
    const previous = this.#running.get(task.id);
    if (previous !== undefined) this.#abandon(previous);
    this.#running.set(task.id, running);
    this.#unanswered.delete(task.id);
    this.#discarded.delete(task.id);
    this.#scheduleHeartbeat(running);
    if (task.startToClose !== undefined) running.timeoutTimer = environment.after(task.startToClose, () => this.#sendHeartbeat(running));
    this.#expectReport(running);
    let outcome: TaskAnswer["outcome"];
    try {
      const activity = activities.get(task.activity);
      if (activity === undefined)
        throw new HoldfastError(`This worker has no activity "${task.activity}". Pass it to the workers of its queue.`, {
          code: "HF_UNKNOWN_ACTIVITY",
        });
      const run = this.#options.replace(task.activity) ?? activity.run;
      const info = {
        attempt: task.attempt,
        idempotencyKey: idempotencyKeyOf(task.runId, task.execution, task.location),
        signal: running.controller.signal,
      };
      const report = (details: Payload): void => {
        running.details = details;
        this.#sendHeartbeat(running);
      };
      const value = await runActivity(run, { ...task, name: task.activity }, info, report, { codec, encode });
      outcome = { status: "completed", value: encode(value, `the result of activity ${task.activity}, which has run,`) };
    } catch (error) {
      const policy = activities.get(task.activity)?.options.retry;
      const named = task.retry.nonRetryable === undefined ? undefined : { nonRetryable: task.retry.nonRetryable };
      const retryable = isRetryable(error, policy) && isRetryable(error, named);
      const random = environment.random();
      outcome = { status: "failed", error: serializeError(error), retryable, random, after: askedWait(error) };
    }
    running.hasEnded = true;
    await running.sending; // D11: the next attempt gets what this one reported
    const isAccepted = this.#running.get(task.id) === running && (await this.#answer(running, outcome));
    if (!isAccepted) this.#logDiscarded(task, outcome);
    if (!isAccepted && this.#running.get(task.id) === running) this.#discard(task.id);
    this.#end(running);
  }
  #logDiscarded({ runId, activity, attempt }: ClaimedTask, outcome: TaskAnswer["outcome"]): void {
    const what = `Attempt ${attempt} of activity "${activity}" ended after it was canceled, timed out or taken over; its outcome is discarded.`;
    this.#options.logger.debug(what, { runId, ...(outcome.status === "failed" && { error: outcome.error }) });
  }
  /** False if the store discards the outcome, because the attempt had already ended. */
  async #answer(running: Running, outcome: TaskAnswer["outcome"]): Promise<boolean> {
    const { task } = running;
    try {
      return await this.#answers.add({ id: task.id, token: task.token, outcome });
    } catch (error) {
      // D11: like a result that can't be encoded: the activity has run, and running it again would not help.
      if (isRefusal(error) && outcome.status === "completed") {
        const failure = { status: "failed", error: serializeError(error), retryable: false, random: 0 } as const;
        return this.#answer(running, failure);
      }
      // The lease expires, and another attempt follows.
      this.#unanswered.add(task.id);
      this.#options.logger.error(`The outcome of activity ${task.activity} could not be stored.`, { runId: task.runId, error });
      return true;
    }
  }
  #end(running: Running): void {
    cancelTimers(running);
    // The next attempt of the same task may already run here: a retry can be claimed before the answer to its failure arrives.
    if (this.#running.get(running.task.id) !== running) return;
    this.#running.delete(running.task.id);
    if (this.#running.size === 0) this.#onIdle?.();
    void this.poll();
  }
  /** Why the attempt has ended, or a general reason if the store does not answer soon: the abort must not wait for it. */
  async #endReason(task: ClaimedTask): Promise<Error> {
    const { store, environment } = this.#options;
    let timer: Timer | undefined;
    const unknown = new Promise<Error>((resolve) => {
      timer = environment.after(REASON_WITHIN_MS, () => resolve(attemptOver()));
    });
    const reason = await Promise.race([endReasonOf(store, task), unknown]);
    timer?.cancel();
    return reason;
  }
  /** D11 W1: aborts the code with the reason, and frees its slot whether the code stops or not. */
  #abandon(running: Running): void {
    const { task, controller, hasEnded } = running;
    if (!hasEnded) void this.#endReason(task).then((reason) => controller.abort(reason));
    if (this.#running.get(task.id) === running) this.#discard(task.id);
    this.#end(running);
  }
  #discard(id: number): void {
    const { environment, lease } = this.#options;
    this.#discarded.set(id, environment.elapsed() + lease);
  }

  // ── heartbeats ──

  /** Renews the lease while the code runs. */
  #scheduleHeartbeat(running: Running): void {
    const { environment, lease } = this.#options;
    running.renewalTimer = environment.after(Math.max(10, lease / 3), () => {
      this.#sendHeartbeat(running);
      this.#scheduleHeartbeat(running);
    });
  }
  /** D11: an activity with a heartbeat timeout is checked when it has not reported in time. */
  #expectReport(running: Running): void {
    const { heartbeat } = running.task;
    if (heartbeat === undefined) return;
    running.heartbeatTimer?.cancel();
    running.heartbeatTimer = this.#options.environment.after(heartbeat, () => this.#sendHeartbeat(running));
  }
  #sendHeartbeat(running: Running): void {
    running.sendAgain = true;
    running.sending ??= this.#sendHeartbeats(running);
  }
  /** While one heartbeat is under way, reports wait for the next one. W4: a released task is not leased again. */
  async #sendHeartbeats(running: Running): Promise<void> {
    while (running.sendAgain && this.#running.get(running.task.id) === running) {
      running.sendAgain = false;
      await this.#heartbeat(running);
    }
    running.sending = undefined;
  }
  async #heartbeat(running: Running): Promise<void> {
    const { task, details } = running;
    running.details = undefined;
    try {
      const isLeased = await this.#heartbeats.add({ id: task.id, token: task.token, lease: this.#options.lease, details });
      if (this.#running.get(task.id) !== running) return;
      if (!isLeased) this.#abandon(running);
      else if (details !== undefined) this.#expectReport(running);
    } catch {
      // The next heartbeat may succeed.
    }
  }

  // ── hints ──

  /**
   * Attempts of these runs, or of any run, may have ended in the store: checks them now instead of at the next renewal. Many hints in a
   * row are followed less often, so that checks never take more than their share of the time.
   */
  check(runIds?: readonly string[]): void {
    if (this.#running.size === 0 || this.#checkAgain) return;
    if (runIds !== undefined && ![...this.#running.values()].some(({ task }) => runIds.includes(task.runId))) return;
    this.#checkAgain = true;
    if (!this.#isChecking) void this.#checkAll();
  }
  async #checkAll(): Promise<void> {
    const { environment } = this.#options;
    this.#isChecking = true;
    while (this.#checkAgain) {
      const wait = Math.max(CHECK_AFTER_MS, this.#nextCheck - environment.elapsed());
      await new Promise<void>((resolve) => void environment.after(wait, resolve));
      this.#checkAgain = false;
      const begun = environment.elapsed();
      // A task whose heartbeat is in progress gets the news of its end from that.
      const some = [...this.#running.values()].filter(({ hasEnded, sending }) => !hasEnded && sending === undefined);
      await Promise.all(some.map((running) => this.#heartbeat(running)));
      const end = environment.elapsed();
      this.#nextCheck = end + (end - begun) / SHARE;
    }
    this.#isChecking = false;
  }

  /** W4: claims nothing more; running activities may finish within the grace period. */
  async stop(grace: number): Promise<void> {
    this.#stopped = true;
    this.#alarm?.cancel();
    if (this.#running.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
        this.#options.environment.after(grace, resolve);
      });
    }
    const reason = new HoldfastError("The worker is shutting down.", { code: "HF_SHUTDOWN" });
    const left = [...this.#running.values()];
    for (const running of left) {
      running.controller.abort(reason);
      cancelTimers(running);
      this.#running.delete(running.task.id);
    }
    await Promise.all([this.#claiming, this.#release(left.map(({ task }) => task))]);
  }
}

function cancelTimers({ renewalTimer, timeoutTimer, heartbeatTimer }: Running): void {
  renewalTimer?.cancel();
  timeoutTimer?.cancel();
  heartbeatTimer?.cancel();
}
