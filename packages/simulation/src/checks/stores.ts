// Stands beside the store and sees every call as it is carried out: the oracles of what is written.
// Owns: what it has seen of each run, independent of what the store says now.
// Invariants: it changes nothing; each oracle names the rule of the contract that it holds.

import {
  askedWait,
  type Command,
  dueOf,
  formatLocation,
  HAS_ATTEMPTS,
  type Job,
  type OpeningCommand,
  type Payload,
  resolveRetry,
  retryDelay,
  reviveError,
  type Turn,
} from "@holdfast/core";
import type {
  AddressedMessage,
  AttemptRow,
  ClaimedRun,
  ClaimRequest,
  ClaimResult,
  CommitResult,
  CreateResult,
  InboxMessage,
  NewMessage,
  NewRun,
  RunRow,
  SendResult,
  Store,
  TaskAnswer,
  TurnCommit,
} from "holdfast/store";
import type { SimProcess } from "../process.ts";
import type { World } from "../world.ts";
import { Acceptances } from "./acceptances.ts";
import { ActivityChecks } from "./activities.ts";
import { ClaimOrder } from "./claimOrder.ts";
import { CommitChecks } from "./commits.ts";
import { Deadlines } from "./deadlines.ts";
import { StartKeys } from "./startKeys.ts";

/** What an operation is known by: to others, and within its execution. */
interface OperationKey {
  readonly text: string;
  readonly location: string;
}
/** An operation that a committed turn has opened. */
interface Opened {
  readonly command: OpeningCommand;
  readonly key: OperationKey;
  readonly time: number;
  isResolved: boolean;
  isCompleted: boolean;
  isFired: boolean;
  /** Attempts that a commit has announced, with how often the run had been lost by then. */
  readonly announced: Map<number, number>;
  /** Attempts that a commit has told the failure of, with when the next is due. */
  readonly failed: Map<number, number>;
  /** D10: attempts before its last resume, which the policy counts no more. */
  forgiven: number;
}
export interface SeenStep {
  readonly run: SeenRun;
  readonly execution: number;
  readonly opened: Opened;
}
/** What is known of one run, from what was carried out. */
export interface SeenRun {
  readonly id: string;
  execution: number;
  /** Of the last claim. */
  epoch: number;
  holder: string | undefined;
  leasedUntil: number;
  isClosed: boolean;
  /** Turns of this execution as they were committed, as text. */
  turns: string[];
  /** P7: of its last turn, in whichever execution. */
  lastTime: number;
  opened: Map<number, Opened>;
  readonly inbox: Map<number, { readonly job: Job; isConsumed: boolean }>;
  readonly keys: Map<string, number>;
  /** Claims after an expired lease, and gracious returns: what excuses an attempt that never came back. */
  losses: number;
  /** A cancellation is in the store. */
  isAskedToCancel: boolean;
  /** A turn that took a cancellation. */
  isCanceled: boolean;
  readonly updates: Map<string, string>;
  /** States as commits have published them. */
  readonly published: Payload[];
}

const CLOSED: ReadonlySet<string> = new Set(["completed", "failed", "canceled", "terminated"]);
/** How far a clock may have drifted from the store's since a worker last asked: drift times the longest it goes without asking. */
export const DRIFT_TOLERANCE = 60;

export class StoreChecks {
  readonly #world: World;
  readonly #inner: Store;
  readonly #commits: CommitChecks;
  readonly #order: ClaimOrder;
  readonly #startKeys: StartKeys;
  readonly #acceptances: Acceptances;
  readonly runs = new Map<string, SeenRun>();
  /** Steps and activities by what they know themselves by: their idempotency key. */
  readonly steps = new Map<string, SeenStep>();
  /** Everybody that was ever given anything. */
  readonly workers = new Set<string>();
  /** When deadlines were last looked at. */
  #expiredAt = 0;
  readonly #activities: ActivityChecks;
  readonly deadlines: Deadlines;

  constructor(world: World, inner: Store) {
    this.#world = world;
    this.#inner = inner;
    this.#commits = new CommitChecks(world, inner);
    this.#order = new ClaimOrder(world, inner);
    this.#startKeys = new StartKeys(world);
    this.#acceptances = new Acceptances(world);
    this.#activities = new ActivityChecks(world);
    this.deadlines = new Deadlines(world);
  }
  #broken(oracle: string, rule: string, message: string): void {
    this.#world.violate(oracle, rule, message);
  }
  run(id: string): SeenRun {
    let run = this.runs.get(id);
    if (run === undefined) {
      run = {
        id,
        execution: 1,
        epoch: 0,
        holder: undefined,
        leasedUntil: 0,
        isClosed: false,
        turns: [],
        lastTime: 0,
        opened: new Map(),
        inbox: new Map(),
        keys: new Map(),
        losses: 0,
        isAskedToCancel: false,
        isCanceled: false,
        updates: new Map(),
        published: [],
      };
      this.runs.set(id, run);
    }
    return run;
  }

  /** A worker that can't know whether its commit was carried out gives the runs up, with what they have in flight. */
  excuse(commits: readonly TurnCommit[]): void {
    for (const { runId } of commits) this.run(runId).losses++;
  }

  /** The store as the network reaches it. */
  get store(): Store {
    const inner = this.#inner;
    return {
      open: () => inner.open(),
      close: () => inner.close(),
      now: () => inner.now(),
      create: (runs) => this.#create(runs),
      claim: (request) => this.#claim(request),
      commit: (turns) => this.#commit(turns),
      send: (messages) => this.#send(messages),
      renew: (workerId, lease, claims) => this.#renew(workerId, lease, claims),
      terminate: async (runs) => {
        const results = await inner.terminate(runs);
        for (const [i, { runId }] of runs.entries()) {
          this.#world.note("db", `terminate ${runId}: ${results[i]?.status}`);
          if (results[i]?.status !== "sent") continue;
          this.#closed(this.run(runId));
          await this.#commits.closed(runId);
        }
        return results;
      },
      resume: async (runIds) => {
        const results = await inner.resume(runIds);
        for (const [i, id] of runIds.entries()) {
          this.#world.note("db", `resume ${id}: ${results[i]}`);
          if (results[i] !== "resumed") continue;
          this.run(id).isClosed = false;
          this.#order.opened(id);
        }
        return results;
      },
      expire: async () => {
        const open = this.#commits.hasDeadlines ? [...this.runs.values()].filter(({ isClosed }) => !isClosed) : [];
        const before = await inner.get(open.map(({ id }) => id));
        const count = await inner.expire();
        this.#expiredAt = this.#world.now;
        if (open.length > 0) await this.#expired(open, before);
        return count;
      },
      ...(inner.transact !== undefined && {
        transact: async (claim, body) => {
          const result = await inner.transact?.(claim, body);
          if (result === undefined) throw new Error("The store has no transactions.");
          this.#world.note("db", `transact ${claim.runId} #${claim.seq}: ${result === "stale" ? "stale" : `message ${result.id}`}`);
          if (result !== "stale") this.#saw(this.run(claim.runId), result);
          return result;
        },
      }),
      claimTasks: async (request) => {
        const result = await this.#withDeadlines(() => inner.claimTasks(request));
        this.workers.add(request.workerId);
        for (const task of result.tasks) {
          const { id, runId, attempt, activity } = task;
          this.#world.note("db", `task ${id} (${activity} of ${runId}) attempt ${attempt} goes to ${request.workerId}`);
          this.#activities.claimed(task);
          this.deadlines.handedOut(task);
        }
        if (result.tasks.length > request.limit) this.#broken("room", "W1", `${result.tasks.length} activities for ${request.limit} slots`);
        return result;
      },
      heartbeat: async (tasks) => {
        const results = await this.#withDeadlines(() => inner.heartbeat(tasks));
        for (const [i, { id }] of tasks.entries()) if (results[i] === true) this.#activities.heldOn(id);
        return results;
      },
      answerTasks: (answers) => this.#answerTasks(answers),
      get: (ids) => inner.get(ids),
      history: (id) => inner.history(id),
      attempts: (id) => inner.attempts(id),
      ...(inner.workers !== undefined && { workers: inner.workers.bind(inner) }),
      updates: (keys) => inner.updates(keys),
      rejectUpdates: async (updates) => {
        const results = await inner.rejectUpdates(updates);
        for (const [i, update] of updates.entries()) {
          this.#acceptances.rejected(update, results[i]);
          if (!this.#acceptances.isRejected(update.runId, update.id)) continue;
          // It leaves the inbox, under whatever number a continuation has given it.
          const { inbox } = this.run(update.runId);
          for (const [id, { job }] of inbox) if (job.type === "update" && job.id === update.id) inbox.delete(id);
        }
        return results;
      },
      list: (query) => inner.list(query),
      count: (query) => inner.count(query),
      watch: (onWakeup) => inner.watch(onWakeup),
    };
  }

  // ── creating and claiming ──

  async #create(runs: readonly NewRun[]): Promise<CreateResult[]> {
    const results = await this.#inner.create(runs);
    for (const [i, run] of runs.entries()) {
      const result = results[i];
      this.#world.note(
        "db",
        `create ${run.id} (${run.workflow}): ${result?.status}${run.first === undefined ? "" : " with its first turn"}`,
      );
      if (result !== undefined) this.#startKeys.started(run, result);
      if (result?.status !== "created") continue;
      this.#commits.born(run);
      this.#order.opened(run.id);
      const seen = this.run(run.id);
      seen.isClosed = false;
      for (const [k, message] of (run.messages ?? []).entries()) this.#arrived(seen, result.inboxIds[k] ?? 0, message);
      if (run.first === undefined) continue;
      seen.epoch = 1;
      seen.holder = run.first.workerId;
      this.workers.add(run.first.workerId);
      seen.leasedUntil = this.#world.now + run.first.lease;
      this.#wrote(seen, run.first.commit, undefined);
    }
    return results;
  }

  async #claim(request: ClaimRequest): Promise<ClaimResult> {
    const before = await this.#order.look();
    const result = await this.#inner.claim(request);
    if (request.blockedAfter === undefined) this.#order.check(before, request, result);
    this.workers.add(request.workerId);
    if (result.runs.length > request.limit) this.#broken("room", "W1", `${result.runs.length} runs for ${request.limit} slots`);
    const late = [...before.values()].filter(({ deadlineAt = Number.POSITIVE_INFINITY }) => deadlineAt <= this.#world.now);
    if (late.length > 0) await this.#overruled(late);
    for (const claim of result.runs) this.#claimed(claim, request);
    return result;
  }
  /** K7: an attempt of an activity that would come after the deadline of its run ends the run. */
  async #withDeadlines<T>(call: () => Promise<T>): Promise<T> {
    const open = this.#commits.hasDeadlines ? [...this.runs.values()].filter(({ isClosed }) => !isClosed) : [];
    const before = await this.#inner.get(open.map(({ id }) => id));
    const result = await call();
    await this.#overruled(before.flatMap((row) => (row?.deadlineAt === undefined ? [] : row)));
    return result;
  }
  /** K7: a claim may end runs past their deadline, or claim them for their rollbacks. */
  async #overruled(late: readonly RunRow[]): Promise<void> {
    const after = await this.#inner.get(late.map(({ id }) => id));
    for (const [i, was] of late.entries()) {
      const is = after[i];
      if (is === undefined || is.epoch === was.epoch || was.status === "rolling_back") continue;
      this.#commits.struckAlready(was.id);
      const run = this.run(was.id);
      run.losses++;
      run.holder = undefined;
      run.leasedUntil = 0;
      if (!CLOSED.has(is.status)) continue;
      this.#world.note("db", `expire ${run.id}, as others are claimed: ${is.status}`);
      this.#closed(run);
      await this.#commits.closed(run.id);
    }
  }
  #claimed(claim: ClaimedRun, request: ClaimRequest): void {
    const { run: row, recovered } = claim;
    const run = this.run(row.id);
    const how = recovered ? ", its lease had run out" : "";
    this.#world.note(
      "db",
      `claim ${row.id} by ${request.workerId}, epoch ${row.epoch}, turn ${row.turns}, ${claim.inbox.length} messages${how}`,
    );
    if (row.epoch <= run.epoch) this.#broken("epoch", "D4", `${row.id} was claimed at epoch ${row.epoch}, after ${run.epoch}`);
    if (run.isClosed) this.#broken("closed", "K5", `${row.id} was claimed after it had closed`);
    if (run.holder !== undefined && run.leasedUntil > this.#world.now && run.epoch > 0)
      this.#broken(
        "lease",
        "W3",
        `${row.id} was claimed by ${request.workerId} while ${run.holder} holds it for ${run.leasedUntil - this.#world.now} ms more`,
      );
    const served = request.serves.find(({ workflow }) => workflow === row.workflow);
    if (row.queue !== request.queue || served === undefined || (served.versions !== "*" && !served.versions.includes(row.version)))
      this.#broken("served", "V2", `${request.workerId} was given ${row.workflow}@${row.version}, which it does not serve`);
    if (row.execution !== run.execution) this.#nextExecution(run, row.execution);
    if (row.turns !== run.turns.length)
      this.#broken("last commit", "W3", `${row.id} was claimed at turn ${row.turns}; ${run.turns.length} were committed`);
    this.#commits.claimed(claim, run.isCanceled);
    this.deadlines.claimed(claim);
    for (const turn of claim.turns ?? []) this.#compare(run, turn);
    for (const message of claim.inbox) this.#saw(run, message);
    if (recovered) run.losses++;
    run.epoch = row.epoch;
    run.holder = request.workerId;
    run.leasedUntil = this.#world.now + request.lease;
  }
  async #renew(
    workerId: string,
    lease: number,
    claims: readonly { readonly runId: string; readonly epoch: number; readonly seen: number }[],
  ): ReturnType<Store["renew"]> {
    const results = await this.#inner.renew(workerId, lease, claims);
    for (const [i, { runId, epoch }] of claims.entries()) {
      const run = this.run(runId);
      if (results[i]?.held !== true) continue;
      if (run.epoch !== epoch || run.holder !== workerId || run.isClosed)
        this.#broken(
          "renewal",
          "D4",
          `${workerId} renewed ${runId} at epoch ${epoch}, which ${run.holder ?? "nobody"} holds at ${run.epoch}`,
        );
      // A lease that is nearly whole may be left as it is.
      run.leasedUntil = Math.max(run.leasedUntil, this.#world.now + lease * 0.9);
      for (const message of results[i]?.inbox ?? []) this.#saw(run, message);
    }
    return results;
  }

  // ── turns ──

  async #commit(commits: readonly TurnCommit[]): Promise<CommitResult[]> {
    const before = await this.#inner.get(commits.map(({ runId }) => runId));
    const results = await this.#inner.commit(commits);
    const after = await this.#inner.get(commits.map(({ runId }) => runId));
    for (const [i, commit] of commits.entries()) {
      const run = this.run(commit.runId);
      this.#world.note("db", `commit ${described(commit, this.#world.now)}: ${results[i]?.status}`);
      const result = results[i];
      if (result?.status === "late") for (const message of result.inbox) this.#saw(run, message);
      if (result?.status !== "committed") continue;
      const isAgain = commits.slice(0, i).some(({ runId }) => runId === commit.runId);
      if (!isAgain) this.#fenced(run, commit, before[i]);
      this.#wrote(run, commit, after[i]);
      const isLast = commits.findLastIndex(({ runId }) => runId === commit.runId) === i;
      this.#activities.committed(commit);
      this.#commits.committed(commit, isLast ? after[i] : undefined);
      if (commit.close?.status === "continued" && !isAgain && isLast) this.#commits.continued(before[i], after[i]);
      if (run.isClosed) await this.#commits.closed(run.id);
      for (const message of result.inbox) this.#saw(run, message);
    }
    await this.#childrenOf(commits, results);
    for (const [i, commit] of commits.entries())
      if (results[i]?.status === "committed") await this.#checkTrim(this.run(commit.runId), commit);
    return results;
  }
  /** D4, K5. */
  #fenced(run: SeenRun, { runId, epoch, execution, workerId, turn, attempts = [] }: TurnCommit, before: RunRow | undefined): void {
    if (run.epoch !== epoch || run.holder !== workerId)
      this.#broken("epoch", "D4", `${workerId} wrote ${runId} at epoch ${epoch}; ${run.holder ?? "nobody"} holds it at epoch ${run.epoch}`);
    if (before === undefined || before.epoch !== epoch || before.execution !== execution)
      this.#broken("epoch", "D4", `${workerId} wrote ${runId} at epoch ${epoch}; the store has it at epoch ${before?.epoch}`);
    if (turn !== undefined && before?.deadlineAt !== undefined && before.deadlineAt <= this.#expiredAt && !isExempt(before, turn))
      this.#broken("deadlines", "K7", `${runId} went on after its deadline had been looked at`);
    if (before !== undefined && CLOSED.has(before.status)) this.#broken("closed", "K5", `${runId} was ${before.status} and was written`);
    for (const { seq, retryAt } of attempts) {
      if (retryAt === undefined || before?.deadlineAt === undefined || retryAt < before.deadlineAt) continue;
      if (run.opened.get(seq)?.command.type !== "rollback")
        this.#broken("deadlines", "K7", `#${seq} of ${runId} is to be tried again ${retryAt - before.deadlineAt} ms after its deadline`);
    }
  }
  /** D2: children exist with the commit that asks for them. */
  async #childrenOf(commits: readonly TurnCommit[], results: readonly CommitResult[]): Promise<void> {
    const ids = commits.flatMap(({ children }, i) => (results[i]?.status === "committed" ? (children ?? []).map(({ id }) => id) : []));
    const rows = ids.length === 0 ? [] : await this.#inner.get(ids);
    for (const [i, id] of ids.entries()) if (rows[i] === undefined) this.#broken("one commit", "D2", `child ${id} does not exist`);
  }

  #wrote(run: SeenRun, commit: TurnCommit, after: RunRow | undefined): void {
    if (commit.turn !== undefined) this.#turn(run, commit.turn);
    for (const row of commit.attempts ?? []) {
      const { seq, number, status, retryAt = 0 } = row;
      const opened = run.opened.get(seq);
      if (opened !== undefined && status === "running") opened.announced.set(number, run.losses);
      if (opened === undefined || status !== "failed") continue;
      opened.failed.set(number, retryAt);
      this.#checkRetry(opened, row);
    }
    this.#consumption(run, commit);
    this.#checkEnd(run, commit);
    if (commit.state !== undefined) run.published.push(commit.state);
    for (const child of commit.children ?? []) this.#order.opened(child.id);
    this.#acceptances.committed(commit);
    for (const { id, outcome } of commit.updates ?? []) {
      if (this.#acceptances.isRejected(run.id, id)) continue;
      if (run.updates.has(id)) this.#broken("outcome", "M10", `update ${id} of ${run.id} ended twice`);
      if (outcome.status === "rejected" && commit.turn?.jobs.some((job) => job.type === "update" && job.id === id) === true)
        this.#broken("outcome", "M8", `update ${id} of ${run.id} was rejected, and is in its history`);
      run.updates.set(id, stable(outcome));
    }
    if (commit.lease === "park" || commit.close !== undefined) {
      run.holder = undefined;
      run.leasedUntil = 0;
    }
    if (commit.lease === "park" && commit.close === undefined) this.#parked(run, commit, after);
    if (commit.close === undefined) return;
    if (commit.close.status === "continued") this.#nextExecution(run, run.execution + 1);
    else this.#closed(run);
  }
  /** D8: whether there is another attempt, and when, by the policy as it is recorded. */
  #checkRetry({ command, key, forgiven }: Opened, { number, retryAt, endedAt, error }: AttemptRow): void {
    if (retryAt === undefined || number === 0 || (command.type !== "step" && command.type !== "transaction")) return;
    if (error?.name === "FatalError")
      this.#broken("retries", "D8", `attempt ${number} of ${key.text} failed for good, and is to be retried`);
    const asked = error === undefined ? undefined : askedWait(reviveError(error));
    const { nonRetryable: _, ...policy } = command.retry ?? {};
    const least = asked ?? retryDelay(resolveRetry(policy, "operation"), Math.max(1, number - forgiven), 0);
    const wait = retryAt - (endedAt ?? 0);
    if (wait < least - 1)
      this.#broken("retries", "D8", `${key.text} waits ${wait} ms after attempt ${number}; its policy says at least ${least}`);
  }
  /** L4: what a loop or a receive keeps is there after it has trimmed. */
  async #checkTrim(run: SeenRun, { turn, close }: TurnCommit): Promise<void> {
    if (close !== undefined) return;
    for (const command of turn?.commands ?? []) {
      if (command.type !== "commit" || command.trim === undefined) continue;
      const turns = await this.#inner.history(run.id);
      const kept = new Set(turns.flatMap(({ commands }) => commands.flatMap((one) => ("n" in one ? [one.seq] : []))));
      for (const { command: opened } of run.opened.values()) {
        const iteration = iterationOf(opened.unit, command.unit);
        if (opened.seq > command.seq && iteration !== undefined && iteration >= command.trim && !kept.has(opened.seq))
          this.#broken("trimming", "L4", `${run.id} trimmed #${opened.seq} of iteration ${iteration}, and keeps from ${command.trim} on`);
      }
    }
  }
  #closed(run: SeenRun): void {
    run.isClosed = true;
    run.holder = undefined;
    run.leasedUntil = 0;
  }
  /** D9: whoever parks has seen what was acknowledged before, or the run is available at once. */
  #parked(run: SeenRun, commit: TurnCommit, after: RunRow | undefined): void {
    if (after === undefined || after.workerId !== undefined) return;
    const waiting = [...run.inbox].find(([id, { isConsumed }]) => !isConsumed && id > (commit.seen ?? 0));
    if (commit.status !== "blocked") this.#commits.parked(after, run.isCanceled);
    if (waiting !== undefined && (after.availableAt === undefined || after.availableAt > this.#world.now))
      this.#broken("parking", "D9", `${run.id} parks with message ${waiting[0]} in its inbox, which nobody was given`);
    const lost = [...(commit.attempts ?? [])].some(({ status, number }) => status === "lost" || number === 0);
    if (lost) run.losses++; // W4: given back
  }
  #nextExecution(run: SeenRun, execution: number): void {
    run.execution = execution;
    run.epoch++; // at least
    run.holder = undefined;
    run.leasedUntil = 0;
    run.isClosed = false;
    run.turns = [];
    run.opened = new Map();
    run.inbox.clear(); // what waited has other numbers now
  }

  #turn(run: SeenRun, turn: Turn): void {
    if (turn.index !== run.turns.length) this.#broken("turns", "D2", `${run.id} wrote turn ${turn.index} after ${run.turns.length} turns`);
    if (turn.time < run.lastTime) this.#broken("time", "P7", `${run.id} went back in time, from ${run.lastTime} to ${turn.time}`);
    run.lastTime = turn.time;
    run.turns[turn.index] = JSON.stringify(turn);
    for (const job of turn.jobs) this.#job(run, job, turn);
    for (const command of turn.commands) this.#command(run, command, turn);
  }
  #job(run: SeenRun, job: Job, turn: Turn): void {
    if (job.type === "cancel") run.isCanceled = true;
    if (job.type === "resume") for (const seq of job.voids) this.#reopen(run, seq);
    if (job.type !== "fire" && job.type !== "resolve") return;
    const opened = run.opened.get(job.seq);
    if (opened === undefined) {
      this.#broken("answers", "Y3", `${run.id} took an answer to #${job.seq}, which it never asked for`);
      return;
    }
    if (job.type === "resolve") {
      if (opened.isResolved) this.#broken("answers", "Y3", `${run.id} took a second outcome of #${job.seq} (${opened.command.name})`);
      opened.isResolved = true;
      opened.isCompleted = job.outcome.status === "completed";
      return;
    }
    if (opened.isFired) this.#broken("timers", "K8", `the timer of #${job.seq} of ${run.id} fired twice`);
    opened.isFired = true;
    const due = dueOf(opened.command, opened.time);
    if (due === undefined) return;
    if (turn.time < due) this.#broken("timers", "K8", `the timer of #${job.seq} of ${run.id} fired ${due - turn.time} ms early`);
    const early = due - this.#world.now;
    if (early > DRIFT_TOLERANCE)
      this.#broken("timers", "K8", `the timer of #${job.seq} of ${run.id} fired ${early} ms early by the store's clock`);
  }
  #reopen(run: SeenRun, seq: number): void {
    const opened = run.opened.get(seq);
    if (opened === undefined) return;
    opened.isResolved = false;
    opened.forgiven = Math.max(...opened.announced.keys(), ...opened.failed.keys());
    opened.failed.clear(); // D10: it has its attempts again
  }
  #command(run: SeenRun, command: Command, turn: Turn): void {
    if (!("n" in command) || command.type === "reuse") return;
    const key = keyOf(run, command);
    const opened: Opened = {
      command,
      key,
      time: turn.time,
      isResolved: false,
      isCompleted: false,
      isFired: false,
      announced: new Map([[1, run.losses]]),
      failed: new Map(),
      forgiven: 0,
    };
    run.opened.set(command.seq, opened);
    if (HAS_ATTEMPTS.has(command.type)) this.steps.set(key.text, { run, execution: run.execution, opened });
  }

  // ── messages ──

  async #send(messages: readonly AddressedMessage[]): Promise<SendResult[]> {
    const before = await this.#inner.get(messages.map(({ runId }) => runId));
    const results = await this.#inner.send(messages);
    for (const [i, addressed] of messages.entries()) {
      const { runId, message } = addressed;
      const result = results[i];
      if (result !== undefined) this.#startKeys.sent(addressed, result);
      this.#world.note(
        "db",
        `send ${message.job.type} to ${runId}: ${result?.status}${result !== undefined && "inboxId" in result ? ` as ${result.inboxId}` : ""}`,
      );
      if (result === undefined || !("inboxId" in result)) continue;
      const run = this.run(runId);
      const key = message.job.type === "update" ? message.job.id : message.idempotencyKey;
      const known = key === undefined ? undefined : run.keys.get(key);
      if (known !== undefined && known !== result.inboxId)
        this.#broken("keys", "M3", `key ${key} of ${runId} is message ${known}, and now ${result.inboxId}`);
      if (result.status === "duplicate") continue;
      const row = before[i];
      if (row !== undefined && CLOSED.has(row.status)) this.#broken("closed", "M12", `${runId} is ${row.status} and took a message`);
      this.#arrived(run, result.inboxId, message);
      // K9: a run without a first turn is canceled at once.
      if (message.job.type !== "cancel") continue;
      const [now] = await this.#inner.get([runId]);
      this.#commits.canceled(message, row, now);
      if (now?.status === "canceled") this.#closed(run);
    }
    return results;
  }
  #arrived(run: SeenRun, id: number, message: NewMessage): void {
    const key = message.job.type === "update" ? message.job.id : message.idempotencyKey;
    if (key !== undefined) run.keys.set(key, id);
    if (message.job.type === "cancel") run.isAskedToCancel = true;
    this.#saw(run, { id, job: message.job });
  }
  /** A message that is in the inbox, as somebody was given it. */
  #saw(run: SeenRun, { id, job }: InboxMessage): void {
    const known = run.inbox.get(id);
    if (known === undefined) run.inbox.set(id, { job, isConsumed: false });
    else if (known.isConsumed)
      this.#broken("consumption", "M7", `${run.id} was given message ${id} (${job.type}) again, after it had taken it`);
  }
  /** M7: what a turn takes leaves the inbox with its commit, and nothing else does. */
  #consumption(run: SeenRun, { consumed = [], turn, updates = [] }: TurnCommit): void {
    const taken = new Map<string, number>();
    for (const job of turn?.jobs ?? []) {
      const name = messageName(job);
      if (name !== undefined) taken.set(name, (taken.get(name) ?? 0) + 1);
    }
    for (const { id } of updates) if (!taken.has(`update ${id}`)) taken.set(`update ${id}`, 1); // rejected ones leave no job
    for (const id of consumed) {
      const message = run.inbox.get(id);
      if (message === undefined) continue; // an answer that came from elsewhere in the store
      if (message.isConsumed) this.#broken("consumption", "M7", `${run.id} took message ${id} (${message.job.type}) twice`);
      message.isConsumed = true;
      const name = messageName(message.job);
      if (name === undefined || message.job.type === "resolve" || message.job.type === "childStarted") continue;
      const count = taken.get(name) ?? 0;
      if (count === 0) this.#broken("consumption", "M7", `message ${id} (${name}) left the inbox of ${run.id}, and no turn has it`);
      taken.set(name, count - 1);
    }
    for (const [name, count] of taken) {
      if (count > 0 && (name.startsWith("signal ") || name === "cancel") && turn !== undefined)
        this.#broken("consumption", "M7", `a turn of ${run.id} has ${name}, which is still in its inbox`);
    }
  }

  /** D9, K1: an end comes after every message that was acknowledged before it and would have changed it. */
  #checkEnd(run: SeenRun, { turn, close, lateIf }: TurnCommit): void {
    if (turn === undefined || close === undefined || close.status === "continued" || close.status === "canceled") return;
    const end = turn.commands.at(-1);
    const isPast = end?.type === "fail" && (end.rolledBack === true || end.error.name === "DeadlineExceededError");
    for (const [id, { job, isConsumed }] of run.inbox) {
      if (isConsumed) continue;
      if (job.type === "cancel" && !run.isCanceled && !isPast)
        this.#broken("ends", "K1", `${run.id} ended ${close.status}, and was asked to cancel before: message ${id}`);
      if (job.type === "signal" && lateIf?.signals.includes(job.name) === true)
        this.#broken("ends", "D9", `${run.id} ended ${close.status}, and had asked for ${job.name}: message ${id} came before`);
    }
  }

  // ── deadlines ──

  async #expired(open: readonly SeenRun[], before: readonly (RunRow | undefined)[]): Promise<void> {
    const after = await this.#inner.get(open.map(({ id }) => id));
    this.#commits.expired(after);
    for (const [i, run] of open.entries()) {
      const [was, is] = [before[i], after[i]];
      this.#commits.struck(was, is);
      if (was === undefined || is === undefined || (was.epoch === is.epoch && was.status === is.status)) continue;
      this.#world.note("db", `expire ${run.id}: ${is.status}`);
      if (CLOSED.has(is.status)) {
        this.#closed(run);
        await this.#commits.closed(run.id);
      } else {
        run.holder = undefined;
        run.leasedUntil = 0;
        run.losses++;
      }
      const isItsOwn = is.error?.name === "DeadlineExceededError" || !CLOSED.has(is.status);
      // An activity's next attempt may come too late.
      const isBusy = [...run.opened.values()].some(({ command, isResolved }) => command.type === "activity" && !isResolved);
      if (isItsOwn && !isBusy && was.deadlineAt !== undefined && was.deadlineAt > this.#world.now)
        this.#broken("deadlines", "K7", `${run.id} was ended ${was.deadlineAt - this.#world.now} ms before its deadline`);
    }
  }

  // ── activities ──

  async #answerTasks(answers: readonly TaskAnswer[]): Promise<boolean[]> {
    const results = await this.#withDeadlines(() => this.#inner.answerTasks(answers));
    for (const [i, answer] of answers.entries()) {
      this.#world.note("db", `task ${answer.id} ${answer.outcome.status}: ${results[i] === true ? "taken" : "dropped"}`);
      if (results[i] === true) this.#activities.answered(answer);
    }
    return results;
  }

  // ── history ──

  /** Nothing recorded ever changes: what is kept of a turn is what was committed, less what was trimmed (L4). */
  #compare(run: SeenRun, turn: Turn): void {
    const text = run.turns[turn.index];
    if (text === JSON.stringify(turn)) return;
    if (text === undefined) {
      this.#broken("history", "D2", `${run.id} has a turn ${turn.index} that nobody committed`);
      return;
    }
    const committed = JSON.parse(text) as Turn;
    const isPart = (parts: readonly unknown[], whole: readonly unknown[]): boolean => {
      const texts = whole.map(stable);
      return parts.every((part) => texts.includes(stable(part)));
    };
    if (turn.time !== committed.time || !isPart(turn.jobs, committed.jobs) || !isPart(turn.commands, committed.commands))
      this.#broken("history", "D2", `turn ${turn.index} of ${run.id} is not what was committed`);
  }
  /** W4: whoever has stopped has given back what it knew to be its own when it was asked to. */
  async checkReleased({ workerId, told }: SimProcess, askedAt: number): Promise<void> {
    const wasIts = ({ id, epoch }: SeenRun): boolean => (told.claimedAt(id, epoch) ?? Number.POSITIVE_INFINITY) < askedAt;
    const held = [...this.runs.values()].filter((run) => run.holder === workerId && run.leasedUntil > this.#world.now && wasIts(run));
    // Some may have been terminated with their parents.
    for (const row of held.length === 0 ? [] : await this.#inner.get(held.map(({ id }) => id))) {
      if (row === undefined || row.workerId !== workerId || CLOSED.has(row.status)) continue;
      this.#broken("lease", "W4", `${workerId} has stopped, and holds ${row.id} for ${(row.availableAt ?? 0) - this.#world.now} ms more`);
    }
  }
  /** Holds everything that the store has against what was committed. */
  async checkHistories(): Promise<void> {
    for (const run of this.runs.values()) {
      const [row] = await this.#inner.get([run.id]);
      if (row === undefined) {
        if (run.turns.length > 0) this.#broken("history", "D2", `${run.id} is gone`);
        continue;
      }
      if (row.execution !== run.execution) continue;
      for (const turn of await this.#inner.history(run.id)) this.#compare(run, turn);
    }
  }
}

function keyOf(run: SeenRun, { unit, name, n }: OpeningCommand): OperationKey {
  const location = formatLocation(unit, name, n);
  return { location, text: `${run.id}/${run.execution === 1 ? "" : `~${run.execution}/`}${location}` };
}

/** The number of the iteration or dispatch of a scope that a unit belongs to. */
function iterationOf(unit: string, scope: string): number | undefined {
  const [, number] = unit.startsWith(`${scope}/`) ? (/^~h?(\d+)/.exec(unit.slice(scope.length + 1)) ?? []) : [];
  return number === undefined ? undefined : Number(number);
}

/** K7: rollbacks outlast a deadline. */
function isExempt({ status }: RunRow, { jobs }: Turn): boolean {
  return status === "rolling_back" || jobs.some(({ type }) => type === "expire");
}

/** What tells a message that was taken from others. */
function messageName(job: Job): string | undefined {
  switch (job.type) {
    case "signal":
    case "update":
      return `${job.type} ${job.id}`;
    case "cancel":
      return "cancel";
    case "resolve":
    case "childStarted":
      return `${job.type} ${job.seq}`;
    default:
      return undefined;
  }
}

/** The same text for the same value: keys in order, without what is undefined. Stacks are not part of what happened. */
export function stable(value: unknown): string {
  const sorted = (item: unknown): unknown => {
    if (Array.isArray(item)) return item.map(sorted);
    if (typeof item !== "object" || item === null) return item;
    const entries = Object.entries(item).filter(([key, one]) => one !== undefined && key !== "stack");
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]));
  };
  return JSON.stringify(sorted(value)) ?? "undefined";
}

function described(commit: TurnCommit, now: number): string {
  const { runId, workerId, epoch, turn, lease, close, status } = commit;
  const parts = [`${runId} by ${workerId} at epoch ${epoch}`];
  if (turn !== undefined) {
    const jobs = turn.jobs.map((job) => ("seq" in job ? `${job.type}#${job.seq}` : "name" in job ? `${job.type}:${job.name}` : job.type));
    const commands = turn.commands.map((command) => ("n" in command ? `${command.type}:${command.name}#${command.seq}` : "seq" in command ? `${command.type}#${command.seq}` : command.type)); // biome-ignore format: one line
    parts.push(`turn ${turn.index} [${jobs.join(" ")}] → [${commands.join(" ")}]`);
  }
  for (const { seq, number, status } of commit.attempts ?? []) parts.push(`attempt ${number} of #${seq} ${status}`);
  parts.push(
    close === undefined ? `${status}, ${lease}${commit.wakeAt === undefined ? "" : ` for ${commit.wakeAt - now} ms`}` : close.status,
  );
  return parts.join(", ");
}
