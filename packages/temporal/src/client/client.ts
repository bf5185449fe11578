// The client side of the backend: everything of the port except workers.
// Owns: which part answers which call, and that nothing is written once it closes.
// Invariants: M3 (a message for a run of another workflow is refused), M12 (unknown and closed runs are answers).

import { type History, type HostAdvice, type OperationInfo, RunNotFoundError, UnsupportedError } from "@holdfast/core";
import {
  type AddressedTo,
  type BackendSchedules,
  type CancelJob,
  engineClosed,
  type Message,
  type Reason,
  type ResumeAnswer,
  type RunCounts,
  type RunDescription,
  type RunEnd,
  type RunPage,
  type RunSelection,
  type RunSnapshot,
  type RunStart,
  type SendAnswer,
  type SignalJob,
  type StartAnswer,
  type UpdateAnswer,
  type UpdateJob,
  type WaitOptions,
} from "holdfast/backend";
import { ADVICE } from "../advice.ts";
import { readMemo } from "../memo.ts";
import { isImpossible } from "../names.ts";
import { Blocking } from "./blocking.ts";
import { Cancellations, closedAnswer } from "./cancellations.ts";
import { type Description, Executions, isOpen } from "./executions.ts";
import { Histories } from "./histories.ts";
import { inParallel } from "./parallel.ts";
import { Results } from "./results.ts";
import { Schedules } from "./schedules.ts";
import { SearchAttributes } from "./searchAttributes.ts";
import { unlessDeleted } from "./serviceErrors.ts";
import { type ClientSettings, HOST } from "./settings.ts";
import { Signals } from "./signals.ts";
import { Snapshots } from "./snapshots.ts";
import { refuseTx, Starts } from "./starts.ts";
import { Updates } from "./updates.ts";
import { Visibility } from "./visibility.ts";
import { Waits } from "./waiting.ts";

/** Runs of one call that are read at the same time. */
const READ_AT_ONCE = 20;

export class TemporalClient {
  readonly name = HOST;
  readonly advice: HostAdvice = ADVICE;
  /** Workers use the same list. */
  readonly searchAttributes: SearchAttributes;
  readonly schedules: BackendSchedules;
  readonly #executions: Executions;
  readonly #snapshots: Snapshots;
  readonly #starts: Starts;
  readonly #signals: Signals;
  readonly #updates: Updates;
  readonly #cancellations: Cancellations;
  readonly #results: Results;
  readonly #histories: Histories;
  readonly #visibility: Visibility;
  readonly #waits: Waits;
  #isClosing = false;
  #isClosed = false;

  constructor(settings: ClientSettings) {
    const executions = new Executions(settings);
    const blocking = new Blocking(settings, executions);
    this.searchAttributes = new SearchAttributes(settings.connection, settings.searchAttributes);
    this.#executions = executions;
    this.#snapshots = new Snapshots(settings, executions, blocking);
    this.#signals = new Signals(settings);
    this.#updates = new Updates(settings, executions, blocking);
    this.#cancellations = new Cancellations(settings, executions);
    this.#results = new Results(settings, blocking);
    this.#waits = new Waits((runId) => this.describe(runId));
    this.#histories = new Histories(settings, executions, this.#snapshots);
    const { searchAttributes } = this;
    this.#visibility = new Visibility(settings, { executions, snapshots: this.#snapshots, searchAttributes });
    this.#starts = new Starts(settings, {
      executions,
      searchAttributes,
      signals: this.#signals,
      updates: this.#updates,
    });
    this.schedules = new Schedules({
      settings,
      starts: this.#starts,
      executions,
      assertOpen: () => this.#assertOpen(),
      assertReadable: () => this.#assertReadable(),
    });
  }

  // ── closing ──

  /** From now on nothing is written; reading and waiting continue. */
  refuse(): void {
    this.#isClosing = true;
  }
  /** Ends all waits. The connection belongs to the caller. */
  close(): void {
    this.refuse();
    this.#isClosed = true;
    this.#waits.close();
  }
  #assertOpen(): void {
    if (this.#isClosing) throw engineClosed();
  }
  #assertReadable(): void {
    if (this.#isClosed) throw engineClosed();
  }

  // ── writing ──

  async create(starts: readonly RunStart[], tx?: unknown): Promise<StartAnswer[]> {
    this.#assertOpen();
    refuseTx("start", tx);
    return this.#starts.create(starts);
  }
  async send({ runId, workflow, message }: AddressedTo<Message<SignalJob | CancelJob>>, tx?: unknown): Promise<SendAnswer> {
    this.#assertOpen();
    refuseTx("signal", tx);
    const known = await this.#checked(runId, workflow);
    if (known !== undefined && "status" in known) return known;
    const { job } = message;
    if (job.type === "cancel") return this.#cancellations.cancel(runId, job.reason, known?.description);
    const sent = await this.#signals.send(runId, { ...message, job });
    if (sent !== "closed") return { status: sent };
    const description = await this.#executions.describe(runId);
    // Continued as new while the signal was under way: to the next execution.
    if (description !== undefined && isOpen(description)) return this.send({ runId, workflow: undefined, message });
    return closedAnswer(description);
  }
  /** M3: refuses a run of another workflow. The description is returned if it was read. */
  async #checked(
    runId: string,
    workflow: string | undefined,
  ): Promise<Extract<SendAnswer, { status: "not-found" | "other-workflow" }> | { readonly description: Description } | undefined> {
    if (workflow === undefined) return undefined;
    const description = await this.#executions.describe(runId);
    if (description === undefined) return { status: "not-found" };
    const actual = description.workflowExecutionInfo?.type?.name ?? "";
    return actual === workflow ? { description } : { status: "other-workflow", workflow: actual };
  }
  async update(update: AddressedTo<Message<UpdateJob>>, wait: WaitOptions): Promise<UpdateAnswer> {
    this.#assertOpen();
    const { runId, workflow, message } = update;
    if (isImpossible(runId)) return { status: "not-found" };
    return this.#waits.until({ runId, update: message.job.name }, wait, async (waiting) => {
      const known = await this.#checked(runId, workflow);
      if (known !== undefined && "status" in known) return known;
      return this.#updates.outcome(runId, message, waiting);
    });
  }
  async terminate(runId: string, reason: string | undefined): Promise<SendAnswer> {
    this.#assertOpen();
    return this.#cancellations.terminate(runId, reason);
  }
  /** Temporal repeats the task of a blocked run by itself, and has no way to continue a failed run. */
  async resume(runId: string): Promise<ResumeAnswer> {
    this.#assertOpen();
    const description = await this.#executions.describe(runId);
    if (description === undefined) return "not-found";
    const run = await this.#snapshots.from(description);
    if (run.status === "blocked") return "resumed";
    if (run.status === "pending") return "not-resumable";
    if (run.finishedAt === undefined) return "woken";
    if (run.status !== "failed" || readMemo(description.workflowExecutionInfo?.memo?.fields).isRollingBack === true) return "not-resumable";
    const instead = `Start a new run, or reset this one with Temporal's tools: temporal workflow reset --workflow-id ${JSON.stringify(runId)} --type LastWorkflowTask --reason "…".`;
    throw new UnsupportedError({ feature: "resume of a failed run", host: HOST, instead });
  }
  async delete(runId: string): Promise<"deleted" | "not-found" | "open"> {
    this.#assertOpen();
    return this.#cancellations.delete(runId);
  }

  // ── reading ──

  async ended(runId: string, wait: WaitOptions): Promise<RunEnd> {
    this.#assertReadable();
    return this.#waits.until({ runId }, wait, (waiting) => this.#results.ended(runId, waiting));
  }
  async get(runIds: readonly string[]): Promise<(RunSnapshot | undefined)[]> {
    this.#assertReadable();
    return inParallel(runIds, READ_AT_ONCE, (runId) => this.#snapshots.of(runId));
  }
  async describe(runId: string): Promise<RunDescription | undefined> {
    this.#assertReadable();
    return this.#histories.describe(runId);
  }
  async why(runId: string): Promise<readonly Reason[] | undefined> {
    this.#assertReadable();
    return this.#histories.why(runId);
  }
  async operations(run: RunSnapshot): Promise<OperationInfo[]> {
    this.#assertReadable();
    return found(run, this.#histories.operations(run));
  }
  async history(run: RunSnapshot): Promise<History> {
    this.#assertReadable();
    return found(run, this.#histories.portable(run));
  }
  async list(page: RunPage): Promise<{ readonly runs: readonly RunDescription[]; readonly cursor: string | undefined }> {
    this.#assertReadable();
    return this.#visibility.list(page);
  }
  async count(selection: RunSelection): Promise<RunCounts> {
    this.#assertReadable();
    return this.#visibility.count(selection);
  }
}

/** A run that was deleted since it was read is not found. */
async function found<T>({ id }: RunSnapshot, reading: Promise<T>): Promise<T> {
  const result = await unlessDeleted(reading);
  if (result === undefined) throw new RunNotFoundError({ runId: id });
  return result;
}
