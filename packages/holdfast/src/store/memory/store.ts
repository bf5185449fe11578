// The store that forgets: runs in plain maps, for tests and for `memory:`.
// Owns: its clock, its watchers, and the order in which calls are carried out.
// Invariants: those of the port. Every method does its work synchronously, so that each call is a transaction by itself (D2, D4, D9).

import { InvalidInputError, type Payload, type RunStatus, type Turn } from "@holdfast/core";
import type {
  AddressedMessage,
  AttemptRow,
  ClaimedRun,
  ClaimedTask,
  ClaimRequest,
  ClaimResult,
  CommitResult,
  CreateResult,
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
import type { Accepts } from "./claimQueue.ts";
import { Runs } from "./runs.ts";
import { isOpen, type KeptRun, rowOf } from "./state.ts";
import { holds, Writer } from "./writer.ts";

export class MemoryStore implements Store {
  /** Work here is done when the call returns: whatever there is goes at once. */
  readonly limits = { items: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY, calls: 1 } as const;
  readonly #clock: () => number;
  readonly #runs = new Runs();
  readonly #writer = new Writer(this.#runs);
  readonly #watchers = new Set<(wakeup: Wakeup) => void>();
  /** The latest time that deadlines were looked at. */
  #latest = Number.NEGATIVE_INFINITY;

  constructor(options: { clock?: () => number } = {}) {
    this.#clock = options.clock ?? Date.now;
  }
  /** Every queue that a run or an activity was ever put into. */
  get queues(): Set<string> {
    return new Set([...this.#runs.claimQueue.queues, ...this.#runs.tasks.queues]);
  }
  async open(): Promise<void> {}
  async close(): Promise<void> {}
  async now(): Promise<number> {
    return this.#clock();
  }

  /** Does the work of one call, then tells who watches. */
  async #change<T>(work: (now: number) => T): Promise<T> {
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
    const watcher = (wakeup: Wakeup): void => onWakeup(wakeup); // one that watches twice is told twice
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
      const { queue, limit } = request;
      const accepts = (name: string, version: string | undefined): boolean =>
        request.serves.some(({ workflow, versions }) => workflow === name && (versions === "*" || versions.includes(version)));
      if (request.blockedAfter !== undefined) return this.#claimBlocked(request, accepts, request.blockedAfter, now);
      const due = this.#due(queue, accepts, limit, now);
      // Asked before they are leased: their own leases are no news to the one who takes them.
      const nextAt = this.#runs.claimQueue.next(queue, accepts);
      return { now, runs: due.map((run) => this.#claim(run, request, now)), nextAt };
    });
  }
  /** V4. */
  #claimBlocked(request: ClaimRequest, accepts: Accepts, after: number, now: number): ClaimResult {
    const isServed = ({ status, queue, workflow, version, order }: KeptRun): boolean =>
      status === "blocked" && order > after && queue === request.queue && accepts(workflow, version);
    const blocked = [...this.#runs.all()].filter(isServed).sort((a, b) => a.order - b.order);
    const found = blocked.slice(0, request.limit);
    for (const run of found) if (this.#runs.isLate(run, now)) this.#runs.expire(run, now);
    const runs = found.filter(isOpen).map((run) => this.#claim(run, request, now));
    return { now, runs, nextAt: undefined, lastBlocked: found.length < blocked.length ? found.at(-1)?.order : undefined };
  }
  /** K7: those past their deadline are ended, and leave room for others. */
  #due(queue: string, accepts: Accepts, limit: number, now: number): KeptRun[] {
    const taken: KeptRun[] = [];
    for (let isLate = true; isLate; ) {
      isLate = false;
      for (const run of this.#runs.claimQueue.due(queue, accepts, limit - taken.length, now)) {
        if (taken.includes(run)) continue; // entered twice for one moment
        if (!this.#runs.isLate(run, now)) taken.push(run);
        else {
          isLate = true;
          this.#runs.expire(run, now);
          // Blocked, it stays as available as it was.
          if (isOpen(run)) this.#runs.setAvailable(run, run.availableAt);
        }
      }
    }
    return taken;
  }
  #claim(run: KeptRun, request: ClaimRequest, now: number): ClaimedRun {
    const recoveredFrom = run.workerId;
    const recovered = recoveredFrom !== undefined;
    if (recovered) {
      run.recoveries++;
      run.attempts = run.attempts.map((row) => (row.status === "running" ? { ...row, status: "lost", endedAt: now } : row));
    }
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
  expire(): Promise<number> {
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
      return expired;
    });
  }
  /** When `expire` has something to do next: for who skips time. */
  get nextLimit(): number | undefined {
    const deadlines = [...this.#runs.deadlines].flatMap(({ deadlineAt }) => deadlineAt ?? []);
    const limits = [...deadlines, this.#runs.tasks.nextLimit ?? []].flat();
    return limits.length === 0 ? undefined : Math.min(...limits);
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
  async attempts(runId: string): Promise<(AttemptRow & { task?: boolean })[]> {
    const tasks = this.#runs.tasks.attemptsOf(runId).map((row) => ({ ...row, task: true }));
    return [...(this.#runs.get(runId)?.attempts ?? []), ...tasks];
  }
  async updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]> {
    return keys.map(({ runId, id }) => this.#runs.get(runId)?.updates?.get(id));
  }
  rejectUpdates(updates: Parameters<Store["rejectUpdates"]>[0]): ReturnType<Store["rejectUpdates"]> {
    return this.#change((now) => updates.map((update) => this.#runs.rejectUpdate(update, now)));
  }
  async list(query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
    const found = [...this.#runs.all()].filter((run) => matches(query, run));
    found.sort((a, b) => b.createdAt - a.createdAt || b.order - a.order);
    const [at = 0, order = 0] = query.cursor === undefined ? [] : parseCursor(query.cursor);
    const isAfter = (run: KeptRun): boolean => run.createdAt < at || (run.createdAt === at && run.order < order);
    const after = query.cursor === undefined ? found : found.filter(isAfter);
    const page = after.slice(0, query.limit);
    const last = page.at(-1);
    return {
      runs: page.map(rowOf),
      cursor: after.length > page.length && last !== undefined ? `${last.createdAt}.${last.order}` : undefined,
    };
  }
  async count(query: Omit<RunQuery, "limit" | "cursor">): Promise<Record<RunStatus, number>> {
    const counts: Record<RunStatus, number> = {
      ...{ pending: 0, running: 0, sleeping: 0, blocked: 0, rolling_back: 0 },
      ...{ completed: 0, failed: 0, canceled: 0, terminated: 0, continued: 0 },
    };
    for (const run of this.#runs.all()) if (matches(query, run)) counts[run.status]++;
    return counts;
  }
}

function parseCursor(cursor: string): number[] {
  if (/^-?\d+\.\d+$/.test(cursor)) return cursor.split(".").map(Number);
  throw new InvalidInputError({ what: "cursor", issues: [{ message: "must be one that an earlier page gave" }] });
}
function matches(query: Omit<RunQuery, "limit" | "cursor">, run: KeptRun): boolean {
  return (
    (query.status === undefined || query.status.includes(run.status)) &&
    (query.workflow === undefined || query.workflow === run.workflow) &&
    (query.queue === undefined || query.queue === run.queue) &&
    (query.parentId === undefined || query.parentId === run.parent?.runId) &&
    (query.since === undefined || run.createdAt >= query.since) &&
    (query.until === undefined || run.createdAt < query.until) &&
    Object.entries(query.attributes ?? {}).every(([key, value]) => run.attributes[key] === value)
  );
}
