// A handle on a run: everything that callers can do with a run from outside.
// Owns: checking and encoding what is sent, and turning the backend's answers into errors. The backend owns the run.
// Invariants: M1 M3 M10 (sends are acknowledged when durable), M11 (queries need no worker), M12 (closed and unknown runs), M3 (if the run
// belongs to another workflow than the handle, the first call throws).

import {
  type AnyWorkflow,
  adviseAs,
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
  RunOpenError,
  RunTerminatedError,
  reviveError,
  type SignalSpec,
  UpdateFailedError,
  type UpdateSpec,
} from "@holdfast/core";
import { declaredMessage, timeOrderedId, validated } from "@holdfast/host";
import { featureOf } from "../backend/features.ts";
import type { CancelJob, Message, NotDelivered, RunEnd, RunSnapshot, SignalJob, UpdateAnswer, UpdateJob } from "../backend/port.ts";
import { blockedError } from "../backend/waiting.ts";
import { BULK_WORKFLOW, NO_PROGRESS } from "../engine/bulk.ts";
import { StoreCorruptError } from "../store/errors.ts";
import { type Client, encoded } from "./client.ts";
import type { Reason } from "./operatingTypes.ts";
import { checkedFork, checkedName, checkedOptions, checkedReason, checkedSend, checkedSignal, RESULT, UPDATE } from "./options.ts";
import { runInfo } from "./runInfo.ts";
import type { ForkOptions } from "./types.ts";

interface SendOptions {
  readonly idempotencyKey?: string;
  readonly tx?: unknown;
}

interface UpdateOptions extends SendOptions {
  readonly timeout?: Duration;
  readonly acceptWithin?: Duration;
}

export class RunHandle {
  readonly id: string;
  readonly #client: Client;
  readonly #workflow: AnyWorkflow | undefined;
  /** M3: the workflow that the run must belong to; undefined once the store has confirmed it. The workflow of an id never changes. */
  #expected: string | undefined;

  /** `isKnown`: the store has confirmed that the run belongs to this workflow. */
  constructor(client: Client, id: string, workflow: AnyWorkflow | undefined, isKnown = false) {
    this.id = id;
    this.#client = client;
    this.#workflow = workflow;
    this.#expected = isKnown ? undefined : workflow?.name;
  }
  /** M3: throws if the run belongs to another workflow than this handle. */
  #verified<T extends { readonly workflow: string }>(row: T): T {
    if (this.#expected !== undefined && row.workflow !== this.#expected)
      throw new RunAlreadyExistsError({ runId: this.id, workflow: row.workflow });
    this.#expected = undefined;
    return row;
  }

  // ── result ──

  async result(given?: { timeout?: Duration; signal?: AbortSignal }): Promise<unknown> {
    const options = checkedOptions("result", given, RESULT);
    const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout, "timeout");
    const signal = checkedSignal(options.signal);
    signal?.throwIfAborted();
    // M3: a run of another workflow is not waited for. Checked once per handle; if the run has closed, no further call is needed.
    const known = this.#expected === undefined ? undefined : await this.#row();
    const row = known?.finishedAt === undefined ? await this.#client.backend.ended(this.id, { timeout, signal }) : known;
    if (row.status === "blocked") this.#client.onBlocked?.(this.id);
    return resultOf(row, this.#client);
  }

  // ── messages ──

  async signal(name: string, payload?: unknown, given?: SendOptions): Promise<void> {
    const options = checkedSend("signal", name, given);
    const spec = declaredMessage<SignalSpec<unknown>>(this.#workflow, "signals", name);
    await validated(`signal ${name}`, spec?.schema as never, payload);
    const id = options.idempotencyKey ?? this.#client.environment.uuid();
    const job = { type: "signal", id, name, payload: encoded(this.#client, payload, `the payload of signal ${name}`) } as const;
    await this.#send({ job, idempotencyKey: options.idempotencyKey }, options.tx);
  }
  async update(name: string, input?: unknown, given?: UpdateOptions): Promise<unknown> {
    const options = checkedOptions("update", given, UPDATE);
    const message = await this.updateMessage(name, input, options);
    const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout, "timeout");
    return this.#reply(name, await this.#answerTo(message, timeout));
  }
  async #answerTo(message: Message<UpdateJob>, timeout: number | undefined): Promise<UpdateAnswer> {
    try {
      return await this.#client.backend.update({ runId: this.id, workflow: this.#expected, message }, { timeout });
    } catch (error) {
      if (error instanceof RunBlockedError) this.#client.onBlocked?.(this.id);
      throw error;
    }
  }
  async updateMessage(name: string, input: unknown, given?: UpdateOptions): Promise<Message<UpdateJob>> {
    const options: UpdateOptions = checkedSend("update", name, given);
    refuseTx(options);
    const spec = declaredMessage<UpdateSpec<unknown, unknown>>(this.#workflow, "updates", name);
    await validated(`update ${name}`, spec?.schema as never, input);
    const id = options.idempotencyKey ?? this.#client.environment.uuid();
    const job = { type: "update", id, name, input: encoded(this.#client, input, `the input of update ${name}`) } as const;
    // M8: a time of 0 is the same as none: the activation that delivers the update decides.
    const acceptWithin = options.acceptWithin === undefined ? 0 : parseDuration(options.acceptWithin, "acceptWithin");
    return { job, idempotencyKey: options.idempotencyKey, acceptWithin: acceptWithin === 0 ? undefined : acceptWithin };
  }
  #reply(name: string, answer: UpdateAnswer): unknown {
    switch (answer.status) {
      case "completed":
        this.#expected = undefined;
        return this.#client.codec.decode(answer.value);
      case "rejected":
        throw reviveError(answer.error);
      case "failed": {
        const error = reviveError(answer.error);
        throw error instanceof HoldfastError ? error : new UpdateFailedError({ update: name, cause: error });
      }
      default:
        throw undelivered(this.id, answer);
    }
  }
  /** M3: the message names the workflow that the run must belong to, so that checking it costs no extra call. */
  async #send(message: Message<SignalJob | CancelJob>, tx?: unknown): Promise<void> {
    const answer = await this.#client.backend.send({ runId: this.id, workflow: this.#expected, message }, tx);
    if (answer.status !== "sent" && answer.status !== "duplicate") throw undelivered(this.id, answer);
    if (tx === undefined) this.#expected = undefined; // what a transaction sees may be rolled back
  }
  async cancel(reason?: string): Promise<void> {
    await this.#send({ job: { type: "cancel", reason: checkedReason("cancel", reason) } });
  }
  async terminate(reason?: string): Promise<void> {
    const why = checkedReason("terminate", reason);
    if (this.#expected !== undefined) await this.#row();
    const answer = await this.#client.backend.terminate(this.id, why);
    if (answer.status !== "sent" && answer.status !== "duplicate") throw undelivered(this.id, answer);
  }
  async resume(): Promise<void> {
    if (this.#expected !== undefined) await this.#row();
    const answer = await this.#client.backend.resume(this.id);
    if (answer === "not-found") throw new RunNotFoundError({ runId: this.id });
    if (answer === "not-resumable") {
      const row = await this.#row();
      if (row.finishedAt === undefined) return; // it has not begun, so there is nothing to wake
      throw new HoldfastError(
        `Run ${this.id} is ${row.status}. A run that has ended can be resumed only if it failed and its rollbacks have not run.`,
        {
          code: "HF_NOT_RESUMABLE",
        },
      );
    }
  }

  async fork(given: ForkOptions): Promise<RunHandle> {
    const options = checkedFork(given);
    const fork = featureOf(this.#client.backend, "fork");
    if (this.#expected !== undefined) await this.#row();
    const id = options.id ?? timeOrderedId(this.#client.environment);
    const answer = await fork(this.id, { ...options, id });
    switch (answer.status) {
      case "not-found":
        throw new RunNotFoundError({ runId: this.id });
      case "conflict":
        throw new RunAlreadyExistsError({ runId: id });
      case "failed":
        throw answer.error;
      default:
        return new RunHandle(this.#client, id, this.#workflow, true);
    }
  }
  async delete(): Promise<void> {
    const remove = featureOf(this.#client.backend, "delete");
    if (this.#expected !== undefined) await this.#row();
    const answer = await remove(this.id);
    if (answer === "not-found") throw new RunNotFoundError({ runId: this.id });
    if (answer === "open") throw new RunOpenError({ runId: this.id });
  }

  // ── reading ──

  async #row(): Promise<RunSnapshot> {
    const [row] = await this.#client.backend.get([this.id]);
    if (row === undefined) throw new RunNotFoundError({ runId: this.id });
    return this.#verified(row);
  }
  async query(name: string, args?: unknown): Promise<unknown> {
    checkedName("query", name);
    const row = await this.#row();
    const workflow = this.#workflow ?? this.#client.definitions.of(row);
    if (workflow === undefined) {
      const reason = `this process does not know workflow "${row.workflow}": pass it to engine.run(id, workflow)`;
      throw new QueryFailedError({ query: name, reason });
    }
    const { codec } = this.#client;
    const answer = evaluateQuery(workflow, name, row.state, args, codec);
    try {
      return codec.decode(codec.encode(answer));
    } catch (cause) {
      // biome-ignore lint/style/useErrorCause: it is among the details
      throw new QueryFailedError({ query: name, reason: `its result can't be encoded: ${(cause as Error).message}`, cause });
    }
  }
  async state(): Promise<unknown> {
    const { state, workflow } = await this.#row();
    if (state !== undefined) return this.#client.codec.decode(state);
    return workflow === BULK_WORKFLOW ? NO_PROGRESS : undefined; // B3: before its first turn
  }
  async describe(): Promise<RunInfo> {
    const run = await this.#client.backend.describe(this.id);
    if (run === undefined) throw new RunNotFoundError({ runId: this.id });
    return runInfo(this.#verified(run), this.#client.codec);
  }
  async why(): Promise<Reason[]> {
    const why = featureOf(this.#client.backend, "why");
    if (this.#expected !== undefined) await this.#row();
    const reasons = await why(this.id);
    if (reasons === undefined) throw new RunNotFoundError({ runId: this.id });
    return reasons.map((one) => ({ ...one, since: one.since === undefined ? undefined : new Date(one.since) }));
  }
  async history(): Promise<History> {
    return this.#client.backend.history(await this.#row());
  }
  async operations(): Promise<OperationInfo[]> {
    return this.#client.backend.operations(await this.#row());
  }
}

/** An update waits for its outcome. In a transaction it would wait forever, since no worker sees the update before the commit. */
function refuseTx(options: { readonly tx?: unknown }): void {
  if (options.tx === undefined) return;
  const message = "An update can't be sent in a transaction: its outcome is known only after the commit. Send a signal instead.";
  throw new InvalidInputError({ what: "update", issues: [{ message, path: ["tx"] }] });
}

/** M12: the error for a sender whose message was not delivered. */
function undelivered(runId: string, answer: NotDelivered): HoldfastError {
  switch (answer.status) {
    case "not-found":
      return new RunNotFoundError({ runId });
    case "other-workflow":
      return new RunAlreadyExistsError({ runId, workflow: answer.workflow });
    case "closed":
      return new RunClosedError({ runId, status: answer.runStatus });
  }
}

/** What `result()` returns or throws for a run that has ended or is blocked (V4). */
function resultOf(row: RunEnd, { codec, backend: { advice = {} } }: Client): unknown {
  const cause = row.error === undefined ? undefined : reviveError(row.error);
  switch (row.status) {
    case "completed":
      // A completed run always has an output, even if it is that of `undefined`: here it is missing.
      if (row.output === undefined)
        throw new StoreCorruptError({
          where: `The store of run ${row.id}`,
          cause: new TypeError("The run has completed, but its output is missing."),
        });
      return codec.decode(row.output);
    case "canceled":
      throw cause instanceof CanceledError ? cause : new CanceledError(cause?.message);
    case "terminated":
      throw cause instanceof RunTerminatedError ? cause : new RunTerminatedError({ runId: row.id });
    case "blocked":
      throw adviseAs(blockedError(row), advice);
    default:
      throw adviseAs(
        new RunFailedError({ runId: row.id, resumable: row.resumable ?? true, ...(cause !== undefined && { cause }) }),
        advice,
      );
  }
}
