// One execution in the memory of a worker: Core's activations become turns of the executor, its commands become Core's.
// Owns: the executor, the turns so far, the operations that the server carries out, the messages, and the memo.
// Invariants: X6 (one completion for each activation), D9 (messages are delivered before timers and outcomes of the same activation), M8
// (an update is accepted or rejected in the activation that brings it), V4 (a turn that breaks a rule fails the task, never the run), L3 R11
// (a commit continues the run in a new execution when the server suggests it), Y1 (the same activations give the same commands).

import {
  type Activation,
  type AnyWorkflow,
  type CarriedOutBy,
  type Command,
  type Completion,
  changedOptionText,
  Executor,
  HoldfastError,
  type Job,
  NondeterminismError,
  recordTurn,
  type SerializedError,
  type SignalJob,
  type StartJob,
  serializeError,
  type Turn,
  trimmed,
  type UpdateJob,
  uncheckedSeed,
} from "@holdfast/core";
import { carriedSignals, runEndOf, startJobOf } from "@holdfast/host";
import type { ActivationCompletion, ActivationJob, CoreCommand, TemporalHistory, WorkflowActivation } from "../bridge.ts";
import { failedAt, isEarly, toFailure } from "../failures.ts";
import { headerOf, type StartHeader, startHeader } from "../headers.ts";
import { type Attributes, memoFields, readMemo } from "../memo.ts";
import { dateOf, type TemporalPayload } from "../payloads.ts";
import { api, msIfSet } from "../proto.ts";
import { scheduledBy, scheduledFields } from "../scheduledBy.ts";
import { carriedInput, carriedTurns, LARGEST } from "./carryOver.ts";
import { endCommand, isFinal } from "./endCommand.ts";
import { HeldOperations } from "./heldOperations.ts";
import { type ChangedOption, HistoryCheck } from "./historyCheck.ts";
import { Messages } from "./messages.ts";
import { markerOf } from "./patches.ts";
import { answerQuery } from "./queries.ts";
import type { RunWorker } from "./runWorker.ts";
import type { ScheduledRun } from "./schedules.ts";

type InitializeWorkflow = NonNullable<ActivationJob["initializeWorkflow"]>;
type Status = Omit<ActivationCompletion, "runId">;
const { WorkflowIdReusePolicy, WorkflowTaskFailedCause } = api.api.enums.v1;

/** The server suggests to continue at 90% of its 2,000 updates in one execution; with this many the host does so by itself. */
const MOST_UPDATES = 1_500;

const isLocal = ({ resolveActivity }: ActivationJob): boolean => resolveActivity?.isLocal === true;

/** Whether the first activation may bring an update together with what earlier tasks have brought: the first task begins with event 3. */
function mayBeMerged({ historyLength, jobs }: WorkflowActivation): boolean {
  return (historyLength ?? 0) > 3 && jobs?.some((job) => job.doUpdate) === true;
}
/** Undefined for one that was cancelled. */
function endedAtOf(result: NonNullable<ActivationJob["resolveActivity"]>["result"]): number | undefined {
  return dateOf(result?.completed?.result) ?? failedAt(result?.failed?.failure);
}

type OkCompletion = Extract<Completion, { status: "ok" }>;

export class HostedRun {
  readonly workflowId: string;
  readonly runId: string;
  readonly workflow: AnyWorkflow;
  readonly executor: Executor;
  readonly held: HeldOperations;
  /** Why the last activation has failed. */
  problem: unknown;
  readonly #worker: RunWorker;
  readonly #init: InitializeWorkflow;
  readonly #header: StartHeader;
  readonly #scheduled: ScheduledRun;
  readonly #messages: Messages;
  readonly #createdAt: number;
  readonly #deadlineAt: number | undefined;
  #turns: Turn[] = [];
  #nextIndex = 0;
  #attributes: Attributes;
  #state: TemporalPayload | undefined;
  #isRollingBack = false;
  #hasNews = false;
  #hasEnded = false;
  #isReplaying = false;
  /** Updates of this activation that no receive has taken up so far. */
  readonly #early: { readonly job: UpdateJob; readonly error: SerializedError }[] = [];
  /** When the first task of this execution began. */
  #begunAt = 0;
  /** Of the last turn. */
  #time = 0;
  /** The task of the last activation. */
  #lastTask = 0;
  #warned = false;
  /** The search attributes to set for changed attributes. */
  #searchAttributes: RunWorker["searchAttributes"] = () => undefined;
  /** Only for a run that is replayed. */
  readonly #check: Promise<HistoryCheck | undefined> | undefined;

  /** `history`: what the code is compared with in replay. */
  constructor(
    worker: RunWorker,
    activation: WorkflowActivation,
    init: InitializeWorkflow,
    workflow: AnyWorkflow,
    history: (workflowId: string, runId: string) => Promise<TemporalHistory | undefined>,
  ) {
    const { codec, logger, limits, environment, settings, payloads, watch, freezeStates } = worker;
    this.#worker = worker;
    this.#init = init;
    this.workflow = workflow;
    this.workflowId = init.workflowId ?? "";
    this.runId = activation.runId ?? "";
    if (activation.isReplaying === true || mayBeMerged(activation))
      this.#check = history(this.workflowId, this.runId).then(
        (found) => found && new HistoryCheck(found, payloads, (option) => this.#changed(option)),
      );
    this.#check?.catch(() => {}); // it is awaited with the first commands
    this.#header = startHeader(init.headers);
    const startedAt = msIfSet(init.startTime) ?? msIfSet(activation.timestamp) ?? 0;
    this.#createdAt = this.#header.createdAt ?? startedAt;
    this.#deadlineAt = this.#header.deadlineAt ?? (this.#header.deadline === undefined ? undefined : startedAt + this.#header.deadline);
    const memo = readMemo(init.memo?.fields);
    this.#attributes = memo.attributes ?? {};
    this.#state = memo.state;
    this.executor = new Executor({
      workflow,
      codec,
      logger,
      limits,
      elapsed: environment.worked,
      turnTimeout: settings.turnTimeout,
      sideEffects: "scheduled",
      watch,
      freezeStates,
      withholdsRejections: true,
      matchedBy: "Temporal",
      stateBytes: LARGEST,
    });
    this.#scheduled = {
      workflowId: this.workflowId,
      execution: this.#header.execution ?? 1,
      namespace: worker.namespace,
      queue: worker.queue,
      urgency: { priority: this.#header.priority, key: this.#header.workKey },
      lease: settings.lease,
      deadlineAt: this.#deadlineAt,
      ownQueueWait: worker.timing.ownQueue,
      payloads,
      searchAttributes: (attributes) => worker.searchAttributes(attributes),
    };
    this.held = new HeldOperations({
      run: this.#scheduled,
      executor: this.executor,
      ownQueue: worker.ownQueue,
      stepQueue: worker.stepQueue,
      deadlineAt: this.#deadlineAt,
    });
    const { runId, held } = this;
    this.#messages = new Messages({ worker, workflow, runId, header: this.#header, push: (command) => held.push(command) });
  }

  /** Those that are not trimmed. */
  get turns(): readonly Turn[] {
    return this.#turns;
  }

  // ── an activation ──

  async activate(activation: WorkflowActivation): Promise<Status> {
    const jobs = activation.jobs ?? [];
    if (jobs.length > 0 && jobs.every((job) => job.queryWorkflow)) return this.#answerQueries(jobs);
    try {
      return { successful: { commands: await this.#advance(activation) } };
    } catch (error) {
      this.problem = error;
      return this.failed(error);
    }
  }
  /** V4: the task fails, and the run is tried again by the server. */
  failed(error: unknown): Status {
    const isDivergence = error instanceof HoldfastError && error.code === "HF_NONDETERMINISM";
    return {
      failed: {
        failure: toFailure(serializeError(error), this.#worker.codec),
        forceCause: isDivergence
          ? WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR
          : WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE,
      },
    };
  }
  /** Y2: the recorded option stays in force. */
  #changed(option: ChangedOption): void {
    const { location, field, recorded: expected, code: actual } = option;
    if (this.#worker.isStrict) throw new NondeterminismError({ location, field, expected, actual });
    const text = changedOptionText(this.workflow, option);
    if (text !== undefined) this.#worker.logger.info(text, { runId: this.workflowId, workflow: this.workflow.name, ...option });
  }
  /** Operations whose functions have no more to do: those that the last activation has cancelled, or all if the run has ended. */
  get canceled(): readonly number[] | "all" {
    return this.#hasEnded ? "all" : [...this.held.canceled];
  }
  #answerQueries(jobs: readonly ActivationJob[]): Status {
    const commands: CoreCommand[] = [];
    for (const { queryWorkflow: query } of jobs) {
      if (query) commands.push({ respondToQuery: answerQuery(query, this, this.#worker.payloads) });
    }
    return { successful: { commands } };
  }

  async #advance(activation: WorkflowActivation): Promise<CoreCommand[]> {
    // Core reports the end of operations that the end of the run has cancelled.
    if (this.#hasEnded) return [];
    this.#isReplaying = activation.isReplaying === true;
    const known = await this.#check;
    const check = this.#isReplaying ? known : undefined;
    if (check !== undefined) this.held.recorded = check;
    const task = activation.historyLength ?? 0;
    const jobs = activation.jobs ?? [];
    const time = check?.startedAt(task) ?? msIfSet(activation.timestamp);
    const earlier = known?.beganBefore(task, this.#lastTask);
    this.#lastTask = task;
    // The list of the registered ones may have changed since.
    this.#searchAttributes = check?.hasTask(task)
      ? (changes) => check.searchAttributes(task, changes)
      : (changes) => this.#worker.searchAttributes(changes);
    this.held.begin(this.#time);
    this.#hasNews = false;
    const before = this.#nextIndex;
    // P7: Core skips tasks that asked for nothing, and brings what came with them together with updates, which have no events yet.
    const apart = earlier === undefined ? [] : jobs.filter((job) => job.doUpdate);
    await this.#take(activation, apart.length === 0 ? jobs : jobs.filter((job) => !job.doUpdate), earlier ?? time);
    if (apart.length > 0) await this.#take(activation, apart, time);
    // Y1: live they come one by one, in replay together: each has a turn, and the time at which it ended.
    for (const { resolveActivity: local } of jobs.filter(isLocal)) {
      if (!local) continue;
      this.held.now = this.#timeOf(endedAtOf(local.result));
      const ended = this.held.activityEnded(local);
      if (ended !== undefined) await this.#turn(activation, [ended]);
      await this.#turnsThatFollow(activation);
    }
    for (const { job, error } of this.#early.splice(0)) this.#messages.reject(job.id, error);
    const commands = this.#commandsOf(activation, this.#time, before, check);
    check?.add(activation.historyLength ?? 0, commands, this.held.locals);
    if (!this.#isReplaying) for (const { startChildWorkflowExecution: child } of commands) if (child) await this.#number(child);
    return commands;
  }
  /** What a task has brought: messages first (D9). `at`: when the task began. */
  async #take(activation: WorkflowActivation, jobs: readonly ActivationJob[], at: number | undefined): Promise<void> {
    // Not of the local steps that ended in it: Core puts them into one activation in replay, with the time of the last one.
    const time = this.#timeOf(jobs.every(isLocal) ? undefined : at);
    this.held.now = time;
    const messages = jobs.some((job) => job.initializeWorkflow) ? await this.#begin(time) : [];
    messages.push(...(await this.#messages.jobsOf(jobs, time)));
    await this.#turn(activation, messages);
    const outcomes = jobs.flatMap((job) => (isLocal(job) ? [] : (this.held.outcomeOf(job) ?? [])));
    await this.#turn(activation, outcomes);
    await this.#turnsThatFollow(activation);
  }
  /** P10: a child that restarts a closed run is the next execution of it. Its header says so, with which nothing is compared in replay. */
  async #number(child: NonNullable<CoreCommand["startChildWorkflowExecution"]>): Promise<void> {
    if (child.workflowIdReusePolicy !== WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE) return;
    const execution = (await this.#worker.executionOf(child.workflowId ?? "")) + 1;
    if (execution > 1) child.headers = headerOf({ ...startHeader(child.headers), execution });
  }

  /** The turns for what follows from the commands of the turn before. */
  async #turnsThatFollow(activation: WorkflowActivation): Promise<void> {
    for (let more = this.held.takeJobs(); more.length > 0; more = this.held.takeJobs())
      await this.#turn(activation, await this.#messages.checked(more));
  }
  /** The time of the next turn: it never goes back. */
  #timeOf(time: number | undefined): number {
    this.#time = Math.max(this.#time, time ?? 0);
    return this.#time;
  }

  /** The jobs of a new execution, or of one that goes on from carried turns. */
  async #begin(time: number): Promise<Job[]> {
    const { codec } = this.#worker;
    this.#begunAt = time;
    const carried = carriedTurns(this.#init.arguments?.[0], codec);
    const isExpired = this.#deadlineAt !== undefined && this.#deadlineAt <= time;
    if (!isExpired) this.held.startDeadline();
    const signals: SignalJob[] = (this.#header.signals ?? []).map((signal) => ({ type: "signal", ...signal }));
    // K7: no code of a run begins after its deadline.
    if (carried === undefined && isExpired) return [this.#startJob(), this.held.expiry()];
    if (carried === undefined) return [this.#startJob(), ...(await this.#messages.checked(signals))];
    const completion = await this.#worker.turns.run(() => this.executor.replay(carried));
    if (completion.status === "failed") throw completion.error;
    this.#turns = [...carried];
    this.#nextIndex = (carried.at(-1)?.index ?? -1) + 1;
    this.held.restore(carried);
    return isExpired ? [this.held.expiry()] : this.#messages.checked(signals);
  }
  #startJob(): StartJob {
    const { payloads } = this.#worker;
    const seed = String(this.#init.randomnessSeed ?? 0);
    return startJobOf({
      id: this.workflowId,
      workflow: this.workflow.name,
      version: this.#header.version,
      input: payloads.first(this.#init.arguments),
      // A start by another SDK was not checked against the schema either.
      seed: this.#header.isUnchecked === true || this.#init.headers?.["holdfast"] === undefined ? uncheckedSeed(seed) : seed,
      execution: this.#scheduled.execution,
      attempt: this.#init.attempt ?? 1,
      parent: this.#parentId === undefined ? undefined : { runId: this.#parentId },
      key: this.#header.workKey,
      ...scheduledBy(this.#header, this.#init.searchAttributes?.indexedFields),
      retry: undefined,
      createdAt: this.#createdAt,
    });
  }
  get #parentId(): string | undefined {
    return this.#header.parentId ?? (this.#init.parentWorkflowInfo?.workflowId || undefined);
  }

  // ── turns ──

  async #turn(core: WorkflowActivation, given: readonly Job[]): Promise<void> {
    if (given.length === 0 || this.executor.closed) return;
    const time = this.#time;
    const jobs = [...given, ...this.#early.splice(0).map(({ job }) => job)];
    const activation: Activation = { time, jobs, historyLength: core.historyLength ?? 0, replaying: this.#isReplaying };
    const completion = await this.#worker.turns.run(() => this.executor.activate(activation));
    if (completion.status === "failed") throw completion.error;
    const turn = recordTurn(this.#nextIndex, core.historyLength ?? 0, activation, completion);
    if (turn !== undefined) {
      this.#nextIndex++;
      this.#turns.push(turn);
      if (turn.commands.some(({ type }) => type === "commit")) this.#turns = trimmed(this.#turns);
    }
    for (const reply of completion.replies) if (reply.type === "rejectUpdate") this.#reject(reply, jobs);
    this.#note(completion, completion.time ?? time);
  }
  /** M8: an update that no receive takes up is offered to the other turns of its activation before it is rejected. */
  #reject({ id, error }: Pick<UpdateJob, "id"> & { readonly error: SerializedError }, jobs: readonly Job[]): void {
    const job = jobs.find((one): one is UpdateJob => one.type === "update" && one.id === id);
    if (job !== undefined && isEarly(error)) this.#early.push({ job, error });
    else this.#messages.reject(id, error);
  }
  #note(completion: OkCompletion, time: number): void {
    const { payloads } = this.#worker;
    this.held.apply(completion.commands, time, (command) => this.#noteCommand(command, time));
    if (completion.state !== undefined) {
      this.#state = payloads.toTemporal(completion.state);
      this.#hasNews = true;
    }
  }
  /** Commands that are not operations of the server. */
  #noteCommand(command: Command, time: number): void {
    switch (command.type) {
      case "patch":
        this.held.push({ setPatchMarker: { patchId: markerOf(command.name, command.unit), deprecated: command.deprecated === true } });
        break;
      case "attributes":
        this.#setAttributes(command.attributes);
        break;
      case "acceptUpdate":
        this.#messages.accept(command.id);
        break;
      case "completeUpdate":
        this.#messages.complete(command, time);
        break;
      case "rollBack":
        this.#isRollingBack = true;
        this.#hasNews = true;
        break;
      case "rollbackCheckpoint":
      case "refuse":
        break; // the server needs nothing for these
      default:
        command satisfies Exclude<Command, CarriedOutBy<"record">>;
        break; // `held` schedules it, or the end of the activation handles it
    }
  }
  #setAttributes(changes: Readonly<Record<string, string | number | boolean | null>>): void {
    const next: Record<string, string | number | boolean> = { ...this.#attributes };
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) delete next[name];
      else next[name] = value;
    }
    this.#attributes = next;
    this.#hasNews = true;
    const indexedFields = this.#searchAttributes(changes);
    if (indexedFields !== undefined) this.held.push({ upsertWorkflowSearchAttributes: { searchAttributes: { indexedFields } } });
  }

  // ── the completion ──

  #commandsOf(activation: WorkflowActivation, time: number, firstTurn: number, check: HistoryCheck | undefined): CoreCommand[] {
    const commands = this.held.take();
    const end = this.#turns.at(-1)?.commands.at(-1);
    const isEnd = this.executor.closed && end !== undefined;
    if (!isEnd) {
      const next = this.#continuation(activation, time, firstTurn, commands, check);
      if (next !== undefined) return next;
    }
    if (this.#hasNews && !(isEnd && end.type === "continueAsNew"))
      commands.push({ modifyWorkflowProperties: { upsertedMemo: { fields: this.#memo() } } });
    if (isEnd) commands.push(this.#end(end, time));
    this.#hasEnded = isEnd;
    return commands;
  }
  #memo() {
    return memoFields({ state: this.#state, attributes: this.#attributes, isRollingBack: this.#isRollingBack });
  }
  #end(end: Command, time: number): CoreCommand {
    if (end.type === "continueAsNew") return this.#continueAsNew(end, time);
    if (end.type !== "complete" && end.type !== "fail" && end.type !== "canceled") throw new Error(`${end.type} is not an end.`);
    return endCommand(runEndOf(end), this.#worker, (error) =>
      isFinal(error, time, this.#init, { begunAt: this.#begunAt, deadlineAt: this.#deadlineAt }),
    );
  }
  #continueAsNew(end: Extract<Command, { type: "continueAsNew" }>, time: number): CoreCommand {
    const version = end.version ?? this.#header.version;
    const signals = carriedSignals(end).map(({ id, name, payload }) => ({ id, name, payload, checked: true as const }));
    return this.#next([this.#worker.payloads.toTemporal(end.input)], {
      execution: this.#scheduled.execution + 1,
      ...(version !== undefined && { version }),
      ...(signals.length > 0 && { signals }),
      ...(this.#deadlineAt !== undefined && { deadlineAt: this.#deadlineAt }),
      keys: this.#messages.carriedKeys(time),
    });
  }
  #next(input: TemporalPayload[], header: StartHeader): CoreCommand {
    const parentId = this.#parentId;
    const { key, workKey, priority } = this.#header;
    const by = scheduledBy(this.#header, this.#init.searchAttributes?.indexedFields);
    const indexedFields = { ...this.#worker.searchAttributes(this.#attributes), ...scheduledFields(by) };
    return {
      continueAsNewWorkflowExecution: {
        workflowType: this.workflow.name,
        taskQueue: this.#worker.queue,
        arguments: input,
        memo: this.#memo(),
        headers: headerOf({
          ...header,
          ...(key !== undefined && { key }),
          ...(workKey !== undefined && { workKey }),
          ...(priority !== undefined && { priority }),
          ...by,
          createdAt: this.#createdAt,
          ...(parentId !== undefined && { parentId }),
        }),
        ...(this.#init.retryPolicy && { retryPolicy: this.#init.retryPolicy }),
        ...(Object.keys(indexedFields).length > 0 && { searchAttributes: { indexedFields } }),
      },
    };
  }

  /**
   * A commit that becomes a continue-as-new, because the history is long. What this activation has asked the server for is left out: the
   * next execution asks for it.
   */
  #continuation(
    activation: WorkflowActivation,
    time: number,
    firstTurn: number,
    commands: readonly CoreCommand[],
    check: HistoryCheck | undefined,
  ): CoreCommand[] | undefined {
    const recent = this.#turns.filter(({ index }) => index >= firstTurn);
    if (!recent.some((turn) => turn.commands.some(({ type }) => type === "commit"))) return undefined;
    if (activation.continueAsNewSuggested !== true && this.#messages.updateCount < MOST_UPDATES) return undefined;
    // Whether it was too early is in history: the limit may have changed since.
    const isTooEarly = check?.hasTask(activation.historyLength ?? 0)
      ? !check.hasContinued(activation.historyLength ?? 0)
      : time < this.#begunAt + this.#worker.timing.shortestExecution;
    if (isTooEarly) return undefined;
    const isNew = new Set(recent.flatMap((turn) => turn.commands.flatMap((command) => ("n" in command ? command.seq : []))));
    if (this.held.isBusy((seq) => !isNew.has(seq))) return undefined;
    const input = carriedInput(this.#turns, this.#worker.codec);
    if ((input.data?.length ?? 0) > LARGEST) {
      if (!this.#warned)
        this.#worker.logger.warn(`Run ${this.workflowId} can't continue in a new execution: its state is larger than 1 MiB.`, {
          runId: this.workflowId,
        });
      this.#warned = true;
      return undefined;
    }
    const answers = commands.filter((command) => command.updateResponse);
    // No handler is in progress at a commit: these wait in the mailbox, which the turns carry over.
    const { openUpdates } = this.#messages;
    const { version } = this.#header;
    const next = this.#next([input], {
      execution: this.#scheduled.execution,
      ...(version !== undefined && { version }),
      ...(this.#deadlineAt !== undefined && { deadlineAt: this.#deadlineAt }),
      keys: this.#messages.carriedKeys(time),
      ...(openUpdates.length > 0 && { openUpdates }),
    });
    return [...answers, next];
  }
}
