// One run in the memory of this process: from what is stored to jobs, to a turn, to a batch, to effects, and round again.
// Owns: the executor of one namespace, and everything that is written there by the run itself.
// Invariants: D1 (effects after the batch that records them), D2 H2 (one atomic batch a turn), D5 (parks only when nothing is in flight),
// D9 (parking and messages can't miss each other), H1, H3, K5 K9, M7 (messages leave with the turn that took them), V4 (blocked).

import {
  type Activation,
  type AnyWorkflow,
  type Codec,
  type Command,
  type Completion,
  Executor,
  HoldfastError,
  type Job,
  LimitExceededError,
  type Limits,
  type Logger,
  type Outcome,
  RunClosedError,
  RunNotFoundError,
  type RunStatus,
  RunTerminatedError,
  recordTurn,
  replayView,
  type SerializedError,
  type SignalJob,
  type StartJob,
  serializeError,
  type TerminalCommand,
  type Turn,
} from "@holdfast/core";
import type { EngineDriver } from "../driver.ts";
import { KvWriteError, WrongNamespaceError } from "../errors.ts";
import { decode } from "../storage/binary.ts";
import type { Head, InboxMessage, Message, Status, UpdateOutcome } from "../storage/contents.ts";
import { messageKey, PREFIX, usedKey } from "../storage/layout.ts";
import { Storage } from "../storage/storage.ts";
import { type Birth, bear } from "./birth.ts";
import { type AnyActivity, type BodyContext, isEffect, serves, unsupported } from "./bodies.ts";
import { checkedSignal } from "./definitions.ts";
import { Effects, isoTime } from "./effects.ts";
import type { Environment, Timer } from "./environment.ts";
import { Inbox } from "./inbox.ts";
import { type LiveRun, Namespace } from "./namespace.ts";
import { Post } from "./post.ts";
import { tolerateRejections } from "./rejections.ts";
import { isClosed, type RunResult, resultOf } from "./results.ts";
import type { Router } from "./router.ts";

export interface SessionOptions {
  readonly driver: EngineDriver;
  readonly workflow: AnyWorkflow;
  readonly id: string;
  readonly mode: "yield" | "live";
  /** Undefined: the run must exist. */
  readonly birth: Birth | undefined;
  readonly activities: ReadonlyMap<string, AnyActivity>;
  readonly router: Router | undefined;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Partial<Limits>;
  readonly environment: Environment;
  readonly turnTimeout: number;
}

interface Consumed {
  readonly message: InboxMessage;
  /** Undefined: there is nothing of it for a turn to take. */
  readonly job: Job | undefined;
  /** Its key counts as used from now on. */
  readonly key: string | undefined;
}

/** The executor of an execution is of no more use, but the run goes on: with another one. */
const AGAIN = Symbol("again");
type Ending = RunResult | typeof AGAIN;

const RUN_OVER = new HoldfastError("The run is over.", { code: "HF_RUN_OVER" });
const EVICTED = new HoldfastError("The run leaves this process.", { code: "HF_EVICTED" });

export class Session implements LiveRun {
  readonly #options: SessionOptions;
  readonly #namespace: Namespace;
  readonly result: Promise<RunResult>;
  /** The run is in storage: it can be sent to. */
  readonly begun: Promise<void>;
  #onBegun: () => void = () => {};
  readonly #parkedWaiters = new Set<(result: RunResult) => void>();
  readonly #inbox = new Inbox();
  #storage: Storage;
  // Of the execution in hand:
  #head: Head;
  #executor: Executor;
  #effects: Effects;
  #post: Post;
  #bodies: BodyContext;
  #jobs: Job[] = [];
  /** Messages that have become jobs, or nothing: they leave with the turn that takes those. */
  #consumed: Consumed[] = [];
  readonly #used = new Set<string>();
  #openUpdates = new Set<string>();
  #rollingBack = false;
  /** It was there before this session. */
  #created = false;
  /** When the run is to be tried again as a whole (D10): until then no code runs. */
  #retryRunAt: number | undefined;
  // Of the session:
  /** What the driver's alarm is at, as far as this session knows. */
  #alarm: number | "unknown" | "none" = "unknown";
  /** When the last turn began. */
  #now: number;
  #changed = false;
  #onChange: (() => void) | undefined;
  #hinted = false;
  #evicted = false;
  /** Changes of the alarm, one after the other. */
  #alarms: Promise<void> = Promise.resolve();
  #terminated: { readonly reason?: string | undefined } | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#now = options.environment.now();
    this.#namespace = Namespace.of(options.driver);
    this.#namespace.live = this;
    this.#storage = new Storage(options.driver);
    this.#head = { id: options.id, workflow: "", execution: 0, attempt: 0, seed: "", input: "", createdAt: 0 };
    [this.#executor, this.#bodies, this.#effects, this.#post] = this.#createExecution();
    this.begun = new Promise((resolve) => {
      this.#onBegun = resolve;
    });
    this.result = this.#run();
    this.result.catch(() => {}); // who asks for it hears of it
  }

  // ── from outside ──

  /** A sender of this process has appended it. */
  receive(message: InboxMessage): void {
    this.#inbox.add([message]);
    this.#poke();
  }
  /** M1: once a message is acknowledged, the run is woken for it, whatever becomes of this process. */
  arm(): Promise<void> {
    return this.#alarmed(() => this.#armBefore(this.#options.environment.now()));
  }
  /** Look what there is to do. */
  wake(): void {
    this.#hinted = true;
    this.#poke();
  }
  /** Until it next has nothing to do, or is over. */
  idle(): Promise<RunResult> {
    const parked = new Promise<RunResult>((resolve) => this.#parkedWaiters.add(resolve));
    return Promise.race([parked, this.result]);
  }
  /** Leaves this process: nothing more is begun or written, and what runs is told. */
  async evict(): Promise<void> {
    this.#evicted = true;
    this.#effects.abandonAll(EVICTED);
    this.#poke();
    await this.result.catch(() => {});
  }
  readonly #poke = (): void => {
    this.#changed = true;
    this.#onChange?.();
  };
  /** Until something has changed, or is due. */
  async #change(): Promise<void> {
    if (!this.#changed) {
      const timer = this.#timer();
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
      });
      this.#onChange = undefined;
      timer?.cancel();
    }
    this.#changed = false;
  }
  #timer(): Timer | undefined {
    const { environment } = this.#options;
    const due = this.#nextDue();
    return due === undefined ? undefined : environment.after(due - environment.now(), this.#poke);
  }
  #nextDue(): number | undefined {
    if (this.#retryRunAt !== undefined) return this.#retryRunAt;
    return earlier(this.#effects.nextDue, this.#post.nextAt);
  }

  // ── its life ──

  async #run(): Promise<RunResult> {
    const untolerate = tolerateRejections();
    const unwatch = this.#options.driver.watch(() => this.wake());
    try {
      let ending: Ending = AGAIN;
      while (ending === AGAIN) ending = await this.#execute();
      return ending;
    } finally {
      unwatch();
      this.#drop(RUN_OVER);
      this.#retire();
      this.#onBegun();
      untolerate();
    }
  }
  /** From here on messages find nobody home, and wake the run by its alarm. */
  #retire(): void {
    if (this.#namespace.live === this) this.#namespace.live = undefined;
  }
  /** The executor goes; user code hears nothing of it (X10). */
  #drop(reason: unknown): void {
    this.#effects.abandonAll(reason);
    void this.#executor.activate({ time: 0, jobs: [{ type: "evict" }] });
  }

  /** One execution, as far as it can be advanced with one executor. */
  async #execute(): Promise<Ending> {
    this.#putBack();
    this.#storage = await Storage.load(this.#options.driver);
    this.#inbox.add(this.#storage.inbox);
    const { id, workflow, birth, environment } = this.#options;
    const head = this.#checkedHead();
    if (head === undefined && birth === undefined) return this.#refuseUnknown();
    this.#head = head ?? bear(this.#storage, id, workflow, birth as Birth, environment);
    this.#created = head !== undefined;
    if (this.#created) this.#onBegun();
    this.#retryRunAt = undefined;
    this.#jobs = [];
    this.#openUpdates = new Set();
    this.#rollingBack = false;
    [this.#executor, this.#bodies, this.#effects, this.#post] = this.#createExecution();
    const resumed = this.#isRecovered();
    if (isClosed(this.#storage.status?.status) && !resumed) return this.#closedAlready();
    const terminate = this.#inbox.peek().find(({ job }) => job.type === "terminate")?.job;
    if (terminate?.type === "terminate") return this.#terminate(terminate.reason); // before any code: it may be what blocks the run
    if (!serves(workflow, this.#head.version)) return this.#block(notServed(workflow, this.#head));
    const wait = await this.#waitForRetry(resumed);
    if (wait !== undefined) return wait;
    const failure = this.#storage.turnCount === 0 ? undefined : await this.#recover(resumed);
    if (failure !== undefined) return this.#block(failure);
    if (this.#storage.turnCount === 0) {
      if (this.#inbox.peek().some(({ job }) => job.type === "cancel")) return this.#cancelBeforeStart();
      this.#jobs.push(this.#startJob(), ...this.#firstSignals());
    }
    return this.#loop();
  }
  /** Messages that the execution before had taken for a turn that it did not come to: they are still stored, and are taken again. */
  #putBack(): void {
    for (const { message, key } of this.#consumed) {
      this.#inbox.forget(message);
      if (key !== undefined) this.#used.delete(key);
    }
    this.#consumed = [];
  }
  #createExecution(): [Executor, BodyContext, Effects, Post] {
    const { workflow, codec, logger, limits, environment, turnTimeout, activities, router } = this.#options;
    const storage = this.#storage;
    const executor = new Executor({ workflow, codec, logger, limits, elapsed: environment.elapsed, turnTimeout });
    const { id: runId, execution, deadlineAt } = this.#head;
    const attemptsOf = (seq: number) => storage.attemptsOf(seq);
    const bodies: BodyContext = { runId, execution, executor, codec, activities, router, attemptsOf };
    const onChange = this.#poke;
    return [
      executor,
      bodies,
      new Effects({ environment, storage, bodies, deadlineAt, onChange }),
      new Post({ storage, router, environment, logger, runId, onChange }),
    ];
  }

  // ── its beginning ──

  #checkedHead(): Head | undefined {
    const { head } = this.#storage;
    const { id, workflow } = this.#options;
    if (head === undefined) return undefined;
    if (head.id !== id) throw new WrongNamespaceError({ expected: `run "${id}"`, found: `run "${head.id}"` });
    if (head.workflow !== workflow.name) {
      throw new WrongNamespaceError({ expected: `a run of workflow "${workflow.name}"`, found: `one of "${head.workflow}"` });
    }
    return head;
  }
  /** An alarm for it may be left of a start that came to nothing. */
  async #refuseUnknown(): Promise<never> {
    const { driver, id } = this.#options;
    await driver.clearAlarm(id);
    throw new RunNotFoundError({ runId: id });
  }
  #startJob(): StartJob {
    const { id, workflow, version, input, seed, execution, attempt, parent, retry, createdAt } = this.#head;
    return {
      type: "start",
      runId: id,
      workflow,
      version,
      input,
      seed,
      startedAt: createdAt,
      execution,
      attempt,
      parentId: parent?.runId,
      retry,
    };
  }
  #firstSignals(): SignalJob[] {
    const { birth, environment } = this.#options;
    if (birth === undefined || this.#created) return []; // those of a run that was created before are among its messages
    return birth.signals.map(({ name, payload }) => ({ type: "signal", id: environment.uuid(), name, payload }));
  }
  /** K9: nothing has run yet, and nothing will. */
  #cancelBeforeStart(): Promise<RunResult> {
    const cancel = this.#inbox.peek().find(({ job }) => job.type === "cancel")?.job as { reason?: string } | undefined;
    return this.#closeWithoutCode({ type: "canceled", ...(cancel?.reason !== undefined && { reason: cancel.reason }) });
  }

  // ── going on ──

  /** Somebody asked for it to be tried again. */
  #isRecovered(): boolean {
    const { status, end } = this.#storage;
    const resumable = status?.status === "failed" && end?.resumable === true;
    if (isClosed(status?.status) && !resumable) return false;
    return this.#inbox.peek().some(({ job }) => job.type === "recover");
  }
  /** D10: until its time has come, a run that failed as a whole runs no code. Messages wait with it. */
  async #waitForRetry(resumed: boolean): Promise<Ending | undefined> {
    const { turns } = this.#storage;
    const fail = lastFailure(turns);
    if (fail?.retryAfter === undefined || isClosed(this.#storage.status?.status)) return undefined;
    const retryAt = (turns.at(-1)?.time ?? 0) + fail.retryAfter;
    const overruled = () =>
      this.#inbox.peek().some(({ job }) => job.type === "cancel" || job.type === "terminate" || job.type === "recover");
    if (resumed || overruled() || retryAt <= this.#options.environment.now()) return undefined;
    this.#retryRunAt = retryAt;
    for (;;) {
      if (this.#evicted) return this.#leave();
      if (this.#hinted) await this.#look();
      if (overruled() || retryAt <= this.#options.environment.now()) break;
      this.#changed = false;
      const parked = await this.#park();
      if (this.#changed || this.#hinted) continue;
      if (this.#options.mode === "yield") {
        this.#retire();
        return parked;
      }
      this.#tellParked(parked);
      await this.#change();
    }
    this.#retryRunAt = undefined;
    return undefined;
  }
  async #recover(resumed: boolean): Promise<Error | undefined> {
    const { turns, turnCount } = this.#storage;
    this.#rollingBack = turns.some(({ commands }) => commands.some(({ type }) => type === "rollBack"));
    for (const { commands } of turns) for (const command of commands) this.#trackUpdate(command);
    let view = replayView(turns);
    const fail = lastFailure(turns);
    if (fail !== undefined && (resumed || fail.retryAfter !== undefined)) {
      // The run was failed, or waited: it is another attempt of it that goes on.
      const job: Job = { type: "resume", attempt: this.#head.attempt + 1, voids: fail.causes ?? [] };
      this.#head = { ...this.#head, attempt: this.#head.attempt + 1 };
      const turn: Turn = { index: turnCount, time: 0, historyLength: 0, jobs: [job], commands: [] };
      view = replayView([...turns, turn]).slice(0, -1);
      this.#jobs.push(job);
      this.#storage.setHead(this.#head);
      this.#storage.clearEnd();
    }
    await this.#freshMacrotask();
    const completion = await this.#executor.replay(view);
    if (completion.status === "failed") return completion.error;
    this.#effects.restore(this.#executor, turns);
    if (this.#jobs[0]?.type === "resume") this.#effects.forgive(this.#jobs[0].voids, Number.MAX_SAFE_INTEGER);
    const open = new Set(this.#executor.openOperations);
    return this.#unsupportedIn(turns.flatMap(({ commands }) => commands.filter((command) => "n" in command && open.has(command.seq))));
  }
  /** X8: no foreign continuation runs in the microtasks of a turn. */
  #freshMacrotask(): Promise<void> {
    return new Promise((resolve) => this.#options.environment.soon(resolve));
  }
  #unsupportedIn(commands: readonly Command[]): Error | undefined {
    for (const command of commands) {
      const problem = "n" in command ? unsupported(command, this.#bodies) : undefined;
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  // ── the pipeline ──

  async #loop(): Promise<Ending> {
    let freed = this.#executor.hasWork;
    for (;;) {
      if (this.#evicted) return this.#leave();
      if (this.#hinted) await this.#look();
      if (this.#inbox.size > 0) await this.#takeMessages();
      if (this.#terminated !== undefined) return this.#terminate(this.#terminated.reason);
      this.#jobs.push(...this.#effects.takeJobs());
      this.#post.deliver();
      if (this.#jobs.length > 0 || freed) {
        freed = false;
        const ending = await this.#turn();
        if (ending !== undefined) return ending;
      } else if (this.#effects.pending || this.#consumed.length > 0) await this.#write(undefined);
      else if (this.#effects.inFlight > 0 || this.#post.busy) await this.#change();
      else {
        const parked = await this.#park();
        if (this.#missed) continue; // D9
        if (this.#options.mode === "yield") {
          this.#retire();
          return parked;
        }
        this.#tellParked(parked);
        await this.#change();
      }
    }
  }
  #tellParked(result: RunResult): void {
    for (const tell of this.#parkedWaiters) tell(result);
    this.#parkedWaiters.clear();
  }
  /** There is something to do after all. */
  get #missed(): boolean {
    return this.#inbox.size > 0 || this.#hinted || this.#evicted || this.#effects.pending || this.#isDue();
  }
  #isDue(): boolean {
    const due = this.#nextDue();
    return due !== undefined && due <= this.#options.environment.now();
  }

  /** Messages that others may have appended. */
  async #look(): Promise<void> {
    this.#hinted = false;
    const entries = await this.#options.driver.list(PREFIX.messages);
    this.#inbox.add(entries.map(({ key, value }) => ({ ...(decode(value) as Message), at: key })));
  }
  async #takeMessages(): Promise<void> {
    for (const message of this.#inbox.take()) {
      const { key } = message;
      if (key !== undefined && (await this.#wasUsed(key))) {
        await this.#sentBefore(message);
        this.#consumed.push({ message, job: undefined, key: undefined });
      } else {
        const job = await this.#jobOf(message);
        if (job !== undefined) this.#jobs.push(job);
        this.#consumed.push({ message, job, key });
      }
    }
  }
  async #wasUsed(key: string): Promise<boolean> {
    if (this.#used.has(key)) return true;
    if ((await this.#options.driver.get(usedKey(key))) !== undefined) return true;
    this.#used.add(key);
    return false;
  }
  /** M3, M10: no second delivery; who sent it again gets the outcome of the first, if that is there. */
  async #sentBefore({ job }: InboxMessage): Promise<void> {
    const outcome = job.type === "update" ? await this.#namespace.updateOutcome(job.id) : undefined;
    if (job.type === "update" && outcome !== undefined) this.#namespace.tellUpdate(job.id, outcome);
  }
  async #jobOf({ job }: InboxMessage): Promise<Job | undefined> {
    const { workflow, codec } = this.#options;
    switch (job.type) {
      case "signal":
        return checkedSignal(workflow, job, codec); // M13
      case "update":
      case "cancel":
        return job;
      case "resolve": {
        const { type, seq, outcome, execution } = job;
        this.#storage.removeChild(execution, seq);
        return execution === this.#head.execution ? { type, seq, outcome } : undefined; // P10
      }
      case "terminate":
        this.#terminated ??= job;
        return undefined;
      case "recover":
        this.#effects.hurry();
        return undefined;
    }
  }

  async #turn(): Promise<Ending | undefined> {
    await this.#freshMacrotask();
    if (this.#evicted) return undefined;
    // What has become ready by now shares the turn: steps that end together cost one batch.
    this.#jobs.push(...this.#effects.takeJobs());
    const jobs = this.#jobsOfTurn();
    this.#now = Math.max(0, Math.ceil(this.#options.environment.now())); // as it is recorded: whole milliseconds
    const activation: Activation = { time: this.#now, jobs, historyLength: this.#storage.historyLength };
    const completion = await this.#executor.activate(activation);
    if (this.#evicted) return undefined;
    if (completion.status === "failed") return this.#block(completion.error);
    const problem = this.#unsupportedIn(completion.commands);
    if (problem !== undefined) return this.#block(problem);
    return this.#write({ activation, completion });
  }

  /** All that is ready; where batches are bounded, only as much as leaves half of one to what the turn decides. The rest is the next turn's. */
  #jobsOfTurn(): Job[] {
    const { maxBatchBytes = Number.POSITIVE_INFINITY, maxBatchWrites = Number.POSITIVE_INFINITY } = this.#options.driver;
    const jobs = this.#jobs;
    let taken = jobs.length;
    if (maxBatchBytes < Number.POSITIVE_INFINITY || maxBatchWrites < Number.POSITIVE_INFINITY) {
      let bytes = 0;
      let writes = 0;
      taken = jobs.findIndex((job, i) => {
        bytes += roughSize(job);
        writes += roughWrites(job);
        return i > 0 && (bytes > maxBatchBytes / 2 || writes > maxBatchWrites / 2);
      });
      if (taken < 0) taken = jobs.length;
    }
    this.#jobs = jobs.slice(taken);
    return taken === jobs.length ? jobs : jobs.slice(0, taken);
  }

  /** One batch: what a turn decided, if there was one, and what has happened to attempts. */
  async #write(given: { activation: Activation; completion: Completion & { status: "ok" } } | undefined): Promise<Ending | undefined> {
    const storage = this.#storage;
    const consumed = this.#consume();
    const turn = given === undefined ? undefined : recordTurn(storage.turnCount, storage.historyLength, given.activation, given.completion);
    const jobs = given?.activation.jobs ?? [];
    const starting = this.#effects.prepare(jobs);
    const outcomes = given === undefined ? [] : this.#updatesOf(given.completion);
    for (const { id, outcome } of outcomes) storage.setUpdate(id, outcome);
    const terminal = given === undefined ? undefined : this.#record(turn, given.activation, given.completion);
    let ending: Ending | undefined;
    if (terminal !== undefined) ending = this.#close(terminal, turn?.time ?? this.#options.environment.now(), outcomes);
    else this.#putStatus(starting.length > 0 || (turn?.commands.some((command) => "n" in command && isEffect(command)) ?? false));
    try {
      await this.#flush();
    } catch (error) {
      if (isTooLarge(error)) return this.#block(error);
      throw error;
    }
    for (const message of consumed) {
      this.#inbox.forget(message);
      if (message.key !== undefined) this.#used.delete(message.key); // it is stored now
    }
    for (const { id, outcome } of outcomes) this.#namespace.tellUpdate(id, outcome);
    if (ending !== undefined) return this.#closed(ending);
    if (this.#evicted) return undefined;
    this.#begin(turn, starting);
    return undefined;
  }
  /** M7: what goes with this batch. A message whose job is left for the next turn stays until then. */
  #consume(): InboxMessage[] {
    if (this.#consumed.length === 0) return [];
    const later = new Set(this.#jobs);
    const now = this.#consumed.filter(({ job }) => job === undefined || !later.has(job));
    this.#consumed = this.#consumed.filter(({ job }) => job !== undefined && later.has(job));
    for (const { message, key } of now) {
      this.#storage.consume(message);
      if (key !== undefined) this.#storage.markUsed(key);
    }
    return now.map(({ message }) => message);
  }
  /** The turn and what follows from its commands; effects wait for the batch. */
  #record(turn: Turn | undefined, activation: Activation, { commands, state }: Completion & { status: "ok" }): TerminalCommand | undefined {
    const storage = this.#storage;
    for (const job of activation.jobs)
      if (job.type === "resolve" || job.type === "fire" || job.type === "childStarted") this.#effects.settled(job.seq);
    if (turn !== undefined) storage.appendTurn(turn);
    if (state !== undefined) storage.setState(state);
    const time = turn?.time ?? activation.time;
    let terminal: TerminalCommand | undefined;
    for (const command of commands) {
      this.#trackUpdate(command);
      if ("n" in command) this.#effects.opened(command, time);
      switch (command.type) {
        case "settle":
          this.#effects.settled(command.seq);
          break;
        case "cancel":
          this.#cancelOperation(command.seq, command.join === true);
          break;
        case "child":
          storage.putChild(command.seq, { runId: command.id, parentClose: command.parentClose ?? "cancel" });
          break;
        case "attributes":
          storage.mergeAttributes(command.attributes);
          break;
        case "rollBack":
          this.#rollingBack = true;
          break;
        case "complete":
        case "fail":
        case "canceled":
        case "continueAsNew":
          terminal = command;
          break;
        default:
          break; // records only
      }
    }
    return terminal;
  }
  /** C7: a step is told after the batch; a child is asked to cancel. */
  #cancelOperation(seq: number, join: boolean): void {
    if (!join) this.#effects.settled(seq);
    const { execution, id } = this.#head;
    const child = this.#storage.children.find((one) => one.execution === execution && one.seq === seq);
    if (child !== undefined) this.#storage.putLetter({ type: "cancel", runId: child.runId, reason: `its parent ${id} gave it up` });
  }
  #begin(turn: Turn | undefined, starting: readonly { seq: number; number: number }[]): void {
    for (const { seq, number } of starting) this.#effects.begin(seq, number);
    for (const command of turn?.commands ?? []) {
      if (command.type === "cancel") this.#effects.cancel(command.seq, command.join === true);
      else if ("n" in command && isEffect(command)) this.#effects.begin(command.seq, 1);
    }
  }

  // ── updates ──

  #trackUpdate(command: Command): void {
    if (command.type === "acceptUpdate") this.#openUpdates.add(command.id);
    else if (command.type === "completeUpdate") this.#openUpdates.delete(command.id);
  }
  #updatesOf({ commands, replies }: Completion & { status: "ok" }): { id: string; outcome: UpdateOutcome }[] {
    const outcomes: { id: string; outcome: UpdateOutcome }[] = [];
    for (const reply of replies)
      if (reply.type === "rejectUpdate") outcomes.push({ id: reply.id, outcome: { status: "rejected", error: reply.error } });
    for (const command of commands) {
      if (command.type !== "completeUpdate") continue;
      const { id, value, error } = command;
      const outcome: UpdateOutcome =
        error === undefined && value !== undefined
          ? { status: "completed", value }
          : { status: "failed", error: error ?? { name: "Error", message: "The update has no reply." } };
      outcomes.push({ id, outcome });
    }
    return outcomes;
  }

  // ── writing ──

  #putStatus(begins: boolean): void {
    const comes = this.#jobs.length > 0 || this.#inbox.size > 0 || this.#effects.pending;
    if (begins || comes || this.#effects.inFlight > 0 || this.#post.pending) {
      this.#storage.setStatus({ status: this.#rollingBack ? "rolling_back" : "running" });
    } else this.#storage.setStatus(this.#parkedStatus());
  }
  #parkedStatus(): Status {
    const retryRunAt = this.#retryRunAt;
    const status = this.#rollingBack && retryRunAt === undefined ? "rolling_back" : "sleeping";
    const waitingFor = retryRunAt === undefined ? this.#effects.waitingFor(this.#executor) : [`another attempt at ${isoTime(retryRunAt)}`];
    return { status, wakeAt: this.#nextDue(), waitingFor };
  }
  async #flush(): Promise<void> {
    if (!this.#storage.dirty) return;
    try {
      const at = this.#alarmFor(this.#storage.status);
      if (at !== undefined && !this.#isArmed(at)) await this.#alarmed(() => this.#armBefore(at));
      await this.#storage.flush();
      this.#onBegun();
    } catch (cause) {
      if (isTooLarge(cause)) throw cause;
      // biome-ignore lint/style/useErrorCause: it is among the details
      throw new KvWriteError({ runId: this.#options.id, cause });
    }
  }
  /** The alarm that a status needs stands before the status does: a crash in between costs a wake-up, not the run. */
  #alarmFor(status: Status | undefined): number | undefined {
    if (status === undefined || isClosed(status.status)) return undefined;
    return status.waitingFor === undefined ? this.#now : status.wakeAt;
  }
  #isArmed(at: number): boolean {
    return typeof this.#alarm === "number" && this.#alarm <= at;
  }
  #alarmed(change: () => Promise<void>): Promise<void> {
    const done = this.#alarms.then(change);
    this.#alarms = done.catch(() => {});
    return done;
  }
  /** An alarm at that time or earlier. */
  async #armBefore(at: number): Promise<void> {
    if (this.#isArmed(at)) return;
    await this.#options.driver.setAlarm(this.#options.id, at);
    this.#alarm = at;
  }
  /** The alarm of a run that is left alone: just then, or never. Not if a message has come meanwhile: that is what it stands for then. */
  #setAlarm(at: number | undefined): Promise<void> {
    return this.#alarmed(async () => {
      const { driver, id } = this.#options;
      if (this.#alarm === (at ?? "none") || (this.#inbox.size > 0 && this.#retryRunAt === undefined)) return;
      await (at === undefined ? driver.clearAlarm(id) : driver.setAlarm(id, at));
      this.#alarm = at ?? "none";
    });
  }

  /** Nothing can advance: says so, if that is news, and sees to it that the run is woken when something can. */
  async #park(): Promise<RunResult> {
    const status = this.#parkedStatus();
    this.#storage.setStatus(status);
    await this.#flush();
    await this.#setAlarm(status.wakeAt);
    return resultOf(status, undefined, this.#options.codec);
  }
  /** Evicted: the alarm stands where it stood, so that whoever has the run next knows when. */
  #leave(): RunResult {
    const wakeAt = typeof this.#alarm === "number" ? this.#alarm : this.#storage.status?.wakeAt;
    return { status: "sleeping", ...(wakeAt !== undefined && { wakeAt }), waitingFor: this.#effects.waitingFor(this.#executor) };
  }

  // ── the end ──

  #close(command: TerminalCommand, time: number, outcomes: { id: string; outcome: UpdateOutcome }[]): Ending {
    const { deadlineAt } = this.#head;
    if (command.type === "fail" && command.retryAfter !== undefined) {
      const retryAt = time + command.retryAfter;
      if (deadlineAt === undefined || retryAt < deadlineAt) {
        this.#retryRunAt = retryAt; // D10: it goes on as another attempt, if in time (K7)
        this.#storage.setStatus(this.#parkedStatus());
        return AGAIN;
      }
    }
    if (command.type === "continueAsNew") return this.#continue(command);
    this.#end(command, outcomes);
    return resultOf(this.#storage.status ?? { status: "completed" }, this.#storage.end, this.#options.codec);
  }
  /** Status, end, and word for those whom it concerns. */
  #end(
    command: Exclude<TerminalCommand, { type: "continueAsNew" }> | { type: "terminated"; reason?: string },
    outcomes: { id: string; outcome: UpdateOutcome }[],
  ): void {
    const storage = this.#storage;
    const status = STATUS_OF[command.type];
    storage.setStatus({ status });
    switch (command.type) {
      case "complete":
        storage.setEnd({ value: command.value });
        break;
      case "fail": {
        const { error, rollbackError, rolledBack } = command;
        storage.setEnd({
          error: rollbackError === undefined ? error : { ...error, data: { rollbackError } },
          resumable: rolledBack !== true,
        });
        break;
      }
      case "canceled":
        storage.setEnd({ value: command.value, error: command.error, reason: command.reason });
        break;
      case "terminated": {
        const { id: runId } = this.#head;
        const { reason } = command;
        storage.setEnd({ error: serializeError(new RunTerminatedError(reason === undefined ? { runId } : { runId, reason })), reason });
        break;
      }
    }
    this.#refuseOpen(status, outcomes);
    this.#tellFamily();
  }
  /** M10: no caller waits for ever. */
  #refuseOpen(status: RunStatus, outcomes: { id: string; outcome: UpdateOutcome }[]): void {
    for (const id of this.#openUpdates) {
      const outcome: UpdateOutcome = { status: "failed", error: this.#closedError(status) };
      outcomes.push({ id, outcome });
      this.#storage.setUpdate(id, outcome);
    }
    this.#openUpdates.clear();
  }
  #closedError(status: RunStatus): SerializedError {
    return serializeError(new RunClosedError({ runId: this.#head.id, status }));
  }
  /** Of a run that is over: messages that nobody will take go, and callers hear of it. If this is cut short, the next wake-up does the rest. */
  async #refuseLeftovers(status: RunStatus): Promise<void> {
    const { maxBatchBytes, maxBatchWrites } = this.#options.driver;
    const left = [...this.#consumed.splice(0).map(({ message }) => message), ...this.#inbox.take()];
    const atOnce = maxBatchBytes === undefined && maxBatchWrites === undefined ? left.length : 1;
    for (let at = 0; at < left.length; at += atOnce) {
      const outcomes: { id: string; outcome: UpdateOutcome }[] = [];
      for (const message of left.slice(at, at + atOnce)) {
        this.#storage.consume(message);
        if (message.job.type === "update")
          outcomes.push({ id: message.job.id, outcome: { status: "rejected", error: this.#closedError(status) } });
      }
      for (const { id, outcome } of outcomes) this.#storage.setUpdate(id, outcome);
      await this.#flush();
      for (const { id, outcome } of outcomes) this.#namespace.tellUpdate(id, outcome);
    }
  }
  /** K6: children follow their parentClose, the parent hears of it. */
  #tellFamily(): void {
    const storage = this.#storage;
    const reason = `its parent ${this.#head.id} has ended`;
    for (const { execution, seq, runId, parentClose } of storage.children) {
      if (parentClose !== "abandon") storage.putLetter({ type: parentClose, runId, reason });
      storage.removeChild(execution, seq);
    }
    const { parent } = this.#head;
    if (parent !== undefined) storage.putLetter({ type: "ended", parent, outcome: this.#outcome() });
  }
  /** Of the run, as its parent's operation sees it. */
  #outcome(): Outcome {
    const { status, end } = this.#storage;
    if (status?.status === "completed") return { status: "completed", value: end?.value ?? this.#options.codec.encode(undefined) };
    if (status?.status === "canceled") return { status: "canceled", ...(end?.reason !== undefined && { reason: end.reason }) };
    return { status: "failed", error: end?.error ?? { name: "Error", message: `The run ${this.#head.id} ended as ${status?.status}.` } };
  }
  /** P10: the next execution, in the batch that ends this one. What nobody consumed stays, in front of what has come since. */
  #continue({ input, version, signals }: Extract<TerminalCommand, { type: "continueAsNew" }>): Ending {
    const { environment, codec, mode } = this.#options;
    const head = { ...this.#head, input, execution: this.#head.execution + 1, attempt: 1, seed: environment.uuid() };
    this.#storage.continue(version === undefined ? head : { ...head, version });
    this.#storage.setStatus({ status: "pending", wakeAt: environment.now() });
    for (const [i, { id, name, payload }] of (signals ?? []).entries()) {
      this.#storage.putMessage(messageKey(0, i, "carried"), { job: { type: "signal", id, name, payload } });
    }
    return mode === "live" ? AGAIN : { status: "continued", input: codec.decode(input) };
  }
  /** After the last batch of an execution. */
  async #closed(ending: Ending): Promise<Ending> {
    this.#drop(RUN_OVER);
    if (ending === AGAIN || ending.status === "continued") return ending;
    await this.#refuseLeftovers(this.#storage.status?.status ?? "completed");
    await this.#settlePost();
    return ending;
  }
  /** Word for others goes out before the run is over here; what can't be delivered now is, at a later wake-up. */
  async #settlePost(): Promise<void> {
    if (this.#storage.outbox.size > 0) {
      await this.#post.settle();
      const { nextAt } = this.#post;
      if (nextAt !== undefined) await this.#alarmed(() => this.#armBefore(nextAt));
      await this.#flush();
    }
    await this.#setAlarm(this.#storage.outbox.size > 0 ? this.#post.nextAt : undefined);
  }
  /** It has ended before; messages that came too late go, and word that was not delivered does. */
  async #closedAlready(): Promise<RunResult> {
    const status = this.#storage.status ?? { status: "completed" as const };
    await this.#refuseLeftovers(status.status);
    await this.#settlePost();
    return resultOf(status, this.#storage.end, this.#options.codec);
  }
  /** K6: ends it at once, running no workflow code. */
  #terminate(reason: string | undefined): Promise<RunResult> {
    return this.#closeWithoutCode({ type: "terminated", ...(reason !== undefined && { reason }) });
  }
  async #closeWithoutCode(command: { type: "terminated" | "canceled"; reason?: string }): Promise<RunResult> {
    const outcomes: { id: string; outcome: UpdateOutcome }[] = [];
    this.#end(command, outcomes);
    await this.#flush();
    for (const { id, outcome } of outcomes) this.#namespace.tellUpdate(id, outcome);
    const result = resultOf(this.#storage.status ?? { status: "terminated" }, this.#storage.end, this.#options.codec);
    return (await this.#closed(result)) as RunResult;
  }

  /** V4: the run is unharmed; it is tried again later, or with other code. */
  async #block(error: Error): Promise<RunResult> {
    const { driver, logger, environment, workflow, id } = this.#options;
    this.#drop(error);
    logger.error(`Run ${id} is blocked: ${error.message}`, { runId: id, workflow: workflow.name, error });
    const stored = serializeError(error);
    // An error with all it carries may itself be more than a batch takes: then what it says has to do, or that there is one.
    const { name, message, code } = { code: undefined, ...stored };
    let wakeAt: number | undefined;
    for (const told of [stored, { name, message: message.slice(0, 200), ...(typeof code === "string" && { code }) }]) {
      const storage = await Storage.load(driver); // what this turn would have changed is forgotten
      this.#storage = storage;
      if (storage.head === undefined) storage.setHead(this.#head);
      const times = (storage.status?.times ?? 0) + 1;
      wakeAt = environment.now() + Math.min(1_000 * 2 ** (times - 1), 300_000);
      storage.setStatus({ status: "blocked", wakeAt, waitingFor: [`code that can advance it (${name})`], error: told, times });
      try {
        await this.#flush();
        break;
      } catch (failure) {
        if (!isTooLarge(failure)) throw failure;
      }
    }
    await this.#setAlarm(wakeAt);
    return { status: "blocked", error, ...(wakeAt !== undefined && { wakeAt }) };
  }
}

const STATUS_OF = { complete: "completed", fail: "failed", canceled: "canceled", terminated: "terminated" } as const;

function isTooLarge(error: unknown): error is LimitExceededError {
  return error instanceof LimitExceededError;
}
/** Of the key and value of a job, in bytes, with room to spare. */
function roughSize(job: Job): number {
  const payload =
    job.type === "resolve" ? (job.outcome.status === "completed" ? job.outcome.value : JSON.stringify(job.outcome)) : JSON.stringify(job);
  return 64 + payload.length * (typeof payload === "string" ? 3 : 1);
}
/** How many keys a job is likely to cost with what follows from it: a message is deleted, its key kept, it is recorded, taken, answered. */
function roughWrites({ type }: Job): number {
  return type === "update" ? 8 : type === "signal" ? 5 : 2;
}
function lastFailure(turns: readonly Turn[]) {
  const last = turns.at(-1)?.commands.at(-1);
  return last?.type === "fail" ? last : undefined;
}
function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.min(a, b);
}
function notServed(workflow: AnyWorkflow, head: Head): HoldfastError {
  return new HoldfastError(
    `Run "${head.id}" was started with version ${head.version ?? "none"} of workflow "${workflow.name}"; the code at hand is ${workflow.version ?? "none"} and does not serve it.\n` +
      "Run it with code of that version, or name the version in `serves`.",
    { code: "HF_KV_VERSION_NOT_SERVED" },
  );
}
