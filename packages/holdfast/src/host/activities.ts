// The activities of a worker: claimed from their queue, run, heard, answered.
// Owns: the tasks in progress.
// Invariants: D11 (a lease of their own; a late answer is dropped; heartbeats carry cancellation and timeouts to the running code, and
// are asked for as soon as somebody hints at either), W1 (only what it has room and code for; what was given up takes no room).

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
import { over, whyOver } from "./overs.ts";

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
  /** Its code has ended; its answer is on its way. */
  hasEnded: boolean;
  timer: Timer | undefined;
  /** Of its limits: when they have passed, the store is asked. */
  tooLong: Timer | undefined;
  tooQuiet: Timer | undefined;
  details: Payload | undefined;
  /** Heartbeats under way: one after the other, so that none is overtaken by an older one, or by the outcome. */
  beating: Promise<void> | undefined;
  beatAgain: boolean;
}

/** Most activities are over by then: a hint costs them nothing. */
const LOOK_AFTER_MS = 10;
/** No longer does an attempt that is over go on for want of a reason. */
const WHY_WITHIN_MS = 250;
/** Looks that hints ask for may take this share of the time. */
const SHARE = 0.03;

export class ActivityRunner {
  readonly #options: ActivityRunnerOptions;
  readonly #answers: Batcher<TaskAnswer, boolean>;
  readonly #beats: Batcher<Heartbeat, boolean>;
  readonly #running = new Map<number, Running>();
  /** A claim that is under way. */
  #claiming: Promise<void> | undefined;
  /** D7: until then tasks may be leased to this worker that it has not heard of. */
  #doubtUntil = Number.NEGATIVE_INFINITY;
  /** Tasks that have run here and whose outcome could not be stored. */
  readonly #unanswered = new Set<number>();
  #again = false;
  #stopped = false;
  #alarm: Timer | undefined;
  #onIdle: (() => void) | undefined;
  #looking = false;
  #lookAgain = false;
  #nextLook = 0;

  constructor(options: ActivityRunnerOptions) {
    this.#options = options;
    const { environment, store } = options;
    const { limits } = store;
    this.#answers = new Batcher(environment, (answers, wait) => store.answerTasks(answers, wait), {
      limits,
      keyOf: ({ id }) => String(id),
      sizeOf: sizeOfAnswer,
    });
    this.#beats = new Batcher(environment, (beats) => store.heartbeat(beats), { limits, keyOf: ({ id }) => String(id) });
  }
  get active(): number {
    return this.#running.size;
  }

  get running(): string[] {
    return [...this.#running.values()].map(({ task }) => `${task.id}/${task.token}`);
  }
  get busy(): boolean {
    return this.#claiming !== undefined || !this.#answers.idle || !this.#beats.idle;
  }

  /** Claims what there is room for. Called on wake-ups, freed slots, and now and then. */
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
      const known = asked < this.#doubtUntil ? [...this.#running.keys(), ...this.#unanswered] : undefined;
      const claim = await store.claimTasks({ workerId, queue, activities: [...activities.keys()], limit: room, lease, known });
      const { now, nextAt } = claim;
      const tasks = await this.#held(claim.tasks, asked);
      if (this.#stopped) return await this.#release(tasks); // W4: it was asked for before; others may have it
      for (const task of tasks) void this.#run(task);
      this.#alarm?.cancel();
      if (nextAt !== undefined) this.#alarm = environment.after(nextAt - now, () => void this.poll());
      if (claim.tasks.length === room) this.#again = true;
    } catch (error) {
      // The call may have been carried out, or may be yet. What it leases is lost with the lease.
      this.#doubtUntil = environment.elapsed() + lease;
      logger.error("Activities could not be claimed; trying again.", { error });
    }
  }
  /** D11: an answer that took long may tell of leases that are over: nothing begins before they are sure again. */
  async #held(claimed: readonly ClaimedTask[], asked: number): Promise<readonly ClaimedTask[]> {
    const { lease, environment } = this.#options;
    let held = claimed;
    for (let since = asked; held.length > 0 && environment.elapsed() - since > lease / 2; ) {
      since = environment.elapsed();
      const answers = await this.#beatAll(held, lease);
      held = held.filter((_, i) => answers[i] === true);
    }
    return held;
  }
  /** For each whether it is held. One that the store refuses is not. */
  #beatAll(tasks: readonly ClaimedTask[], lease: number): Promise<boolean[]> {
    const beat = ({ id, token }: ClaimedTask): Promise<boolean> =>
      this.#beats.add({ id, token, lease }).catch((error: unknown) => {
        if (!isRefusal(error)) throw error;
        return false;
      });
    return Promise.all(tasks.map(beat));
  }
  /** Their leases end now: others need not wait for that. */
  async #release(tasks: readonly ClaimedTask[]): Promise<void> {
    try {
      await this.#beatAll(tasks, 0);
    } catch (error) {
      this.#options.logger.error("Activities could not be given back; others have them when their leases end.", { error });
    }
  }

  async #run(task: ClaimedTask): Promise<void> {
    const { codec, encode, environment, activities } = this.#options;
    const running: Running = {
      task,
      controller: quietControllerOf(this.#options.logger, `activity ${task.activity}`),
      hasEnded: false,
      timer: undefined,
      tooLong: undefined,
      tooQuiet: undefined,
      details: undefined,
      beating: undefined,
      beatAgain: false,
    };
    // The next attempt of a task that this worker still is at: the one before is over.
    const before = this.#running.get(task.id);
    if (before !== undefined) this.#giveUp(before);
    this.#running.set(task.id, running);
    this.#unanswered.delete(task.id);
    this.#scheduleHeartbeat(running);
    if (task.startToClose !== undefined) running.tooLong = environment.after(task.startToClose, () => this.#beat(running));
    this.#expectReport(running);
    let outcome: TaskAnswer["outcome"];
    try {
      const activity = activities.get(task.activity);
      if (activity === undefined) throw new HoldfastError(`No activity "${task.activity}" here.`, { code: "HF_UNKNOWN_ACTIVITY" });
      const run = this.#options.replace(task.activity) ?? activity.run;
      const info = {
        attempt: task.attempt,
        idempotencyKey: idempotencyKeyOf(task.runId, task.execution, task.location),
        signal: running.controller.signal,
      };
      const report = (details: Payload): void => {
        running.details = details;
        this.#beat(running);
      };
      const value = await runActivity(run, { ...task, name: task.activity }, info, report, { codec, encode });
      outcome = { status: "completed", value: encode(value, `the result of activity ${task.activity}`) };
    } catch (error) {
      const policy = activities.get(task.activity)?.options.retry;
      const named = task.retry.nonRetryable === undefined ? undefined : { nonRetryable: task.retry.nonRetryable };
      const retryable = isRetryable(error, policy) && isRetryable(error, named);
      const random = environment.random();
      outcome = { status: "failed", error: serializeError(error), retryable, random, after: askedWait(error) };
    }
    running.hasEnded = true;
    await running.beating; // D11: the next attempt is given what this one reported
    const isWanted = this.#running.get(task.id) === running && (await this.#answer(running, outcome));
    if (!isWanted) this.#drop(task, outcome);
    this.#end(running);
  }
  #drop({ runId, activity, attempt }: ClaimedTask, outcome: TaskAnswer["outcome"]): void {
    const what = `Attempt ${attempt} of activity "${activity}" has ended after it was given up; its answer is dropped.`;
    this.#options.logger.debug(what, { runId, ...(outcome.status === "failed" && { error: outcome.error }) });
  }
  /** False: nobody wanted it any more. */
  async #answer(running: Running, outcome: TaskAnswer["outcome"]): Promise<boolean> {
    const { task } = running;
    try {
      return await this.#answers.add({ id: task.id, token: task.token, outcome });
    } catch (error) {
      // D11: as with a result that can't be encoded: it has run, and to run it again would not help.
      if (isRefusal(error) && outcome.status === "completed") {
        const failure = { status: "failed", error: serializeError(error), retryable: false, random: 0 } as const;
        return this.#answer(running, failure);
      }
      // The lease runs out and another attempt follows.
      this.#unanswered.add(task.id);
      this.#options.logger.error(`The outcome of activity ${task.activity} could not be stored.`, { runId: task.runId, error });
      return true;
    }
  }
  #end(running: Running): void {
    cancelTimers(running);
    // The next attempt of the same task may be here already: a retry can be claimed before the news of its failure has come back.
    if (this.#running.get(running.task.id) !== running) return;
    this.#running.delete(running.task.id);
    if (this.#running.size === 0) this.#onIdle?.();
    void this.poll();
  }
  /** If the store says so soon: it is more important that it is told. */
  async #whyOver(task: ClaimedTask): Promise<Error> {
    const { store, environment } = this.#options;
    let timer: Timer | undefined;
    const unknown = new Promise<Error>((resolve) => {
      timer = environment.after(WHY_WITHIN_MS, () => resolve(over()));
    });
    const reason = await Promise.race([whyOver(store, task), unknown]);
    timer?.cancel();
    return reason;
  }
  /** D11 W1: it is told why, and whether it listens or not, others may have its slot. */
  #giveUp(running: Running): void {
    const { task, controller, hasEnded } = running;
    if (!hasEnded) void this.#whyOver(task).then((reason) => controller.abort(reason));
    this.#end(running);
  }

  // ── heartbeats ──

  /** The lease is renewed while the code runs, unless the activity promised heartbeats of its own: then they are what renews it. */
  #scheduleHeartbeat(running: Running): void {
    const { environment, lease } = this.#options;
    running.timer = environment.after(Math.max(10, lease / 3), () => {
      this.#beat(running);
      this.#scheduleHeartbeat(running);
    });
  }
  /** D11: an activity that promised to report is asked about when it has not. */
  #expectReport(running: Running): void {
    const { heartbeat } = running.task;
    if (heartbeat === undefined) return;
    running.tooQuiet?.cancel();
    running.tooQuiet = this.#options.environment.after(heartbeat, () => this.#beat(running));
  }
  #beat(running: Running): void {
    running.beatAgain = true;
    running.beating ??= this.#beatOn(running);
  }
  /** What is reported, or due, while one is under way goes with the next. W4: what was given back is not leased again. */
  async #beatOn(running: Running): Promise<void> {
    while (running.beatAgain && this.#running.get(running.task.id) === running) {
      running.beatAgain = false;
      await this.#heartbeat(running);
    }
    running.beating = undefined;
  }
  async #heartbeat(running: Running): Promise<void> {
    const { task, details } = running;
    running.details = undefined;
    try {
      const isHeld = await this.#beats.add({ id: task.id, token: task.token, lease: this.#options.lease, details });
      if (this.#running.get(task.id) !== running) return;
      if (!isHeld) this.#giveUp(running);
      else if (details !== undefined) this.#expectReport(running);
    } catch {
      // The next one may get through.
    }
  }

  // ── hints ──

  /**
   * Attempts may have been given up, those of these runs or any: they hear of it now rather than when their leases are renewed. A crowd
   * of hints is followed less often, so that looking never takes more than its share.
   */
  look(runIds?: readonly string[]): void {
    if (this.#running.size === 0 || this.#lookAgain) return;
    if (runIds !== undefined && ![...this.#running.values()].some(({ task }) => runIds.includes(task.runId))) return;
    this.#lookAgain = true;
    if (!this.#looking) void this.#lookOn();
  }
  async #lookOn(): Promise<void> {
    const { environment } = this.#options;
    this.#looking = true;
    while (this.#lookAgain) {
      const wait = Math.max(LOOK_AFTER_MS, this.#nextLook - environment.elapsed());
      await new Promise<void>((resolve) => void environment.after(wait, resolve));
      this.#lookAgain = false;
      const begun = environment.elapsed();
      // Who beats is told by that; who has ended is past being told.
      const some = [...this.#running.values()].filter(({ hasEnded, beating }) => !hasEnded && beating === undefined);
      await Promise.all(some.map((running) => this.#heartbeat(running)));
      const end = environment.elapsed();
      this.#nextLook = end + (end - begun) / SHARE;
    }
    this.#looking = false;
  }

  /** W4: claims nothing more; what runs may finish within the grace period. */
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

function cancelTimers({ timer, tooLong, tooQuiet }: Running): void {
  timer?.cancel();
  tooLong?.cancel();
  tooQuiet?.cancel();
}
