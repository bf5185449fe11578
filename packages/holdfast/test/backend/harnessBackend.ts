// A second backend, written against `holdfast/backend` only: runs live in memory, and the core's harness drives them. Time skips.
// Owns: its runs, its workers, and a record of everything that crossed the port.
// Invariants: those of `Backend`; it has no store, no leases and no transactions, as a backend on a remote service has none.

import {
  type Codec,
  formatLocation,
  type History,
  type Job,
  type OperationInfo,
  type Payload,
  RunClosedError,
  RunNotFoundError,
  type RunStatus,
  type SerializedError,
  serializeError,
  UnsupportedError,
} from "@holdfast/core";
import { drive, Harness } from "@holdfast/core/testing";
import {
  type AddressedTo,
  type Backend,
  type BackendWorker,
  blockedError,
  type CancelJob,
  engineClosed,
  type Message,
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
  type UpdateOutcome,
  type WaitOptions,
  type WorkerSettings,
  waitTimeout,
} from "holdfast/backend";

interface HostedRun {
  readonly start: RunStart;
  readonly createdAt: number;
  readonly inbox: Job[];
  readonly keys: Set<string>;
  harness: Harness | undefined;
  terminated: SerializedError | undefined;
  blocked: SerializedError | undefined;
  finishedAt: number | undefined;
  attempt: number;
  /** The turns that are under way. */
  working: Promise<void>;
}

type AnyMessage =
  | Message<SignalJob>
  | Message<UpdateJob>
  | Message<CancelJob>
  | Message<SignalJob | CancelJob>
  | Message<SignalJob | UpdateJob>;

const CLOSED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated"]);

export class HarnessBackend implements Backend {
  readonly name = "the harness";
  /** The arguments of every call, in order. */
  readonly crossed: { readonly call: string; readonly args: readonly unknown[] }[] = [];
  readonly #codec: Codec;
  readonly #runs = new Map<string, HostedRun>();
  readonly #workers = new Set<HarnessWorker>();
  #changed = resolvers<void>();
  #closure: Promise<void> | undefined;

  /** `codec`: for workflow code. */
  constructor(codec: Codec) {
    this.#codec = codec;
  }

  // ── starting ──

  async create(starts: readonly RunStart[], tx?: unknown): Promise<StartAnswer[]> {
    this.#write("create", starts);
    if (tx !== undefined) throw new UnsupportedError({ feature: "tx", host: this.name, instead: "Start the run after your commit." });
    return starts.map((start) => this.#create(start));
  }
  #create(start: RunStart): StartAnswer {
    const { id, workflow, onConflict, messages = [] } = start;
    const existing = this.#runs.get(id);
    if (existing === undefined) {
      const run: HostedRun = {
        start,
        createdAt: Date.now(),
        inbox: messages.map(({ job }) => job),
        keys: new Set(messages.map(({ job }) => job.id)),
        harness: undefined,
        terminated: undefined,
        blocked: undefined,
        finishedAt: undefined,
        attempt: 1,
        working: Promise.resolve(),
      };
      this.#runs.set(id, run);
      this.#advance(run);
      return { status: "created", id };
    }
    const runStatus = statusOf(existing);
    const isInTheWay = existing.start.workflow !== workflow || onConflict === "reject" || (CLOSED.has(runStatus) && messages.length > 0);
    if (isInTheWay) return { status: "conflict", id, runStatus, workflow: existing.start.workflow };
    for (const message of messages) this.#deliver(existing, message);
    return { status: "existing", id };
  }

  // ── messages ──

  async send({ runId, workflow, message }: Parameters<Backend["send"]>[0], tx?: unknown): Promise<SendAnswer> {
    this.#write("send", [runId, message]);
    if (tx !== undefined) throw new UnsupportedError({ feature: "tx", host: this.name });
    return this.#sendTo(runId, workflow, message);
  }
  async update({ runId, workflow, message }: AddressedTo<Message<UpdateJob>>, wait: WaitOptions): Promise<UpdateAnswer> {
    this.#write("update", [runId, message]);
    const { id } = message.job;
    const sent = this.#sendTo(runId, workflow, message);
    const run = this.#runs.get(runId);
    if (sent.status === "not-found" || sent.status === "other-workflow") return sent;
    if (run === undefined) return { status: "not-found" };
    if (sent.status === "closed") return outcomeOf(run, id) ?? sent;
    return this.#until({ runId, update: id }, wait, () => {
      const outcome = outcomeOf(run, id);
      if (outcome !== undefined) return outcome;
      if (run.blocked !== undefined) throw blockedError({ id: runId, error: run.blocked });
      if (CLOSED.has(statusOf(run))) throw new RunClosedError({ runId, status: statusOf(run) });
      return undefined;
    });
  }
  #sendTo(runId: string, workflow: string | undefined, message: AnyMessage): SendAnswer {
    const run = this.#runs.get(runId);
    if (run === undefined) return { status: "not-found" };
    if (workflow !== undefined && workflow !== run.start.workflow) return { status: "other-workflow", workflow: run.start.workflow };
    return this.#deliver(run, message);
  }
  #deliver(run: HostedRun, { job, idempotencyKey }: AnyMessage): SendAnswer {
    const { type, id } = job as { type: string; id?: string };
    const key = idempotencyKey ?? id;
    if (key !== undefined && run.keys.has(key)) return { status: "duplicate" };
    const runStatus = statusOf(run);
    if (type === "cancel" && runStatus === "canceled") return { status: "duplicate" };
    if (CLOSED.has(runStatus)) return { status: "closed", runStatus };
    if (key !== undefined) run.keys.add(key);
    run.inbox.push(job);
    this.#advance(run);
    return { status: "sent" };
  }
  async terminate(runId: string, reason: string | undefined): Promise<SendAnswer> {
    this.#write("terminate", [runId]);
    const run = this.#runs.get(runId);
    if (run === undefined) return { status: "not-found" };
    const runStatus = statusOf(run);
    if (CLOSED.has(runStatus)) return { status: "closed", runStatus };
    run.terminated = serializeError(new Error(reason ?? "terminated"));
    run.finishedAt = Date.now();
    this.#notify();
    return { status: "sent" };
  }
  async resume(runId: string): Promise<ResumeAnswer> {
    this.#write("resume", [runId]);
    const run = this.#runs.get(runId);
    if (run === undefined) return "not-found";
    const status = statusOf(run);
    if (status !== "failed" || run.harness === undefined) return CLOSED.has(status) || status === "pending" ? "not-resumable" : "woken";
    await run.harness.resume();
    run.attempt++;
    run.finishedAt = undefined;
    this.#advance(run);
    return "resumed";
  }

  // ── turns ──

  #advance(run: HostedRun): void {
    run.working = run.working.then(() => this.#turns(run));
  }
  async #turns(run: HostedRun): Promise<void> {
    const { id, workflow, version, queue, input, seed } = run.start;
    const worker = [...this.#workers].find((one) => one.settings.queue === queue && one.settings.workflows.find(workflow, version));
    const code = worker?.settings.workflows.find(workflow, version);
    if (worker === undefined || code === undefined || CLOSED.has(statusOf(run))) return;
    const jobs = run.inbox.splice(0);
    try {
      if (run.harness === undefined) {
        run.harness = new Harness(code, { codec: this.#codec, id, seed });
        await run.harness.turn({ type: "start", runId: id, workflow, version, input, seed, startedAt: run.harness.time }, ...jobs);
      } else if (jobs.length > 0) await run.harness.turn(...jobs);
      worker.active++;
      await drive(run.harness, { activities: [...worker.settings.activities.values()] as never, workflows: worker.settings.workflows.all });
    } catch (error) {
      run.blocked = serializeError(error);
    } finally {
      worker.active = Math.max(0, worker.active - 1);
    }
    if (CLOSED.has(statusOf(run))) run.finishedAt ??= Date.now();
    this.#notify();
  }
  async startWorker(settings: WorkerSettings): Promise<BackendWorker> {
    this.#write("startWorker", [settings.id, settings.queue]);
    const worker = new HarnessWorker(settings, () => this.#workers.delete(worker));
    this.#workers.add(worker);
    for (const run of this.#runs.values()) this.#advance(run);
    return worker;
  }

  // ── waiting ──

  ended(runId: string, wait: WaitOptions): Promise<RunEnd> {
    return this.#until({ runId }, wait, () => {
      const run = this.#runs.get(runId);
      if (run === undefined) throw new RunNotFoundError({ runId });
      const end = snapshotOf(run);
      return end.status === "blocked" || CLOSED.has(end.status) ? end : undefined;
    });
  }
  async #until<T>(what: { runId: string; update?: string }, { timeout, signal }: WaitOptions, look: () => T | undefined): Promise<T> {
    const limit = resolvers<never>();
    limit.promise.catch(() => {});
    const run = this.#runs.get(what.runId);
    const late = () => limit.reject(waitTimeout(what, timeout ?? 0, run === undefined ? undefined : describe(run)));
    const timer = timeout === undefined ? undefined : setTimeout(late, timeout);
    const abort = () => limit.reject(signal?.reason);
    signal?.addEventListener("abort", abort);
    try {
      for (;;) {
        const found = look();
        if (found !== undefined) return found;
        if (this.#closure !== undefined) throw engineClosed();
        await Promise.race([this.#changed.promise, limit.promise]);
      }
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
  #notify(): void {
    this.#changed.resolve();
    this.#changed = resolvers();
  }

  // ── reading ──

  async get(runIds: readonly string[]): Promise<(RunSnapshot | undefined)[]> {
    return runIds.map((id) => {
      const run = this.#runs.get(id);
      return run === undefined ? undefined : snapshotOf(run);
    });
  }
  async describe(runId: string): Promise<RunDescription | undefined> {
    const run = this.#runs.get(runId);
    return run === undefined ? undefined : describe(run);
  }
  async operations({ id }: RunSnapshot): Promise<OperationInfo[]> {
    const commands = this.#runs.get(id)?.harness?.commands ?? [];
    return commands.flatMap((command): OperationInfo[] => {
      if (!("n" in command) || command.type !== "step") return [];
      const { unit, name, n, type: kind } = command;
      const rest = { input: undefined, output: undefined, error: undefined, attempts: [], endedAt: undefined, childId: undefined };
      return [{ location: formatLocation(unit, name, n), unit, kind, name, status: "completed", scheduledAt: new Date(), ...rest }];
    });
  }
  async history({ id }: RunSnapshot): Promise<History> {
    const harness = this.#runs.get(id)?.harness;
    if (harness === undefined) throw new RunNotFoundError({ runId: id });
    return harness.history();
  }
  async list({ limit, cursor = "0", ...selection }: RunPage): Promise<{ runs: RunDescription[]; cursor: string | undefined }> {
    const all = this.#matching(selection).reverse();
    const from = Number(cursor);
    const next = from + limit < all.length ? String(from + limit) : undefined;
    return { runs: all.slice(from, from + limit).map(describe), cursor: next };
  }
  async count(selection: RunSelection): Promise<RunCounts> {
    const counts = { pending: 0, running: 0, sleeping: 0, blocked: 0, rolling_back: 0, continued: 0 };
    const ends = { completed: 0, failed: 0, canceled: 0, terminated: 0 };
    const all: Record<RunStatus, number> = { ...counts, ...ends };
    for (const run of this.#matching(selection)) all[statusOf(run)]++;
    return { ...all, capped: [] };
  }
  #matching({ status, workflow, queue }: RunSelection): HostedRun[] {
    return [...this.#runs.values()].filter(
      (run) =>
        (status === undefined || status.includes(statusOf(run))) &&
        (workflow === undefined || [workflow].flat().includes(run.start.workflow)) &&
        (queue === undefined || queue === run.start.queue),
    );
  }

  // ── the end ──

  #write(call: string, args: readonly unknown[]): void {
    if (this.#closure !== undefined) throw engineClosed();
    this.crossed.push({ call, args });
  }
  close(): Promise<void> {
    this.#closure ??= Promise.all([...this.#workers].map((worker) => worker.stop())).then(() => {});
    this.#notify();
    return this.#closure;
  }
}

class HarnessWorker implements BackendWorker {
  readonly id: string;
  readonly settings: WorkerSettings;
  readonly stopped: Promise<void>;
  active = 0;
  readonly #forget: () => void;
  readonly #hasStopped: () => void;

  constructor(settings: WorkerSettings, forget: () => void) {
    const { promise, resolve } = resolvers<void>();
    this.id = settings.id;
    this.settings = settings;
    this.stopped = promise;
    this.#hasStopped = resolve;
    this.#forget = forget;
  }
  stop(): Promise<void> {
    this.#forget();
    this.#hasStopped();
    return this.stopped;
  }
}

function statusOf({ harness, terminated, blocked }: HostedRun): RunStatus {
  if (terminated !== undefined) return "terminated";
  if (blocked !== undefined) return "blocked";
  return harness?.status ?? "pending";
}
function snapshotOf(run: HostedRun): RunSnapshot {
  const { start, harness, terminated, blocked, createdAt, finishedAt, attempt } = run;
  const terminal = harness?.terminal;
  const output: Payload | undefined = terminal?.type === "complete" ? terminal.value : undefined;
  return {
    ...start,
    status: statusOf(run),
    output,
    error: terminated ?? blocked ?? (terminal?.type === "fail" ? terminal.error : undefined),
    state: harness?.published,
    execution: 1,
    attempt,
    parent: undefined,
    createdAt,
    startedAt: createdAt,
    availableAt: undefined,
    deadlineAt: undefined,
    finishedAt,
    workerId: undefined,
    historyLength: harness?.turns.length ?? 0,
  };
}
function describe(run: HostedRun): RunDescription {
  return { ...snapshotOf(run), waitingFor: run.harness?.executor.waitingFor ?? ["a worker"] };
}
function outcomeOf({ harness }: HostedRun, id: string): UpdateOutcome | undefined {
  for (const answer of harness?.answers ?? [])
    if (answer.type === "rejectUpdate" && answer.id === id) return { status: "rejected", error: answer.error };
  for (const command of harness?.commands ?? []) {
    if (command.type !== "completeUpdate" || command.id !== id) continue;
    return command.error === undefined
      ? { status: "completed", value: command.value as Payload }
      : { status: "failed", error: command.error };
  }
  return undefined;
}
function resolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void; reject: (error: unknown) => void } {
  let resolve: (value: T) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
}
