// The store without persistence: runs in plain maps, for tests and for `memory:`.
// Owns: its clock, its watchers, the namespaces of this process, and the order in which calls are carried out.
// Invariants: those of the port. Every method does its work synchronously, so that each call is a transaction (D2, D4, D9).

import type { Payload, Turn } from "@holdfast/core";
import { TASK_NEEDS } from "../filing/rules.ts";
import type { InspectStore } from "../inspectPort.ts";
import type { DeleteResult, StoreSettings } from "../keepingPort.ts";
import type {
  AddressedMessage,
  AttemptRow,
  ClaimedRun,
  ClaimedTask,
  ClaimRequest,
  ClaimResult,
  CommitResult,
  CreateResult,
  Expired,
  Heartbeat,
  HeldClaim,
  InboxJob,
  InboxMessage,
  NewRun,
  Renewal,
  ResumeResult,
  RunQuery,
  RunRow,
  SendResult,
  Store,
  TaskAnswer,
  TaskClaimRequest,
  Termination,
  TurnCommit,
  UpdateOutcome,
  Wakeup,
} from "../port.ts";
import type { LimitedWork, LimitsFor, QueueRow, StoredQueueLoad, StoredQueueSpec } from "../queuePort.ts";
import { MOST_COUNTED } from "../queuePort.ts";
import type { DueSchedules, ScheduleChange, ScheduleRow, Tick, TickResult } from "../schedulePort.ts";
import type { RunCounts, RunFilter } from "../searchPort.ts";
import type { WorkerBeat, WorkerRow, WorkflowRow } from "../workerPort.ts";
import type { Accepts } from "./claimQueue.ts";
import { inspectMemory } from "./inspect.ts";
import { Runs } from "./runs.ts";
import { Schedules } from "./schedules.ts";
import { isOpen, type KeptRun, rowOf } from "./state.ts";
import { holds, Writer } from "./writer.ts";

/** Schedules that one look returns. */
const DUE_AT_ONCE = 1_000;

/** A store in the memory of this process: for tests, and for runs that may be lost. */
export class MemoryStore implements Store {
  /** A call is carried out when it returns, so there is no reason to limit batches. */
  readonly limits = { items: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY, calls: 1 } as const;
  readonly #clock: () => number;
  readonly #runs: Runs;
  readonly #writer: Writer;
  readonly #schedules: Schedules;
  readonly #watchers: Contents["watchers"];
  readonly #workers: Contents["workers"];
  readonly #workflows: Contents["workflows"];
  #retention: number | undefined;
  /** The latest time that deadlines were looked at. */
  #latest = Number.NEGATIVE_INFINITY;

  /** `namespace`: stores of this process with the same one have the same runs (B5). */
  constructor(options: { clock?: () => number; namespace?: string | undefined } = {}) {
    this.#clock = options.clock ?? Date.now;
    const { runs, writer, schedules, workers, workflows, watchers } = contentsOf(options.namespace);
    this.#workers = workers;
    this.#workflows = workflows;
    this.#schedules = schedules;
    this.#runs = runs;
    this.#writer = writer;
    this.#watchers = watchers;
  }
  /** Every queue that a run or an activity was ever put into. */
  get queues(): Set<string> {
    return new Set([...this.#runs.slots.work.queues, ...this.#runs.tasks.queues]);
  }
  async open({ retention }: StoreSettings = {}): Promise<void> {
    this.#retention = retention === "forever" ? undefined : retention;
  }
  async close(): Promise<void> {}
  async now(): Promise<number> {
    return this.#clock();
  }

  /** Does the work of one call, then calls the watchers. */
  async #change<T>(work: (now: number) => T): Promise<T> {
    this.#runs.retention.ofEngine = this.#retention;
    try {
      return work(this.#clock());
    } finally {
      const wakeup = this.#runs.takeWakeup();
      if (wakeup !== undefined) queueMicrotask(() => this.#tell(wakeup));
    }
  }
  #tell(wakeup: Wakeup): void {
    for (const watcher of this.#watchers) watcher(wakeup);
  }
  watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    const watcher = (wakeup: Wakeup): void => onWakeup(wakeup); // a callback that is registered twice is called twice
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  // ── runs, turns, messages ──

  create(runs: readonly NewRun[]): Promise<CreateResult[]> {
    return this.#change((now) => runs.map((run) => this.#writer.create(run, now)));
  }
  commit(turns: readonly TurnCommit[]): Promise<CommitResult[]> {
    return this.#change((now) => turns.map((turn) => this.#writer.commit(turn, now)));
  }
  send(messages: readonly AddressedMessage[]): Promise<SendResult[]> {
    return this.#change((now) => messages.map((message) => this.#runs.send(message, now)));
  }
  async transact(
    claim: { readonly runId: string; readonly epoch: number; readonly seq: number },
    body: (tx: unknown) => Payload | Promise<Payload>,
  ): Promise<InboxMessage | "stale"> {
    const held = await this.#change(() => holds(this.#runs.get(claim.runId), claim.epoch));
    if (!held) return "stale";
    // There is nothing to take back here: a claim that is lost while the body runs loses its outcome only.
    const value = await body(undefined);
    return this.#change(() => {
      const run = this.#runs.get(claim.runId);
      if (!holds(run, claim.epoch)) return "stale";
      const job: InboxJob = { type: "resolve", seq: claim.seq, outcome: { status: "completed", value } };
      return { id: this.#runs.append(run, job), job };
    });
  }

  // ── claims ──

  claim(request: ClaimRequest): Promise<ClaimResult> {
    return this.#change((now) => {
      if (request.blockedAfter !== undefined) return this.#claimBlocked(request, request.blockedAfter, now);
      const runs: ClaimedRun[] = [];
      let nextAt: number | undefined;
      for (const [queue, accepts] of acceptedIn(request)) {
        const limit = request.limit - runs.length;
        const take = (run: KeptRun): void => void runs.push(this.#claim(run, request, now));
        const next = this.#runs.slots.work.claim({ queue, accepts, limit, isPast: (run) => this.#isPast(run, now), take }, now);
        if (next !== undefined && (nextAt === undefined || next < nextAt)) nextAt = next;
      }
      return { now, runs, nextAt };
    });
  }
  /** V4. */
  #claimBlocked(request: ClaimRequest, after: number, now: number): ClaimResult {
    const accepted = acceptedIn(request);
    const isServed = ({ status, queue, workflow, version, order }: KeptRun): boolean =>
      status === "blocked" &&
      order > after &&
      request.blockedOnly?.includes(order) !== false &&
      accepted.get(queue)?.(workflow, version) === true;
    const blocked = [...this.#runs.all()].filter(isServed).sort((a, b) => a.order - b.order);
    const found = blocked.slice(0, request.limit);
    for (const run of found) if (this.#runs.isLate(run, now)) this.#runs.expire(run, now);
    // One after the other: each takes slots that the next one may need.
    const runs = found.flatMap((run) => (isOpen(run) && this.#runs.slots.work.admit(run, now) ? [this.#claim(run, request, now)] : []));
    const heldBack = found.filter(({ status }) => status === "blocked").map(({ order }) => order);
    return { now, runs, nextAt: undefined, lastBlocked: found.length < blocked.length ? found.at(-1)?.order : undefined, heldBack };
  }
  /** K7: those past their deadline are ended, and leave room for others. */
  #isPast(run: KeptRun, now: number): boolean {
    if (!this.#runs.isLate(run, now)) return false;
    this.#runs.expire(run, now);
    // Blocked, it stays as available as it was.
    if (isOpen(run)) this.#runs.setAvailable(run, run.availableAt);
    return true;
  }
  #claim(run: KeptRun, request: ClaimRequest, now: number): ClaimedRun {
    const recoveredFrom = run.workerId;
    const recovered = recoveredFrom !== undefined;
    if (recovered) {
      run.recoveries++;
      run.attempts = run.attempts.map((row) => (row.status === "running" ? { ...row, status: "lost", endedAt: now } : row));
    }
    this.#runs.slots.take(run);
    run.epoch++;
    if (run.status !== "rolling_back") run.status = "running";
    run.workerId = request.workerId;
    run.startedAt ??= now;
    this.#runs.lend(run, request.lease, now);
    const cached = request.cached(run.id);
    const known = cached !== undefined && cached.execution === run.execution && cached.turns === run.turns;
    return {
      run: rowOf(run),
      turns: known ? undefined : [...run.history],
      attempts: [...run.attempts],
      inbox: [...run.inbox],
      recovered,
      recoveredFrom,
      lastTime: run.turns === 0 ? run.lastTime : undefined,
    };
  }
  renew(workerId: string, lease: number, claims: readonly HeldClaim[]): Promise<Renewal[]> {
    return this.#change((now) =>
      claims.map(({ runId, epoch, seen }) => {
        const run = this.#runs.get(runId);
        if (!holds(run, epoch) || run.workerId !== workerId) return { held: false, inbox: [] };
        this.#runs.lend(run, lease, now);
        return { held: true, inbox: run.inbox.filter(({ id }) => id > seen) };
      }),
    );
  }

  // ── ends and new beginnings ──

  terminate(runs: readonly Termination[]): Promise<SendResult[]> {
    return this.#change((now) =>
      runs.map(({ runId, reason }): SendResult => {
        const run = this.#runs.get(runId);
        if (run === undefined) return { status: "not-found" };
        if (!isOpen(run)) return { status: "closed", runStatus: run.status };
        if (run.next !== undefined) this.#runs.dropNext(run, "terminated", now);
        this.#runs.terminate(run, reason, now);
        return { status: "sent", inboxId: 0 };
      }),
    );
  }
  resume(runIds: readonly string[]): Promise<ResumeResult[]> {
    return this.#change((now) =>
      runIds.map((id) => {
        const run = this.#runs.get(id);
        return run === undefined ? "not-found" : this.#runs.resume(run, now);
      }),
    );
  }
  expire(): Promise<Expired> {
    return this.#change((now) => {
      if (now < this.#latest) this.#runs.cutLeases(now);
      this.#latest = now; // what is written from now on goes by the new time
      this.#runs.sweepTasks(now);
      let expired = 0;
      for (const run of [...this.#runs.deadlines]) {
        // One of these may have ended with its parent, a moment ago.
        if (run.deadlineAt === undefined || run.deadlineAt > now || !this.#runs.deadlines.has(run)) continue;
        this.#runs.expire(run, now);
        expired++;
      }
      return { expired, ...this.#schedules.due(now, DUE_AT_ONCE) };
    });
  }
  async retire(): Promise<number> {
    return this.#change((now) => {
      const old = this.#runs.retention.due(now, RETIRED_AT_ONCE, (id) => this.#runs.get(id));
      for (const run of old) this.#runs.remove(run);
      return old.length;
    });
  }
  delete(runIds: readonly string[]): Promise<DeleteResult[]> {
    return this.#change(() =>
      runIds.map((id): DeleteResult => {
        const run = this.#runs.get(id);
        if (run === undefined) return "not-found";
        if (isOpen(run)) return "open";
        this.#runs.remove(run);
        return "deleted";
      }),
    );
  }
  async beat({ aliveFor, ...worker }: WorkerBeat): Promise<void> {
    const now = this.#clock();
    for (const [id, { aliveUntil }] of this.#workers) if (aliveUntil < now) this.#workers.delete(id);
    const startedAt = this.#workers.get(worker.id)?.row.startedAt ?? now;
    this.#workers.set(worker.id, { row: { ...worker, startedAt, seenAt: now }, aliveUntil: now + aliveFor });
  }
  async leave(workerId: string): Promise<void> {
    this.#workers.delete(workerId);
  }
  async register(workflows: readonly WorkflowRow[]): Promise<void> {
    for (const row of workflows) this.#workflows.set(JSON.stringify([row.workflow, row.version]), row);
  }
  async liveWorkers(): Promise<WorkerRow[]> {
    const now = this.#clock();
    const alive = [...this.#workers.values()].filter(({ aliveUntil, row }) => aliveUntil >= now && row.seenAt <= now);
    return alive.map(({ row }) => row).toSorted((a, b) => a.startedAt - b.startedAt || byBytes(a.id, b.id));
  }
  /** When `expire` has something to do next, for tests that skip time. */
  get nextLimit(): number | undefined {
    const deadlines = [...this.#runs.deadlines].flatMap(({ deadlineAt }) => deadlineAt ?? []);
    const limits = [...deadlines, this.#runs.tasks.nextLimit ?? []].flat();
    return limits.length === 0 ? undefined : Math.min(...limits);
  }

  // ── schedules ──

  async readSchedules(ids: readonly string[]): Promise<{ now: number; schedules: (ScheduleRow | undefined)[] }> {
    return { now: this.#clock(), schedules: ids.map((id) => this.#schedules.read(id)) };
  }
  async listSchedules(page: { readonly after: string | undefined; readonly limit: number }): Promise<DueSchedules> {
    return { now: this.#clock(), schedules: this.#schedules.list(page) };
  }
  changeSchedule(change: ScheduleChange): Promise<boolean> {
    return this.#change(() => this.#schedules.change(change));
  }
  deleteSchedule(id: string): Promise<void> {
    return this.#change(() => this.#schedules.delete(id));
  }
  tick(ticks: readonly Tick[]): Promise<TickResult[]> {
    return this.#change((now) => ticks.map((tick) => this.#schedules.tick(tick, now)));
  }
  /** When the next schedule is due, for tests that advance time. */
  get nextTick(): number | undefined {
    return this.#schedules.nextDue;
  }

  // ── activities ──

  claimTasks(request: TaskClaimRequest): Promise<{ now: number; tasks: ClaimedTask[]; nextAt: number | undefined }> {
    return this.#change((now) => {
      this.#runs.sweepTasks(now);
      return { now, ...this.#runs.tasks.claim(request, now) };
    });
  }
  heartbeat(beats: readonly Heartbeat[]): Promise<boolean[]> {
    return this.#change((now) => {
      this.#runs.sweepTasks(now);
      return beats.map((beat) => this.#runs.tasks.heartbeat(beat, now));
    });
  }
  answerTasks(answers: readonly TaskAnswer[]): Promise<boolean[]> {
    return this.#change((now) => {
      this.#runs.sweepTasks(now);
      this.#runs.wake("tasks"); // one that failed may be due again
      return answers.map((answer) => this.#runs.tasks.answer(answer, now));
    });
  }

  // ── queues ──

  setQueue(name: string, spec: StoredQueueSpec): Promise<void> {
    return this.#change(() => this.#runs.slots.setSpec(name, spec));
  }
  deleteQueue(name: string): Promise<void> {
    return this.#change(() => this.#runs.slots.setSpec(name, undefined));
  }
  pauseQueue(name: string, pause: { readonly key?: string | undefined; readonly for?: number | undefined }): Promise<void> {
    return this.#change((now) => {
      this.#runs.slots.table.pause(name, pause.key, pause.for === undefined ? Number.POSITIVE_INFINITY : now + pause.for);
      // Workers that wait for the pause before it learn when this one ends.
      this.#runs.wake("work");
      this.#runs.wake("tasks");
    });
  }
  resumeQueue(name: string, key?: string): Promise<void> {
    return this.#change(() => {
      this.#runs.slots.table.resume(name, key);
      this.#runs.wake("work");
      this.#runs.wake("tasks");
    });
  }
  async getQueue(name: string): Promise<QueueRow> {
    return this.#queueRow(name, this.#clock());
  }
  async limitsFor(work: LimitedWork): Promise<LimitsFor | undefined> {
    const now = this.#clock();
    if (work.of === "activities") return this.#runs.tasks.work.limitsFor(work.queue, work.key, TASK_NEEDS, now);
    const run = this.#runs.get(work.runId);
    return run === undefined ? undefined : this.#runs.slots.limitsFor(run, now);
  }
  async listQueues(): Promise<QueueRow[]> {
    const now = this.#clock();
    const open = [...this.#runs.all()].filter(isOpen).map(({ queue }) => queue);
    const names = new Set([...this.#runs.slots.table.names, ...open, ...[...this.#runs.tasks.all()].map(({ queue }) => queue)]);
    const rows = [...names].sort(byBytes).map((name) => this.#queueRow(name, now));
    return rows.filter(({ name, paused, pausedKeys }) => {
      const isKept = this.#runs.slots.table.specOf(name) !== undefined || paused || pausedKeys.length > 0;
      return isKept || open.includes(name) || [...this.#runs.tasks.all()].some(({ queue }) => queue === name);
    });
  }
  #queueRow(name: string, now: number): QueueRow {
    const { queue: until, keys } = this.#runs.slots.table.pauses(name, now);
    const runs = [...this.#runs.all()].filter((run) => run.queue === name && isOpen(run));
    const tasks = [...this.#runs.tasks.all()].filter(({ queue }) => queue === name);
    return {
      name,
      spec: this.#runs.slots.table.specOf(name) ?? {},
      paused: until !== undefined,
      pausedUntil: until === undefined || !Number.isFinite(until) ? undefined : until,
      pausedKeys: [...keys.keys()].sort(byBytes),
      runs: loadOf(runs.map((run) => ({ ...run, isHeld: this.#runs.slots.isHeld(run) })), now), // biome-ignore format: one line
      activities: loadOf(tasks.map((task) => ({ ...task, isHeld: task.workerId !== undefined })), now), // biome-ignore format: one line
    };
  }

  // ── reading ──

  async get(runIds: readonly string[]): Promise<(RunRow | undefined)[]> {
    return runIds.map((id) => {
      const run = this.#runs.get(id);
      return run === undefined ? undefined : rowOf(run);
    });
  }
  async workers(runId: string): Promise<ReadonlyMap<number, string>> {
    return new Map(this.#runs.get(runId)?.workers);
  }
  async history(runId: string): Promise<Turn[]> {
    return [...(this.#runs.get(runId)?.history ?? [])];
  }
  async inbox(runId: string): Promise<readonly InboxMessage[]> {
    return [...(this.#runs.get(runId)?.inbox ?? [])];
  }
  async attempts(runId: string): Promise<(AttemptRow & { task?: boolean })[]> {
    const tasks = this.#runs.tasks.attemptsOf(runId).map((row) => ({ ...row, task: true }));
    return [...(this.#runs.get(runId)?.attempts ?? []), ...tasks];
  }
  inspect(): InspectStore {
    return inspectMemory(this.#runs, this.#workflows);
  }
  async updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]> {
    return keys.map(({ runId, id }) => this.#runs.get(runId)?.updates?.get(id));
  }
  rejectUpdates(updates: Parameters<Store["rejectUpdates"]>[0]): ReturnType<Store["rejectUpdates"]> {
    return this.#change((now) => updates.map((update) => this.#runs.rejectUpdate(update, now)));
  }
  async list(query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
    const { runs, cursor } = this.#runs.searchIndex.list(query);
    return { runs: runs.map(rowOf), cursor };
  }
  async count(filter: RunFilter): Promise<RunCounts> {
    return this.#runs.searchIndex.count(filter);
  }
}

/** The code of the claimer, by the queue that it is for. Other queues than its own have few runs, and come first (B3). */
function acceptedIn({ queue, serves }: ClaimRequest): Map<string, Accepts> {
  const others = serves.flatMap((one) => (one.queue === undefined || one.queue === queue ? [] : [one.queue]));
  const acceptsIn =
    (where: string): Accepts =>
    (name, version) =>
      serves.some((one) => {
        if ((one.queue ?? queue) !== where || one.workflow !== name) return false;
        return one.versions === "*" || one.versions.includes(version);
      });
  return new Map([...new Set([...others, queue])].map((where) => [where, acceptsIn(where)]));
}
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

interface Counted {
  readonly isHeld: boolean;
  readonly workerId: string | undefined;
  readonly availableAt: number | undefined;
}
function loadOf(work: readonly Counted[], now: number): StoredQueueLoad {
  const waiting = work.filter(({ isHeld, workerId, availableAt }) => {
    return !isHeld && workerId === undefined && availableAt !== undefined && availableAt <= now;
  });
  const moments = waiting.map(({ availableAt = now }) => availableAt);
  return {
    waiting: Math.min(MOST_COUNTED, waiting.length),
    held: Math.min(MOST_COUNTED, work.filter(({ isHeld }) => isHeld).length),
    oldest: moments.length === 0 ? undefined : moments.reduce((a, b) => Math.min(a, b)),
  };
}

const RETIRED_AT_ONCE = 1_000;

/** What stores of one namespace share. */
interface Contents {
  readonly runs: Runs;
  readonly writer: Writer;
  readonly schedules: Schedules;
  /** Those that are alive (B6). */
  readonly workers: Map<string, { readonly row: WorkerRow; readonly aliveUntil: number }>;
  /** What workers have registered, by name and version. */
  readonly workflows: Map<string, WorkflowRow>;
  readonly watchers: Set<(wakeup: Wakeup) => void>;
}
const namespaces = new Map<string, Contents>();

function contentsOf(namespace: string | undefined): Contents {
  const known = namespace === undefined ? undefined : namespaces.get(namespace);
  if (known !== undefined) return known;
  const runs = new Runs();
  const writer = new Writer(runs);
  const schedules = new Schedules(runs, writer);
  const contents: Contents = { runs, writer, schedules, workers: new Map(), workflows: new Map(), watchers: new Set() };
  if (namespace !== undefined) namespaces.set(namespace, contents);
  return contents;
}
