// One run in the memory of this process: load the stored data, collect jobs, run a turn, write a batch, begin effects, repeat.
// Owns: the order of these, from the moment the run begins here until it has ended, is parked, blocked or evicted.
// Invariants: D1 (effects begin after the batch that records them), D2 H2 (one atomic batch per turn), D5 (it parks only when nothing is in
// flight), D9 (no message is missed while it parks), H1, K5 K9, V4.

import {
  type Activation,
  type CanceledCommand,
  type Completion,
  HoldfastError,
  RunNotFoundError,
  recordTurn,
  type SignalJob,
  type TerminalCommand,
} from "@holdfast/core";
import { checkedSignal, serves, tolerateRejections, type UpdateAnswer, updateAnswers } from "@holdfast/host";
import { waitingWords } from "@holdfast/host/attempts";
import type { Timer } from "../environment.ts";
import { WrongNamespaceError } from "../errors.ts";
import { type LiveRun, Namespace } from "../messages/namespace.ts";
import { isClosed, type RunResult, resultOf } from "../results.ts";
import { isTooLarge, jobsThatFit } from "../storage/batchLimits.ts";
import type { Head, InboxMessage } from "../storage/contents.ts";
import { Storage } from "../storage/storage.ts";
import { settleAfterEnd } from "./afterClose.ts";
import { notServed, storeBlocked } from "./blocking.ts";
import { Closing, isBeginning } from "./closing.ts";
import { expired, isOverdue, mayRollBack } from "./deadline.ts";
import { type ClosingCommand, close, continueAsNew, endWants, retryTime as retryTimeAfter } from "./endings.ts";
import { Execution } from "./execution.ts";
import { Flusher } from "./flusher.ts";
import { Intake } from "./intake.ts";
import { headOf, storeNewRun } from "./newRun.ts";
import { isRecovered, recover, retryTime, takeBack, trackUpdates } from "./recovery.ts";
import type { Settings } from "./settings.ts";
import { begin, beginsOperations, record } from "./turns.ts";
import { keptBy } from "./updates.ts";
import { WakeFlag } from "./wakeFlag.ts";
import { startWatching, type Watching } from "./watching.ts";

/** The execution's executor can't be used any more, but the run continues with another one. */
const AGAIN = Symbol("again");
type Ending = RunResult | typeof AGAIN;

/** A turn that has run and is not written yet. */
interface Taken {
  readonly activation: Activation;
  readonly completion: Completion & { status: "ok" };
}

const RUN_OVER = new HoldfastError("The run is over.", { code: "HF_RUN_OVER" });
const EVICTED = new HoldfastError("The run leaves this process.", { code: "HF_EVICTED" });

/** What began this session. A session begun by an update runs only as long as the run advances, and does not prevent a start. */
export type BegunBy = "start" | "wake" | "update";

export class Session implements LiveRun {
  readonly begunBy: BegunBy;
  readonly #settings: Settings;
  readonly #namespace: Namespace;
  readonly #intake: Intake;
  readonly #flusher: Flusher;
  readonly #closing: Closing;
  readonly #wake = new WakeFlag();
  readonly result: Promise<RunResult>;
  /** Resolves once the run is in storage, so that it can receive messages. */
  readonly begun: Promise<void>;
  #onBegun: () => void = () => {};
  #idlers: { readonly resolve: (result: RunResult) => void; readonly reject: (error: unknown) => void }[] = [];
  #execution: Execution | undefined;
  #watching: Watching | undefined;
  #evicted = false;
  #blocked = false;

  constructor(settings: Settings, begunBy: BegunBy) {
    this.#settings = settings;
    this.begunBy = begunBy;
    this.#namespace = Namespace.of(settings.driver);
    this.#namespace.live = this;
    this.#intake = new Intake(settings, this.#namespace);
    this.#flusher = new Flusher(settings, this.#namespace, () => this.#onBegun());
    this.#closing = new Closing(this.#intake, this.#flusher);
    this.begun = new Promise((resolve) => {
      this.#onBegun = () => {
        this.#onBegun = () => {}; // once only: Node inspects every further call of a promise's resolve
        resolve();
      };
    });
    this.result = this.#run();
    this.result.then(this.#tellIdlers, (error: unknown) => {
      for (const { reject } of this.#idlers) reject(error);
    });
  }

  // ── called from outside ──

  /** A sender in this process has appended the message. */
  receive(message: InboxMessage, behind: Uint8Array | undefined): void {
    if (behind !== undefined && !this.#intake.knows(behind)) this.#intake.hint(); // H4: another process may have sent one without a hint
    this.#intake.add([message]);
    this.#wake.set();
  }
  /** M1: once a message is acknowledged, the run is woken for it, whatever happens to this process. */
  async arm(): Promise<void> {
    if (!this.#blocked) await this.#flusher.alarm.arm(this.#settings.environment.now());
  }
  get decided(): Promise<void> | undefined {
    return this.#closing.decided;
  }
  /** Checks for new work. */
  wake(): void {
    this.#intake.hint();
    this.#wake.set();
  }
  /** Resolves when the run next has nothing to do, or has ended. */
  idle(): Promise<RunResult> {
    return new Promise((resolve, reject) => {
      this.#idlers.push({ resolve, reject });
    });
  }
  /** Leaves this process: nothing more is begun or written, and running bodies are notified. */
  async evict(): Promise<void> {
    this.#evicted = true;
    this.#execution?.operations.abandonAll(EVICTED);
    this.#wake.set();
    await this.result.catch(() => {});
  }

  // ── lifecycle ──

  async #run(): Promise<RunResult> {
    const untolerate = tolerateRejections();
    const unwatch = this.#settings.driver.watch(() => this.wake());
    const { determinism, watchdog } = this.#settings;
    try {
      if (determinism !== "off" || watchdog !== undefined) this.#watching = await startWatching(this.#settings);
      let ending: Ending = AGAIN;
      while (ending === AGAIN) ending = await this.#execute();
      return ending;
    } finally {
      unwatch();
      this.#execution?.drop(RUN_OVER);
      this.#watching?.stop();
      this.#retire();
      this.#onBegun();
      this.#closing.over();
      untolerate();
    }
  }
  /** From here on messages find no live session, and wake the run by its alarm. */
  #retire(): void {
    if (this.#namespace.live === this) this.#namespace.live = undefined;
  }

  /** Advances one execution as far as one executor can. */
  async #execute(): Promise<Ending> {
    this.#intake.putBack();
    const storage = await Storage.load(this.#settings.driver, this.#settings.codec);
    this.#intake.add(storage.inbox);
    const isNew = storage.head === undefined;
    const head = this.#checkedHead(storage) ?? (await this.#storeNewRun(storage));
    if (!isNew) this.#onBegun();
    const execution = new Execution(this.#settings, storage, head, this.#watching, this.#wake.set);
    this.#execution = execution;
    const isResumed = isRecovered(storage, this.#intake);
    if (isClosed(storage.status?.status) && !isResumed) return this.#closedAlready(execution);
    const terminate = this.#intake.find("terminate");
    if (terminate !== undefined) return this.#terminate(execution, terminate); // before any code runs, because code may be what blocks the run
    const { workflow, environment } = this.#settings;
    if (!serves(workflow, head.version)) return this.#blockOrExpire(execution, notServed(workflow, head));
    const parked = await this.#waitForRetry(execution, isResumed);
    if (parked !== undefined) return parked;
    if (storage.turnCount === 0) {
      const cancel = this.#intake.find("cancel");
      if (cancel !== undefined) {
        this.#intake.takeAll("cancel");
        return this.#closeWithoutCode(execution, canceled(cancel.reason)); // K9: nothing has run yet
      }
      if (isOverdue(head, environment)) return this.#closeWithoutCode(execution, expired(head)); // K7: it is not begun
      execution.add([execution.startJob]);
      if (isNew) execution.add(await this.#firstSignals());
    } else {
      const failure = await recover(execution, isResumed);
      if (failure !== undefined) return this.#blockOrExpire(execution, failure);
    }
    return this.#advance(execution);
  }
  #checkedHead({ head }: Storage): Head | undefined {
    const { id, workflow } = this.#settings;
    if (head === undefined) return undefined;
    if (head.id !== id) throw new WrongNamespaceError({ expected: `run "${id}"`, found: `run "${head.id}"` });
    if (head.workflow !== workflow.name) {
      throw new WrongNamespaceError({ expected: `a run of workflow "${workflow.name}"`, found: `one of "${head.workflow}"` });
    }
    return head;
  }
  async #storeNewRun(storage: Storage): Promise<Head> {
    const { id, workflow, newRun, environment, driver } = this.#settings;
    if (newRun === undefined) {
      await driver.clearAlarm(id); // a failed start may have left one
      throw new RunNotFoundError({ runId: id });
    }
    const head = headOf(id, workflow, newRun, environment);
    storeNewRun(storage, head, newRun);
    return head;
  }
  /** M8: the signals of a run that begins here. Those of a run that was created before are among its messages. */
  #firstSignals(): Promise<SignalJob[]> {
    const { newRun, environment, workflow, codec } = this.#settings;
    const jobs = (newRun?.signals ?? []).map(({ name, payload }) => ({ type: "signal", id: environment.uuid(), name, payload }) as const);
    return Promise.all(jobs.map((job) => checkedSignal(workflow, job, codec, environment)));
  }
  /** D10: a failed run that waits for its retry runs no code. Its messages wait too. */
  async #waitForRetry(execution: Execution, isResumed: boolean): Promise<RunResult | undefined> {
    const retryAt = retryTime(execution.storage);
    if (retryAt === undefined || isResumed) return undefined;
    const { environment, mode } = this.#settings;
    const isOver = () =>
      retryAt <= environment.now() || (["cancel", "terminate", "recover"] as const).some((type) => this.#intake.find(type) !== undefined);
    execution.retryRunAt = retryAt;
    while (!isOver()) {
      if (this.#evicted) return this.#leave(execution);
      if (this.#intake.isHinted) {
        await this.#intake.look();
        continue;
      }
      this.#wake.clear();
      const parked = await this.#park(execution);
      if (this.#wake.isSet || this.#intake.isHinted || isOver()) continue;
      if (mode === "yield") {
        this.#retire();
        return parked;
      }
      this.#tellIdlers(parked);
      await this.#change(execution);
    }
    execution.retryRunAt = undefined;
    return undefined;
  }

  // ── turns ──

  async #advance(execution: Execution): Promise<Ending> {
    const { operations, outbox, executor } = execution;
    let isFreed = executor.hasWork;
    for (;;) {
      if (this.#evicted) return this.#leave(execution);
      if (this.#intake.isHinted) await this.#intake.look();
      if (this.#intake.waiting > 0) execution.add(await this.#intake.take(execution));
      if (this.#intake.terminated !== undefined) return this.#terminate(execution, this.#intake.terminated);
      if (execution.jobs.length === 0) execution.messagesFirst = false;
      if (!execution.messagesFirst) execution.add(operations.takeJobs());
      outbox.deliver();
      const isTurn = execution.jobs.length > 0 || isFreed || execution.isPatienceOver;
      if (isTurn || execution.hasNews || this.#intake.hasTaken) {
        isFreed = false;
        const ending = await (isTurn ? this.#turn(execution) : this.#write(execution, undefined));
        if (ending !== undefined) return ending;
      } else if (operations.inFlight > 0 || outbox.busy) await this.#change(execution);
      else {
        const parked = await this.#park(execution);
        if (this.#hasMissed(execution)) continue; // D9
        if (this.#settings.mode === "yield") {
          this.#retire();
          return parked;
        }
        this.#tellIdlers(parked);
        await this.#change(execution);
      }
    }
  }
  /** Whether there is something to do after all. */
  #hasMissed({ hasNews, isDue }: Execution): boolean {
    return this.#intake.waiting > 0 || this.#intake.isHinted || this.#evicted || hasNews || isDue;
  }
  readonly #tellIdlers = (result: RunResult): void => {
    const idlers = this.#idlers;
    this.#idlers = [];
    for (const { resolve } of idlers) resolve(result);
  };
  /** Waits until something has changed or is due. */
  #change(execution: Execution): Promise<void> {
    return this.#wake.wait((): Timer | undefined => {
      const { environment } = this.#settings;
      const due = execution.nextDue;
      return due === undefined ? undefined : environment.after(due - environment.now(), this.#wake.set);
    });
  }

  async #turn(execution: Execution): Promise<Ending | undefined> {
    const turn = await this.#settings.turnQueue.run(async () => {
      if (this.#evicted) return undefined;
      const activation = this.#activationOf(execution);
      return { activation, completion: await execution.executor.activate(activation) };
    });
    if (this.#evicted || turn === undefined) return undefined;
    const { activation, completion } = turn;
    if (completion.status === "failed") return this.#block(execution, completion.error);
    execution.executor.reportUnheard();
    const problem = execution.unsupportedIn(completion.commands);
    if (problem !== undefined) return this.#block(execution, problem);
    const wants = endWants(execution, completion, activation.time);
    if (wants !== undefined && !(await this.#closing.mayEnd(execution, activation.jobs, wants))) {
      const failure = await takeBack(execution, activation.jobs);
      return failure === undefined ? undefined : this.#block(execution, failure);
    }
    return this.#write(execution, { activation, completion });
  }

  #activationOf(execution: Execution): Activation {
    const { driver, environment } = this.#settings;
    // Everything that is ready by now shares the turn: steps that end together cost one batch.
    if (!execution.messagesFirst || execution.operations.isExpiring) execution.add(execution.operations.takeJobs());
    execution.messagesFirst = false;
    const jobs = execution.jobs.splice(0, jobsThatFit(execution.jobs, driver));
    // K7: a turn that gets the deadline's job runs no code, whatever other jobs it gets; every turn after the deadline gets it.
    const expiry = execution.jobs.findIndex(({ type }) => type === "expire");
    if (expiry >= 0) jobs.push(...execution.jobs.splice(expiry, 1));
    const offered = this.#intake.offer();
    if (offered.length > 0) jobs.splice(jobs.filter(isBeginning).length, 0, ...offered);
    const time = Math.max(execution.lastTime, Math.ceil(environment.now())); // history records whole milliseconds
    this.#flusher.turnTime = time;
    return { time, jobs, historyLength: execution.storage.historyLength };
  }

  /** Writes one batch: the decisions of a turn, if there was one, and what happened to attempts. */
  async #write(execution: Execution, taken: Taken | undefined): Promise<Ending | undefined> {
    const { storage, operations } = execution;
    if (taken !== undefined) this.#intake.keep(storage, keptBy(taken.completion));
    execution.acceptUntil = this.#intake.acceptUntil;
    const consumed = this.#intake.consume(storage, execution.jobs);
    const turn = taken === undefined ? undefined : recordTurn(storage.turnCount, storage.historyLength, taken.activation, taken.completion);
    const { rows, starting } = operations.prepare(taken?.activation.jobs ?? []);
    for (const { workerId: _, ...row } of rows) storage.putAttempt(row);
    const answers = taken === undefined ? [] : [...updateAnswers(taken.completion)];
    const now = this.#settings.environment.now();
    for (const { id, outcome } of answers) storage.setUpdate(id, outcome, now);
    if (answers.length > 0) await storage.dropOutcomes(now);
    const terminal = taken === undefined ? undefined : record(execution, turn, taken.activation, taken.completion);
    let ending: Ending | undefined;
    if (terminal !== undefined) ending = this.#end(execution, terminal, turn?.time ?? this.#flusher.turnTime, answers);
    else
      storage.setStatus(
        this.#isBusy(execution, starting.length > 0 || beginsOperations(execution, turn))
          ? execution.workingStatus
          : execution.parkedStatus,
      );
    try {
      await this.#flusher.flush(storage);
    } catch (error) {
      if (isTooLarge(error)) return this.#block(execution, error);
      throw error;
    }
    this.#intake.consumed(consumed);
    if (ending !== undefined && ending !== AGAIN) this.#closing.over();
    this.#flusher.tell(answers);
    if (ending !== undefined) return this.#closed(execution, ending);
    if (!this.#evicted) begin(execution, turn, starting);
    return undefined;
  }
  #isBusy({ jobs, hasNews, operations, outbox }: Execution, begins: boolean): boolean {
    return begins || jobs.length > 0 || this.#intake.waiting > 0 || hasNews || operations.inFlight > 0 || outbox.pending;
  }

  // ── parking ──

  /** Sets the alarm of a run that leaves memory, unless a message has arrived meanwhile: then the alarm is for that message. */
  #leaveAlarm(execution: Execution, at: number | undefined): Promise<boolean> {
    return this.#flusher.alarm.leaveAt(at, () => this.#intake.waiting > 0 && execution.retryRunAt === undefined);
  }
  /** Nothing can advance: stores that status if it is new, and makes sure that the run is woken when something can. */
  async #park(execution: Execution): Promise<RunResult> {
    const status = execution.parkedStatus;
    execution.storage.setStatus(status);
    await this.#flusher.flush(execution.storage);
    // D9: a sender may have set the alarm before it was changed here, and its hint may be lost.
    if (await this.#leaveAlarm(execution, status.wakeAt)) await this.#intake.look();
    return resultOf(status, undefined, this.#settings.codec);
  }
  /** Evicted: the alarm stays as it is, so that the next host knows when to run it. */
  #leave({ storage, operations, executor }: Execution): RunResult {
    const wakeAt = this.#flusher.alarm.at ?? storage.status?.wakeAt;
    return { status: "sleeping", ...(wakeAt !== undefined && { wakeAt }), waitingFor: waitingWords(executor, operations) };
  }
  /** K7: a run past its deadline that its code can't replay fails, unless it may have rollbacks to run. */
  #blockOrExpire(execution: Execution, error: Error): Promise<RunResult> {
    const { head, storage } = execution;
    const isOver = isOverdue(head, this.#settings.environment) && !mayRollBack(storage.turns);
    return isOver ? this.#closeWithoutCode(execution, expired(head)) : this.#block(execution, error);
  }
  /** V4: the run is unharmed; it is tried again later, or with other code. */
  async #block(execution: Execution, error: Error): Promise<RunResult> {
    const { logger, workflow, id } = this.#settings;
    this.#blocked = true;
    execution.drop(error);
    logger.error(`Run ${id} is blocked: ${error.message}`, { runId: id, workflow: workflow.name, error });
    const wakeAt = await storeBlocked(execution, error, this.#namespace, this.#flusher);
    await this.#flusher.alarm.leaveAt(wakeAt, () => false); // V4: messages don't wake it
    return { status: "blocked", error, ...(wakeAt !== undefined && { wakeAt }) };
  }

  // ── the end ──

  #end(execution: Execution, command: TerminalCommand, time: number, answers: UpdateAnswer[]): Ending {
    const { codec, mode } = this.#settings;
    const retryAt = retryTimeAfter(execution, command, time);
    if (retryAt !== undefined) {
      execution.retryRunAt = retryAt; // D10: it continues as another attempt
      execution.storage.setStatus(execution.parkedStatus);
      return AGAIN;
    }
    if (command.type === "continueAsNew") {
      continueAsNew(execution, command, time);
      return mode === "live" ? AGAIN : { status: "continued", input: codec.decode(command.input) };
    }
    this.#closing.decide();
    answers.push(...close(execution, command));
    return this.#storedResult(execution);
  }
  #storedResult({ storage }: Execution): RunResult {
    return resultOf(storage.status ?? { status: "completed" }, storage.end, this.#settings.codec);
  }
  /** After the last batch of an execution. */
  async #closed(execution: Execution, ending: Ending): Promise<Ending> {
    execution.drop(RUN_OVER);
    if (ending !== AGAIN && ending.status !== "continued") await settleAfterEnd(execution, this.#intake, this.#flusher);
    return ending;
  }
  /** The run has ended before: answers late messages and delivers pending notifications. */
  async #closedAlready(execution: Execution): Promise<RunResult> {
    await settleAfterEnd(execution, this.#intake, this.#flusher);
    return this.#storedResult(execution);
  }
  /** K6: ends the run at once. */
  #terminate(execution: Execution, { reason }: { readonly reason?: string | undefined }): Promise<RunResult> {
    this.#intake.takeAll("terminate");
    return this.#closeWithoutCode(execution, { type: "terminated", reason });
  }
  async #closeWithoutCode(execution: Execution, command: ClosingCommand): Promise<RunResult> {
    trackUpdates(execution); // the run may not have been replayed
    this.#closing.decide();
    const consumed = this.#intake.consume(execution.storage, execution.jobs);
    const answers = close(execution, command);
    await this.#flusher.flush(execution.storage);
    this.#intake.consumed(consumed);
    this.#closing.over();
    this.#flusher.tell(answers);
    const result = this.#storedResult(execution);
    await this.#closed(execution, result);
    return result;
  }
}

function canceled(reason: string | undefined): CanceledCommand {
  return reason === undefined ? { type: "canceled" } : { type: "canceled", reason };
}
