// The executor: `activate(activation) → completion`, for one execution of one run.
// Owns: the order of work within an activation, and the barrier between the steps of units.
// Invariants: X1 X2 X6 (jobs, rounds, messages, conditions, one completion), X9 (turn timeout), Y1 (replay is the same execution
// against recorded turns), X10 (eviction discards the execution and rejects no promise).

import { type Codec, jsonCodec } from "../codec/index.ts";
import {
  CanceledError,
  InvalidInputError,
  isInstance,
  OutOfTurnError,
  serializeError,
  TurnTimeoutError,
  toError,
  UpdateRejectedError,
} from "../errors/index.ts";
import type { AnyWorkflow, Logger } from "../model/index.ts";
import type { ReplayTurn, SignalJob } from "../protocol/index.ts";
import {
  type Activation,
  CLOCK_KINDS,
  type Completion,
  HAS_PARTS,
  type Job,
  operationsWhere,
  type Payload,
  type QueryJob,
  type StartJob,
  type UpdateJob,
} from "../protocol/index.ts";
import { recordedJobs } from "../protocol/recordedJobs.ts";
import { type Barrier, sharedBarrier } from "./barrier.ts";
import { sameBy } from "./comparison.ts";
import { Context } from "./context.ts";
import { ContinueAsNewToken } from "./continuation.ts";
import { Execution } from "./execution.ts";
import type { ExecutorOptions } from "./executorOptions.ts";
import { becomeFork } from "./fork.ts";
import { isUncheckedSeed, validatedInput } from "./inputs.ts";
import { DEFAULT_LIMITS } from "./limits.ts";
import { childEnded } from "./operations/children.ts";
import { patchKey } from "./operations/patches.ts";
import type { StepBody } from "./operations/steps.ts";
import { evaluateQuery } from "./queries.ts";
import { Matcher } from "./replay/matcher.ts";
import { RenamedChildren } from "./replay/renamedChildren.ts";
import { cancelAttempt, endWants, expire, rootEnded, validatedOutput } from "./runEnd.ts";
import { Stopwatch } from "./stopwatch.ts";
import { reportAllUnheard } from "./unheardResults.ts";
import type { Unit } from "./unit.ts";

/** Operations that only the workflow's own code can end, unless they have a timeout (C6). */
const INTERNAL = operationsWhere(({ isInternal }) => isInternal === true);
/** The reason of a rejected update whose `acceptWithin` has passed (M8). Hosts use it too, when the sender stops waiting. */
export const NOT_ACCEPTED_IN_TIME = "no receive accepted it within the time that its sender allowed";
const NO_ACTIVATION: Activation = { time: 0, jobs: [] };
const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Whether the activation consists only of jobs of this type. */
function isOnly(jobs: readonly Job[], type: Job["type"]): boolean {
  return jobs[0]?.type === type && jobs.every((job) => job.type === type);
}

/** Runs one execution of a workflow: jobs go in, one completion comes out. Deterministic; it has no effects of its own. */
export class Executor {
  readonly #execution: Execution;
  readonly #barrier: Barrier;
  readonly #stopwatch: Stopwatch | undefined;
  readonly #turnTimeout: number;
  readonly #codec: Codec;
  #matcher: Matcher | undefined;
  #finish: ((completion: Completion) => void) | undefined;
  /** The number of records in history that this executor has seen. */
  #records = 0;
  #activation: Activation = NO_ACTIVATION;
  #timeBefore = 0;

  constructor(options: ExecutorOptions) {
    this.#codec = options.codec ?? jsonCodec;
    this.#execution = new Execution({
      workflow: options.workflow,
      codec: this.#codec,
      logger: options.logger ?? SILENT,
      limits: { ...DEFAULT_LIMITS, ...options.limits },
      sideEffects: options.sideEffects ?? "inline",
      watch: options.watch,
      freezeStates: options.freezeStates ?? false,
      strictReplay: options.strictReplay ?? false,
      withholdsRejections: options.withholdsRejections ?? false,
      matchedBy: options.matchedBy,
      stateBytes: options.stateBytes,
      observer: options.observer,
    });
    this.#barrier = options.barrier ?? sharedBarrier();
    this.#turnTimeout = options.turnTimeout ?? 2_000;
    this.#stopwatch = options.elapsed === undefined || this.#turnTimeout === 0 ? undefined : new Stopwatch(options.elapsed);
  }

  // ── activate and replay ──

  /** Runs one turn: jobs in, one completion out. Call it from a new macrotask (see `Barrier`). */
  activate(activation: Activation): Promise<Completion> {
    return new Promise((resolve) => this.#begin(activation, undefined, resolve));
  }

  /** Runs recorded turns: their jobs go in, and the commands must match the recorded ones. */
  replay(turns: readonly ReplayTurn[]): Promise<Completion> {
    const execution = this.#execution;
    return new Promise((resolve) => {
      this.#matcher = new Matcher(execution, turns, sameBy(this.#codec, RenamedChildren.in(turns)));
      let index = 0;
      let last: Completion = { status: "ok", commands: [], replies: [] };
      // A turn in which no code runs ends before `#begin` returns. Then this loop starts the next turn, so that the stack doesn't grow.
      const proceed = (): void => {
        for (let over = true; over; ) {
          const turn = turns[index];
          if (last.status === "failed" || turn === undefined) {
            execution.matcher = undefined;
            execution.replaying = false;
            resolve(last);
            return;
          }
          over = false;
          let beginning = true;
          this.#begin(turn, index++, (completion) => {
            last = completion;
            if (beginning) over = true;
            else proceed();
          });
          beginning = false;
        }
      };
      proceed();
    });
  }

  #begin(activation: Activation, recorded: number | undefined, finish: (completion: Completion) => void): void {
    const execution = this.#execution;
    if (this.#finish !== undefined) {
      finish({
        status: "failed",
        error: new OutOfTurnError({ unit: "(host)", call: "activate", pausedOn: "an activation that is not over" }),
      });
      return;
    }
    if (isOnly(activation.jobs, "evict")) {
      execution.drop();
      finish({ status: "ok", commands: [], replies: [] });
      return;
    }
    this.#finish = finish;
    this.#activation = activation;
    try {
      this.#enter(activation, recorded);
    } catch (error) {
      this.#fault(error);
    }
  }
  #enter(activation: Activation, recorded: number | undefined): void {
    const execution = this.#execution;
    execution.commands = [];
    execution.replies = [];
    execution.turnState = undefined;
    execution.historyLength = activation.historyLength ?? this.#records;
    this.#timeBefore = execution.time;
    if (activation.time > execution.time) execution.time = activation.time; // P7: never back
    execution.replaying = recorded !== undefined || activation.replaying === true;
    execution.matcher = recorded === undefined ? undefined : this.#matcher;
    this.#stopwatch?.restart();
    if (execution.poison !== undefined) return this.#complete(); // X7: a violation between turns
    if (isOnly(activation.jobs, "query")) {
      this.#answerQueries();
      return this.#complete();
    }
    execution.mailbox.beginTurn();
    if (recorded !== undefined) execution.matcher?.beginTurn(recorded);
    else this.#leaveReplay();
    for (const job of activation.jobs) this.#apply(job);
    this.#advance();
  }
  /** An error of a codec, or of this code, fails the turn; it never leaves the turn open or affects runs that share its tick (X6). */
  #fault(error: unknown): void {
    this.#execution.violate(toError(error));
    this.#complete();
  }
  /** Called in the first live turn after a replay. */
  #leaveReplay(): void {
    const matcher = this.#matcher;
    if (matcher === undefined) return;
    this.#matcher = undefined;
    this.#execution.commands.push(...matcher.takeCarried());
    this.#execution.turnState = matcher.publishedState;
    matcher.finish();
  }

  // ── jobs ──

  #apply(job: Job): void {
    const execution = this.#execution;
    switch (job.type) {
      case "start":
        this.#start(job);
        break;
      case "resolve": {
        const operation = execution.operations.get(job.seq);
        if (operation !== undefined) operation.behaviour.outcome?.(operation, job.outcome);
        else if (execution.matcher?.passJob(job) !== true) {
          execution.reusableOutcomes?.resolved(job.seq, job.outcome);
          childEnded(execution, job.seq, job.outcome);
        }
        break;
      }
      case "fire": {
        const operation = execution.operations.get(job.seq);
        if (operation !== undefined && CLOCK_KINDS.has(operation.kind)) operation.behaviour.fire?.(operation);
        else if (operation !== undefined) execution.mailbox.add({ type: "fire", seq: job.seq });
        else if (execution.matcher?.passJob(job) !== true)
          execution.reusableOutcomes?.resolved(job.seq, { status: "completed", value: execution.nothing });
        break;
      }
      case "childStarted": {
        const operation = execution.operations.get(job.seq);
        if (operation !== undefined) operation.behaviour.childStarted?.(operation, job.runId);
        else if (execution.matcher?.passJob(job) !== true) execution.reusableOutcomes?.childStarted(job.seq, job.runId);
        break;
      }
      case "signal":
        if (job.unreadable !== undefined)
          throw new InvalidInputError({ what: `signal ${job.name}`, issues: [{ message: job.unreadable }] });
        if (job.refused === undefined) execution.mailbox.add({ type: "signal", id: job.id, name: job.name, payload: job.payload });
        else execution.log("warn", `Signal "${job.name}" was rejected by its schema and not delivered: ${job.refused}`);
        break;
      case "update":
        this.#deliverUpdate(job);
        break;
      case "query":
        break; // answered at the end
      case "cancel":
        this.#cancel(job.reason);
        break;
      case "patch":
        execution.notifiedPatches.add(patchKey(job.unit, job.id));
        break;
      case "seed":
        execution.reseed(job.seed);
        break;
      case "expire":
        execution.matcher?.catchUp(); // a commit that came before it in this turn
        expire(execution, job);
        break;
      case "resume":
        execution.attempt = job.attempt;
        break;
      case "fork":
        becomeFork(execution, job, this.#activation.jobs);
        break;
      case "evict":
        break; // only handled if it is the only job
    }
  }

  #deliverUpdate({ id, name, input, validate = true, refused, acceptUntil }: UpdateJob): void {
    const { mailbox, replies, time } = this.#execution;
    const isLate = acceptUntil !== undefined && time >= acceptUntil;
    if (refused === undefined && !isLate)
      return mailbox.add({ type: "update", id, name, input, validate, isPatient: acceptUntil !== undefined, accepted: false });
    const reason = refused ?? NOT_ACCEPTED_IN_TIME;
    replies.push({ type: "rejectUpdate", id, error: serializeError(new UpdateRejectedError({ update: name, reason })) });
  }

  #start(job: StartJob): void {
    const execution = this.#execution;
    execution.start = job;
    execution.seed = job.seed;
    execution.attempt = job.attempt ?? 1;
    const { run, options } = execution.workflow;
    const schema = options.output;
    execution.root = execution.spawn({
      role: "root",
      path: "",
      parent: undefined,
      order: [],
      run: async (unit) => {
        const given = execution.decode(job.input);
        const input = isUncheckedSeed(job.seed) ? await validatedInput(execution.workflow, given) : given;
        const output = await run(new Context(unit) as never, input);
        return schema === undefined || isInstance(output, ContinueAsNewToken)
          ? output
          : validatedOutput(execution.workflow, schema, output);
      },
      onEnd: (outcome) => {
        execution.rootOutcome = outcome;
      },
    });
  }

  #cancel(reason: string | undefined): void {
    const execution = this.#execution;
    if (execution.cancelRequested !== undefined) return;
    const isAttempt = execution.hasFailed && this.#activation.jobs.some(({ type }) => type === "resume");
    const isOver = execution.closed || (execution.root?.over === true && execution.rootOutcome === undefined);
    if (isOver && !isAttempt) return;
    execution.cancelRequested = new CanceledError(reason);
    execution.cancelReason = reason;
    execution.cancelUnheard = execution.root?.returned !== undefined;
    if (isAttempt) cancelAttempt(execution, execution.cancelRequested);
    else execution.root?.cancel(execution.cancelRequested);
  }

  #answerQueries(): void {
    for (const job of this.#activation.jobs) if (job.type === "query") this.#answer(job);
  }
  #answer(job: QueryJob): void {
    const execution = this.#execution;
    try {
      const value = execution.encode(this.query(job.name, this.#codec.decode(job.args)), `the answer to query ${job.name}`);
      execution.replies.push({ type: "answerQuery", id: job.id, value });
    } catch (error) {
      execution.replies.push({ type: "failQuery", id: job.id, error: serializeError(error) });
    }
  }

  // ── the turn (X6) ──

  #advance(): void {
    const execution = this.#execution;
    while (execution.poison === undefined) {
      if (execution.rootOutcome !== undefined) rootEnded(execution, execution.rootOutcome);
      const unit = execution.scheduler.take();
      if (unit !== undefined) {
        execution.current = unit;
        this.#barrier(this.#stepEnded);
        execution.watch?.enter(execution);
        this.#stopwatch?.take();
        unit.step();
        if (this.#stopwatch !== undefined) queueMicrotask(this.#stopwatch.take);
        return;
      }
      if (execution.closed) break;
      if (execution.matcher?.catchUp() === true) continue; // before messages: history has these records before them
      if (execution.mailbox.takeNext()) continue;
      if (execution.conditions.settleNext()) continue;
      break;
    }
    if (execution.poison === undefined) {
      execution.mailbox.closeTurn();
      execution.matcher?.endTurn();
      this.#answerQueries();
      this.#checkTime(execution.root);
    }
    this.#complete();
  }
  readonly #stepEnded = (): void => {
    const execution = this.#execution;
    const unit = execution.current as Unit;
    try {
      execution.watch?.leave(execution);
      execution.current = undefined;
      execution.stepEnded(unit);
      this.#checkTime(unit);
      this.#advance();
    } catch (error) {
      this.#fault(error);
    }
  };
  /** Fails the turn if it exceeded the turn timeout (X9). */
  #checkTime(unit: Unit | undefined): void {
    if (this.#stopwatch === undefined) return;
    this.#stopwatch.take();
    const elapsed = this.#stopwatch.spent;
    if (elapsed <= this.#turnTimeout) return;
    const location = [...(unit?.open ?? [])].at(-1)?.location ?? unit?.title ?? "";
    this.#execution.violate(new TurnTimeoutError({ elapsed, limit: this.#turnTimeout, location }));
  }

  /** Calls `#finish` last: if something throws before that, `#fault` can still complete the turn. */
  #complete(): void {
    const completion = this.#completion();
    const finish = this.#finish;
    this.#finish = undefined;
    this.#activation = NO_ACTIVATION;
    this.#execution.current = undefined;
    finish?.(completion);
  }
  #completion(): Completion {
    const execution = this.#execution;
    const activation = this.#activation;
    if (execution.poison !== undefined) return { status: "failed", error: execution.poison };
    const { commands, replies, turnState } = execution;
    const replayed = (activation as Partial<ReplayTurn>).commands?.length ?? 0;
    const records = recordedJobs(activation.jobs, replies).length + commands.length + replayed;
    this.#records = execution.historyLength + records;
    if (records === 0) execution.time = this.#timeBefore; // P7: the turn is not recorded, so replay won't see its time
    const { time } = execution;
    const wants = execution.closed ? endWants(execution, activation.jobs) : undefined;
    if (turnState === undefined && wants === undefined && time <= activation.time) return { status: "ok", commands, replies };
    return {
      status: "ok",
      commands,
      replies,
      ...wants,
      ...(turnState !== undefined && { state: turnState }),
      ...(time > activation.time && { time }),
    };
  }

  // ── for the host ──

  /** The function to run for an open step, transaction, rollback or scheduled side effect. */
  body(seq: number): StepBody | undefined {
    return this.#execution.operations.get(seq)?.body;
  }
  /** The definition of a child that is being started, or was started and has not ended, from the parent's code. */
  childWorkflow(seq: number): AnyWorkflow | undefined {
    return this.#execution.operations.get(seq)?.child ?? this.#execution.children.get(seq)?.workflow;
  }
  /** The numbers of the open operations. */
  get openOperations(): number[] {
    return [...this.#execution.operations.keys()];
  }
  /** The operations that the run waits for: the number of each (`seq`), and its `description` in words. */
  get waiting(): { readonly seq: number; readonly description: string }[] {
    const waiting = [...this.#execution.operations.values()].filter(({ kind }) => !HAS_PARTS.has(kind));
    const stuck = waiting.every(({ kind, timed }) => INTERNAL.has(kind) && !timed) ? ", which nothing in progress can end" : "";
    return waiting.map(({ seq, description }) => ({ seq, description: description + stuck }));
  }
  /** What the run waits for, in words. */
  get waitingFor(): string[] {
    return this.waiting.map(({ description }) => description);
  }
  /** Signals that were delivered and that no code has consumed. The schema has already transformed them (M13). */
  get unconsumedSignals(): SignalJob[] {
    return this.#execution.mailbox.signals.map(({ id, name, payload }) => ({ type: "signal", id, name, payload, checked: true }));
  }
  /** The number of completed steps whose rollback would run if the run failed now. */
  get rollbacks(): number {
    return this.#execution.saga.size;
  }
  /** Encodes a value with the codec and limits of this run (P8, P9). */
  encode(value: unknown, what: string): Payload {
    return this.#execution.encode(value, what);
  }
  /** The last published state. */
  get state(): Payload | undefined {
    return this.#execution.state;
  }
  /** Whether a terminal command was emitted. */
  get closed(): boolean {
    return this.#execution.closed;
  }
  /** After a replay: whether the run must be activated even without jobs, because changed code freed it (V3) or it is resumed (D10). */
  get hasWork(): boolean {
    return this.#matcher?.hasWork ?? false;
  }
  /** The error of a rule that was broken between turns: the next turn fails with it (X7). */
  get violation(): Error | undefined {
    return this.#execution.poison;
  }
  /** Logs failures that no code can handle any more. Hosts that withhold rejections call it in the macrotask after a turn (X11). */
  reportUnheard(): void {
    if (this.#execution.unheard.size > 0) reportAllUnheard(this.#execution.unheard);
  }
  /** Evaluates a query on the last published state; advances no code (M11). */
  query(name: string, args: unknown): unknown {
    return evaluateQuery(this.#execution.workflow, name, this.#execution.state, args, this.#codec);
  }
}
