// A harness that drives an executor step by step: jobs go in, commands come out, everything is recorded.
// Owns: the clock, the transcript, the history, and the open operations of the host.
// Invariants: X1 (no timers, no I/O), Y1 (every run can be replayed from what was recorded), L4 (trims are carried out).

import { type Codec, jsonCodec } from "../codec/index.ts";
import { reviveError, type SerializedError, serializeError } from "../errors/index.ts";
import { type Barrier, Executor, type Limits } from "../executor/index.ts";
import { recordCount, recordTurn, replayView, toHistory, trimmed } from "../history/index.ts";
import type { AnyWorkflow, History, Logger, RunStatus } from "../model/index.ts";
import {
  type Activation,
  type Answer,
  type Command,
  type Completion,
  dueOf,
  formatLocation,
  HOST_KINDS,
  type HostOperation,
  type Job,
  type OpeningCommand,
  type Outcome,
  type Payload,
  type StartJob,
  type TerminalCommand,
  type Turn,
} from "../protocol/index.ts";

/** What a harness is made with. */
export interface HarnessOptions {
  /**
   * The id of the run.
   * @defaultValue `"run-1"`
   */
  readonly id?: string;
  /**
   * The seed of its random numbers.
   * @defaultValue `"seed"`
   */
  readonly seed?: string;
  /**
   * The time of the first turn, in milliseconds since 1970.
   * @defaultValue 1 January 2026, UTC
   */
  readonly startTime?: number;
  /**
   * Encodes all user values.
   * @defaultValue `jsonCodec`
   */
  readonly codec?: Codec;
  /**
   * Where messages go.
   * @defaultValue none
   */
  readonly logger?: Logger;
  /**
   * Upper bounds for payloads and histories.
   * @defaultValue `DEFAULT_LIMITS`
   */
  readonly limits?: Partial<Limits>;
  /**
   * How the executor finds out that a unit has paused.
   * @defaultValue the best one that the runtime has
   */
  readonly barrier?: Barrier;
  /**
   * The version that the run is started with.
   * @defaultValue that of the workflow
   */
  readonly version?: string;
  /**
   * The run that started it as a child.
   * @defaultValue it is not a child
   */
  readonly parentId?: string;
  /**
   * The number of its execution.
   * @defaultValue `1`
   */
  readonly execution?: number;
  /**
   * Retry of the run as a whole.
   * @defaultValue a failed run is not retried
   */
  readonly retry?: StartJob["retry"];
  /**
   * A monotonic clock in milliseconds, for the turn timeout.
   * @defaultValue none, and no timeout
   */
  readonly elapsed?: () => number;
  /**
   * Longest duration of a turn, in milliseconds; 0 means no limit. It needs `elapsed`.
   * @defaultValue `2_000`
   */
  readonly turnTimeout?: number;
  /**
   * Whether the executor runs side effects in the turn ("inline"), or the host like steps ("scheduled").
   * @defaultValue `"inline"`
   */
  readonly sideEffects?: "inline" | "scheduled";
  /**
   * Whether states of loops and receives are frozen.
   * @defaultValue `false`
   */
  readonly freezeStates?: boolean;
  /**
   * Awaited before each activation, for tests that run every turn in a separate macrotask.
   * @defaultValue nothing is awaited
   */
  readonly beforeTurn?: () => Promise<unknown>;
}

/** One activation and its completion, including rejected updates and queries. */
export interface TranscriptEntry {
  /** What went in. */
  readonly activation: Activation;
  /** What came out. */
  readonly completion: Completion;
}

const TERMINAL: ReadonlySet<string> = new Set(["complete", "fail", "canceled", "continueAsNew"]);
const STATUSES = { complete: "completed", fail: "failed", canceled: "canceled", continueAsNew: "continued" } as const;

type SignalOptions = { readonly id?: string; readonly refused?: string };

/** Drives one execution turn by turn, for tests of the executor. */
export class Harness {
  /** The code that runs. Replace it to test changed code. */
  workflow: AnyWorkflow;
  /** What it was made with. */
  readonly options: HarnessOptions;
  /** Encodes all user values. */
  readonly codec: Codec;
  /** Every activation so far, also those that failed or that history does not keep. */
  readonly transcript: TranscriptEntry[] = [];
  /** The history as a host would store it: recorded and trimmed. */
  turns: Turn[] = [];
  /** The time of the next turn, in milliseconds since 1970. */
  time: number;
  /** The executor that runs the code. `recover` and `resume` replace it. */
  executor: Executor;
  /** Open operations that the host carries out, by number. */
  readonly open = new Map<number, OpeningCommand>();
  /** The due times of open timers, by number. */
  readonly timers = new Map<number, number>();
  /** Answers to updates and queries so far. */
  readonly answers: Answer[] = [];
  /** The command that ended the execution. */
  terminal: TerminalCommand | undefined;
  /** The published state, encoded. */
  published: Payload | undefined;
  #turns = 0;
  #messages = 0;

  constructor(workflow: AnyWorkflow, options: HarnessOptions = {}) {
    this.workflow = workflow;
    this.options = options;
    this.codec = options.codec ?? jsonCodec;
    this.time = options.startTime ?? Date.UTC(2026, 0, 1);
    this.executor = this.createExecutor();
  }
  /**
   * Makes a harness and runs the first turn.
   * @throws the error of a turn that is not accepted.
   */
  static async start(workflow: AnyWorkflow, input?: unknown, options: HarnessOptions = {}): Promise<Harness> {
    const harness = new Harness(workflow, options);
    await harness.start(input);
    return harness;
  }
  /** A new executor, as after a restart. */
  createExecutor(workflow: AnyWorkflow = this.workflow): Executor {
    const { codec, logger, limits, barrier, elapsed, turnTimeout, sideEffects, freezeStates } = this.options;
    const given = { codec, logger, limits, barrier, elapsed, turnTimeout, sideEffects, freezeStates };
    const present = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
    return new Executor({ workflow, ...present });
  }

  // ── turns ──

  /**
   * Runs one activation with these jobs, and returns its commands.
   * @throws the error of a turn that is not accepted.
   */
  async turn(...jobs: Job[]): Promise<readonly Command[]> {
    const completion = await this.activate(...jobs);
    if (completion.status === "failed") throw completion.error;
    return completion.commands;
  }
  /** Runs one activation with these jobs, and returns its completion, also if the turn is not accepted. */
  async activate(...jobs: Job[]): Promise<Completion> {
    await this.options.beforeTurn?.();
    const historyLength = this.turns.reduce((sum, turn) => sum + recordCount(turn), 0);
    const activation: Activation = { time: this.time, jobs, historyLength };
    const completion = await this.executor.activate(activation);
    this.transcript.push({ activation, completion });
    if (completion.status === "ok") this.#record(activation, completion, historyLength);
    return completion;
  }
  #record(activation: Activation, completion: Completion & { status: "ok" }, historyLength: number): void {
    const turn = recordTurn(this.#turns, historyLength, activation, completion);
    if (turn !== undefined) {
      this.#turns++;
      this.turns = trimmed([...this.turns, turn]);
    }
    this.answers.push(...completion.replies);
    if (completion.state !== undefined) this.published = completion.state;
    for (const job of activation.jobs) if (job.type === "resolve" || job.type === "fire") this.#settled(job.seq);
    for (const command of completion.commands) this.#carryOut(command);
  }
  #carryOut(command: Command): void {
    if (command.type === "settle") this.#settled(command.seq);
    else if (command.type === "cancel") {
      if (command.join !== true) this.#settled(command.seq);
    } else if (TERMINAL.has(command.type)) this.terminal = command as TerminalCommand;
    else if ("n" in command) this.#opened(command);
  }
  #opened(command: OpeningCommand, since = this.time): void {
    if (HOST_KINDS.has(command.type) || (command.type === "sideEffect" && this.options.sideEffects === "scheduled"))
      this.open.set(command.seq, command);
    const due = dueOf(command, since);
    if (due !== undefined) this.timers.set(command.seq, due);
  }
  #settled(seq: number): void {
    this.open.delete(seq);
    this.timers.delete(seq);
  }

  // ── jobs by hand ──

  /** Runs the first turn, with these jobs behind the start. */
  start(input?: unknown, ...more: Job[]): Promise<readonly Command[]> {
    const { id, seed, version, parentId, execution, retry } = this.options;
    const start: StartJob = {
      type: "start",
      runId: id ?? "run-1",
      workflow: this.workflow.name,
      version: version ?? this.workflow.version,
      input: this.codec.encode(input),
      seed: seed ?? "seed",
      startedAt: this.time,
      ...(execution !== undefined && { execution }),
      ...(parentId !== undefined && { parentId }),
      ...(retry !== undefined && { retry }),
    };
    return this.turn(start, ...more);
  }
  /**
   * The open operation of the host at a location or with a number, otherwise the first one with this name.
   * @throws an Error if there is none.
   */
  find(where: string | number): HostOperation {
    const all = [...this.open.values()] as HostOperation[];
    const found =
      typeof where === "number"
        ? this.open.get(where)
        : (all.find((one) => formatLocation(one.unit, one.name, one.n) === where) ?? all.find((one) => one.name === where));
    if (found === undefined) throw new Error(`Nothing open at ${where}. Open: ${this.openLocations.join(", ") || "nothing"}.`);
    return found as HostOperation;
  }
  /** The locations of the operations that the host carries out and that are open. */
  get openLocations(): string[] {
    return [...this.open.values()].map((one) => formatLocation(one.unit, one.name, one.n));
  }
  /** A job: the operation has completed with this value. */
  resolved(where: string | number, value?: unknown): Job {
    return { type: "resolve", seq: this.find(where).seq, outcome: { status: "completed", value: this.codec.encode(value) } };
  }
  /** A job: the operation has failed with this error. */
  failed(where: string | number, error: unknown, attempts = 1): Job {
    return { type: "resolve", seq: this.find(where).seq, outcome: { status: "failed", error: serializeError(error), attempts } };
  }
  /** A job: the operation has this outcome. */
  outcome(where: string | number, outcome: Outcome): Job {
    return { type: "resolve", seq: this.find(where).seq, outcome };
  }
  /** A job: a signal has arrived. */
  signalJob(name: string, payload?: unknown, options: SignalOptions = {}): Job {
    const id = options.id ?? `s${++this.#messages}`;
    const job = { type: "signal", id, name, payload: this.codec.encode(payload) } as const;
    return options.refused === undefined ? job : { ...job, refused: options.refused };
  }
  /** A job: an update has arrived. */
  updateJob(name: string, input?: unknown, id = `u${++this.#messages}`): Job {
    return { type: "update", id, name, input: this.codec.encode(input) };
  }
  /** A job: a query is asked. */
  queryJob(name: string, args?: unknown, id = `q${++this.#messages}`): Job {
    return { type: "query", id, name, args: this.codec.encode(args) };
  }

  /** Runs a turn in which the operation has completed. */
  resolve(where: string | number, value?: unknown): Promise<readonly Command[]> {
    return this.turn(this.resolved(where, value));
  }
  /** Runs a turn in which the operation has failed. */
  fail(where: string | number, error: unknown, attempts?: number): Promise<readonly Command[]> {
    return this.turn(this.failed(where, error, attempts));
  }
  /** Runs a turn in which a signal has arrived. */
  signal(name: string, payload?: unknown, options?: SignalOptions): Promise<readonly Command[]> {
    return this.turn(this.signalJob(name, payload, options));
  }
  /** Runs a turn in which an update has arrived. */
  update(name: string, input?: unknown, id?: string): Promise<readonly Command[]> {
    return this.turn(this.updateJob(name, input, id));
  }
  /** Runs a turn in which cancellation was requested. */
  cancel(reason?: string): Promise<readonly Command[]> {
    return this.turn({ type: "cancel", reason });
  }
  /**
   * Advances the time to the next timer, or to the one at a location, and fires it.
   * @throws an Error if there is none.
   */
  async fire(where?: string | number): Promise<readonly Command[]> {
    const seq = where === undefined ? this.nextTimer : this.#timerAt(where);
    if (seq === undefined) throw new Error("No timer is open.");
    this.time = Math.max(this.time, this.timers.get(seq) ?? 0);
    return this.turn({ type: "fire", seq });
  }
  /** The timer that is due first; among equal times the older one. */
  get nextTimer(): number | undefined {
    let next: number | undefined;
    for (const [seq, due] of this.timers) if (next === undefined || due < (this.timers.get(next) ?? 0)) next = seq;
    return next;
  }
  #timerAt(where: string | number): number | undefined {
    if (typeof where === "number") return this.timers.has(where) ? where : undefined;
    const commands = this.transcript.flatMap(({ completion }) => (completion.status === "ok" ? completion.commands : []));
    const found = commands.findLast(
      (one) => "n" in one && this.timers.has(one.seq) && (formatLocation(one.unit, one.name, one.n) === where || one.name === where),
    );
    return found === undefined || !("seq" in found) ? undefined : found.seq;
  }

  // ── results ──

  /** Where the run is in its life. An open run that has begun is always "sleeping" here: between turns it waits. */
  get status(): RunStatus {
    if (this.terminal === undefined) return this.turns.length === 0 ? "pending" : "sleeping";
    return STATUSES[this.terminal.type];
  }
  /** What the workflow returned, decoded. Undefined unless it has completed. */
  get output(): unknown {
    return this.terminal?.type === "complete" ? this.codec.decode(this.terminal.value) : undefined;
  }
  /** Why the run failed. Undefined unless it has failed. */
  get error(): Error | undefined {
    const error: SerializedError | undefined = this.terminal?.type === "fail" ? this.terminal.error : undefined;
    return error === undefined ? undefined : reviveError(error);
  }
  /** The published state, decoded. Undefined if there is none. */
  get state(): unknown {
    return this.published === undefined ? undefined : this.codec.decode(this.published);
  }
  /** The `value` or the `error` of an update. Undefined: it has no outcome yet. */
  updateResult(id: string): { value: unknown } | { error: Error } | undefined {
    for (const answer of this.answers) if (answer.type === "rejectUpdate" && answer.id === id) return { error: reviveError(answer.error) };
    for (const { completion } of this.transcript) {
      if (completion.status !== "ok") continue;
      for (const command of completion.commands) {
        if (command.type !== "completeUpdate" || command.id !== id) continue;
        return command.error === undefined ? { value: this.codec.decode(command.value as Payload) } : { error: reviveError(command.error) };
      }
    }
    return undefined;
  }
  /** All commands so far, in order. */
  get commands(): Command[] {
    return this.transcript.flatMap(({ completion }) => (completion.status === "ok" ? [...completion.commands] : []));
  }

  // ── history ──

  /** The portable history, as `run.history()` returns it. */
  history(): History {
    const { id = "run-1", version } = this.options;
    return toHistory(this.turns, { id, workflow: this.workflow.name, version, input: this.codec.encode(undefined), status: this.status });
  }
  /**
   * Discards the executor and replays the history in a new one, with the same or different code. The run continues there.
   * @throws `NondeterminismError` where code and history diverge.
   */
  async recover(workflow: AnyWorkflow = this.workflow): Promise<void> {
    this.workflow = workflow;
    this.executor = this.createExecutor(workflow);
    const completion = await this.executor.replay(replayView(this.turns));
    if (completion.status === "failed") throw completion.error;
  }
  /**
   * Voids the failure and continues; the voided operations are open again. `more`: jobs that arrived meanwhile.
   * @throws an Error if the run has not failed, or if its rollbacks have run.
   * @throws the error of a replay or a turn that is not accepted.
   */
  async resume(workflow: AnyWorkflow = this.workflow, ...more: Job[]): Promise<readonly Command[]> {
    const fail = this.terminal;
    if (fail?.type !== "fail" || fail.rolledBack === true)
      throw new Error("Only a failed run whose rollbacks have not run can be resumed.");
    const voids = fail.causes ?? [];
    const attempt = this.turns.reduce((sum, turn) => sum + turn.jobs.filter((job) => job.type === "resume").length, 2);
    const job: Job = { type: "resume", attempt, voids };
    this.terminal = undefined;
    this.workflow = workflow;
    this.executor = this.createExecutor(workflow);
    const historyLength = this.turns.reduce((sum, turn) => sum + recordCount(turn), 0);
    const resumeTurn: Turn = { index: this.#turns, time: this.time, historyLength, jobs: [job], commands: [] };
    const replayed = await this.executor.replay(replayView([...this.turns, resumeTurn]).slice(0, -1));
    if (replayed.status === "failed") throw replayed.error;
    const open = new Set([...voids, ...this.executor.openOperations].filter((seq) => !this.open.has(seq) && !this.timers.has(seq)));
    for (const { activation, completion } of this.transcript) {
      for (const command of completion.status === "ok" ? completion.commands : []) {
        if ("n" in command && command.type !== "reuse" && open.has(command.seq)) this.#opened(command, activation.time);
      }
    }
    return this.turn(job, ...more);
  }
}
