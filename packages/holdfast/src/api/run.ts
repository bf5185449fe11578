// A handle on a run: everything that can be asked of one from outside.
// Owns: nothing; the engine does the work, the store has the run.
// Invariants: M1 M3 M10 (sends are acknowledged when durable), M11 (queries need no worker), M12 (closed and unknown runs), M3 (a run of
// another workflow than the handle is for is an error at its first call).

import {
  type AnyWorkflow,
  CanceledError,
  type Duration,
  evaluateQuery,
  type History,
  HoldfastError,
  InvalidInputError,
  type OperationInfo,
  parseDuration,
  QueryFailedError,
  RunAlreadyExistsError,
  RunBlockedError,
  RunClosedError,
  RunFailedError,
  type RunInfo,
  RunNotFoundError,
  RunTerminatedError,
  reviveError,
  type SignalSpec,
  sealed,
  toHistory,
  UpdateFailedError,
  type UpdateSpec,
} from "@holdfast/core";
import { declaredMessage, validated } from "@holdfast/host";
import type { Engine } from "../engine/engine.ts";
import { blockedError, type RunEnd } from "../engine/resultWaiters.ts";
import { operationsOf } from "../host/operations.ts";
import { StoreCorruptError } from "../store/errors.ts";
import type { NewMessage, RunRow, SendResult, UpdateOutcome } from "../store/port.ts";
import { checkedName, checkedOptions, checkedReason, checkedSend, checkedSignal, RESULT, UPDATE } from "./options.ts";

/** What a sender is told of a run that it may write to. */
type Delivery = Exclude<SendResult, { status: "not-found" | "other-workflow" }>;

interface SendOptions {
  readonly idempotencyKey?: string;
  readonly tx?: unknown;
}

interface UpdateOptions extends SendOptions {
  readonly timeout?: Duration;
  readonly acceptWithin?: Duration;
}
type UpdateMessage = NewMessage & { readonly job: Extract<NewMessage["job"], { type: "update" }> };

export class RunHandle {
  readonly id: string;
  readonly #engine: Engine;
  readonly #workflow: AnyWorkflow | undefined;
  /** M3: the workflow that the run has to be of, until an answer of the store has shown that it is. An id never changes its workflow. */
  #expected: string | undefined;

  /** `isKnown`: the store has said that the run is of this workflow. */
  constructor(engine: Engine, id: string, workflow: AnyWorkflow | undefined, isKnown = false) {
    this.id = id;
    this.#engine = engine;
    this.#workflow = workflow;
    this.#expected = isKnown ? undefined : workflow?.name;
  }
  /** M3: throws if the run is of another workflow than this handle was asked for with. */
  #verified<T extends { readonly workflow: string }>(row: T): T {
    if (this.#expected !== undefined && row.workflow !== this.#expected)
      throw new RunAlreadyExistsError({ runId: this.id, workflow: row.workflow });
    this.#expected = undefined;
    return row;
  }

  // ── its end ──

  async result(given?: { timeout?: Duration; signal?: AbortSignal }): Promise<unknown> {
    const options = checkedOptions("result", given, RESULT);
    const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout);
    const signal = checkedSignal(options.signal);
    signal?.throwIfAborted();
    // M3: one of another workflow is not waited for. Known once a handle; where the run has closed, it is all that is asked.
    const known = this.#expected === undefined ? undefined : await this.#row();
    const row = known?.finishedAt === undefined ? await this.#engine.waitForEnd(this.id, { timeout, signal }) : known;
    if (row.status === "blocked") this.#engine.onBlockedResult(this.id);
    return resultOf(row, this.#engine);
  }

  // ── messages ──

  async signal(name: string, payload?: unknown, given?: SendOptions): Promise<void> {
    const options = checkedSend("signal", name, given);
    const spec = declaredMessage<SignalSpec<unknown>>(this.#workflow, "signals", name);
    await validated(`signal ${name}`, spec?.schema as never, payload);
    const id = options.idempotencyKey ?? this.#engine.environment.uuid();
    const job = { type: "signal", id, name, payload: this.#engine.encode(payload, `the payload of signal ${name}`) } as const;
    await this.#send({ job, idempotencyKey: options.idempotencyKey }, options.tx);
  }
  async update(name: string, input?: unknown, given?: UpdateOptions): Promise<unknown> {
    const options = checkedOptions("update", given, UPDATE);
    const message = await this.updateMessage(name, input, options);
    const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout);
    const result = await this.#deliver(message);
    // M10: an update that ended before its run closed still has its outcome.
    if (result.status === "closed") {
      const ended = await this.#engine.updateOutcome(this.id, message.job.id);
      if (ended === undefined) throw new RunClosedError({ runId: this.id, status: result.runStatus });
      return this.#reply(name, ended);
    }
    return this.#reply(name, await this.#outcomeOf(message, timeout));
  }
  async #outcomeOf({ job: { id, name }, acceptWithin: within }: UpdateMessage, timeout: number | undefined): Promise<UpdateOutcome> {
    try {
      if (within === undefined) return await this.#engine.waitForUpdate(this.id, id, { timeout });
      return await this.#engine.waitForAcceptance({ runId: this.id, id, name, within }, { timeout });
    } catch (error) {
      if (error instanceof RunBlockedError) this.#engine.onBlockedResult(this.id);
      throw error;
    }
  }
  async updateMessage(name: string, input: unknown, given?: UpdateOptions): Promise<UpdateMessage> {
    const options: UpdateOptions = checkedSend("update", name, given);
    refuseTx(options);
    const spec = declaredMessage<UpdateSpec<unknown, unknown>>(this.#workflow, "updates", name);
    await validated(`update ${name}`, spec?.schema as never, input);
    const id = options.idempotencyKey ?? this.#engine.environment.uuid();
    const job = { type: "update", id, name, input: this.#engine.encode(input, `the input of update ${name}`) } as const;
    // M8: no time at all is the same as none given: the activation that delivers it decides.
    const acceptWithin = options.acceptWithin === undefined ? 0 : parseDuration(options.acceptWithin);
    return { job, idempotencyKey: options.idempotencyKey, acceptWithin: acceptWithin === 0 ? undefined : acceptWithin };
  }
  #reply(name: string, outcome: UpdateOutcome): unknown {
    if (outcome.status === "completed") return this.#engine.codec.decode(outcome.value);
    const error = reviveError(outcome.error);
    throw outcome.status === "rejected" || error instanceof HoldfastError ? error : new UpdateFailedError({ update: name, cause: error });
  }
  async #send(message: NewMessage, tx?: unknown): Promise<void> {
    const result = await this.#deliver(message, tx);
    if (result.status === "closed") throw new RunClosedError({ runId: this.id, status: result.runStatus });
  }
  /** M3: the message carries the workflow that the run has to be of, so that to know costs no call. */
  async #deliver(message: NewMessage, tx?: unknown): Promise<Delivery> {
    const result = await this.#engine.send({ runId: this.id, message, workflow: this.#expected }, tx);
    if (result.status === "not-found") throw new RunNotFoundError({ runId: this.id });
    if (result.status === "other-workflow") throw new RunAlreadyExistsError({ runId: this.id, workflow: result.workflow });
    if (tx === undefined) this.#expected = undefined; // what a transaction sees may never come to be
    return result;
  }
  async cancel(reason?: string): Promise<void> {
    await this.#send({ job: { type: "cancel", reason: checkedReason("cancel", reason) } });
  }
  async terminate(reason?: string): Promise<void> {
    this.#engine.assertOpen();
    const why = checkedReason("terminate", reason);
    if (this.#expected !== undefined) await this.#row();
    const [result] = await this.#engine.terminate([{ runId: this.id, reason: why }]);
    if (result?.status === "not-found") throw new RunNotFoundError({ runId: this.id });
    if (result?.status === "closed") throw new RunClosedError({ runId: this.id, status: result.runStatus });
  }
  async resume(): Promise<void> {
    this.#engine.assertOpen();
    if (this.#expected !== undefined) await this.#row();
    const [result] = await this.#engine.store.resume([this.id]);
    if (result === "not-found") throw new RunNotFoundError({ runId: this.id });
    if (result === "not-resumable") {
      const row = await this.#row();
      if (row.finishedAt === undefined) return; // it has not begun: there is nothing to wake
      throw new HoldfastError(
        `Run ${this.id} is ${row.status}: of runs that have ended, only a failed one whose rollbacks have not run can be resumed.`,
        {
          code: "HF_NOT_RESUMABLE",
        },
      );
    }
  }

  // ── looking at it ──

  async #row(): Promise<RunRow> {
    const [row] = await this.#engine.readable.get([this.id]);
    if (row === undefined) throw new RunNotFoundError({ runId: this.id });
    return this.#verified(row);
  }
  async query(name: string, args?: unknown): Promise<unknown> {
    checkedName("query", name);
    const row = await this.#row();
    const workflow = this.#workflow ?? this.#engine.definitionOf(row);
    if (workflow === undefined) {
      const reason = `this process does not know workflow "${row.workflow}": pass it, engine.run(id, workflow)`;
      throw new QueryFailedError({ query: name, reason });
    }
    const { codec } = this.#engine;
    const answer = evaluateQuery(workflow, name, row.state, args, codec);
    try {
      return codec.decode(codec.encode(answer));
    } catch (cause) {
      // biome-ignore lint/style/useErrorCause: it is among the details
      throw new QueryFailedError({ query: name, reason: `its result can't be given: ${(cause as Error).message}`, cause });
    }
  }
  async state(): Promise<unknown> {
    const { state } = await this.#row();
    return state === undefined ? undefined : this.#engine.codec.decode(state);
  }
  async describe(): Promise<RunInfo> {
    return this.#engine.describeRow(await this.#row());
  }
  async history(): Promise<History> {
    const row = await this.#row();
    return toHistory(sealed(await this.#engine.readable.history(this.id), this.#engine.codec), row);
  }
  async operations(): Promise<OperationInfo[]> {
    const { finishedAt } = await this.#row();
    const { readable: store, codec } = this.#engine;
    const [turns, attempts] = await Promise.all([store.history(this.id), store.attempts(this.id)]);
    const workers = await store.workers?.(this.id); // behind the turns: none of them may be unknown to it
    return operationsOf(turns, attempts, workers ?? new Map(), codec, finishedAt);
  }
}

/** An update waits for its outcome, and a transaction that waits for it never commits: nobody could take it. */
function refuseTx(options: { readonly tx?: unknown }): void {
  if (options.tx === undefined) return;
  const message = "An update can't be sent in a transaction: its outcome comes only after the commit. Send a signal.";
  throw new InvalidInputError({ what: "update", issues: [{ message, path: ["tx"] }] });
}

/** What `result()` gives for a run that has ended, or is blocked (V4). */
function resultOf(row: RunEnd, engine: Engine): unknown {
  const cause = row.error === undefined ? undefined : reviveError(row.error);
  switch (row.status) {
    case "completed":
      // A run that completes always has one, if only that of `undefined`: it is gone.
      if (row.output === undefined)
        throw new StoreCorruptError({ where: `The store of run ${row.id}`, cause: new TypeError("It has completed, and has no output.") });
      return engine.codec.decode(row.output);
    case "canceled":
      throw cause instanceof CanceledError ? cause : new CanceledError(cause?.message);
    case "terminated":
      throw cause instanceof RunTerminatedError ? cause : new RunTerminatedError({ runId: row.id });
    case "blocked":
      throw blockedError(row);
    default:
      throw new RunFailedError({ runId: row.id, resumable: row.resumable ?? true, ...(cause !== undefined && { cause }) });
  }
}
