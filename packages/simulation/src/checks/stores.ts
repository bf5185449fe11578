// Wraps the store that the network calls, and passes every call that is carried out to the checks in this folder.
// Owns: the order of those checks, and the lines of the trace about the store.
// Invariants: it changes no call and no result; each check names the rule of the contract that it verifies.

import type {
  AddressedMessage,
  ClaimRequest,
  ClaimResult,
  CommitResult,
  CreateResult,
  HeldClaim,
  NewRun,
  Renewal,
  RunRow,
  SendResult,
  TaskAnswer,
  TurnCommit,
} from "holdfast/store";
import type { SimProcess } from "../process.ts";
import type { FreeStore } from "../stores.ts";
import type { World } from "../world.ts";
import { Acceptances } from "./acceptances.ts";
import { ActivityChecks } from "./activities.ts";
import { ClaimOrder } from "./claimOrder.ts";
import { ClaimChecks } from "./claims.ts";
import { CommitChecks } from "./commits.ts";
import { Deadlines } from "./deadlines.ts";
import { KeepingChecks } from "./keeping.ts";
import { MessageChecks } from "./messages.ts";
import { QueueChecks } from "./queues.ts";
import { ScheduleChecks } from "./schedules.ts";
import { CLOSED, close, type SeenRun, SeenRuns, stable } from "./seenRuns.ts";
import { StartKeys } from "./startKeys.ts";
import { StartChecks } from "./starts.ts";
import { TurnChecks } from "./turns.ts";

export class StoreChecks {
  readonly #world: World;
  readonly #inner: FreeStore;
  readonly #commits: CommitChecks;
  readonly #order: ClaimOrder;
  readonly #startKeys: StartKeys;
  readonly #acceptances: Acceptances;
  readonly #messages: MessageChecks;
  readonly #turns: TurnChecks;
  readonly #claims: ClaimChecks;
  readonly #schedules: ScheduleChecks;
  readonly seen = new SeenRuns();
  /** When `expire` was last called. */
  #expiredAt = 0;
  readonly #activities: ActivityChecks;
  readonly deadlines: Deadlines;
  readonly queues: QueueChecks;
  readonly starts: StartChecks;
  readonly keeping: KeepingChecks;

  constructor(world: World, inner: FreeStore) {
    this.#world = world;
    this.#inner = inner;
    this.#commits = new CommitChecks(world, inner);
    this.#order = new ClaimOrder(world, inner);
    this.#startKeys = new StartKeys(world);
    this.#acceptances = new Acceptances(world);
    this.#activities = new ActivityChecks(world);
    this.deadlines = new Deadlines(world);
    this.#schedules = new ScheduleChecks(world, inner);
    this.queues = new QueueChecks(world, inner);
    this.starts = new StartChecks(world, inner);
    this.keeping = new KeepingChecks(world, inner, this.seen, (id) => {
      this.#startKeys.forget(id);
      this.starts.forget(id);
    });
    this.#messages = new MessageChecks(world);
    const beside = { seen: this.seen, messages: this.#messages, commits: this.#commits };
    this.#turns = new TurnChecks(world, inner, { ...beside, order: this.#order, acceptances: this.#acceptances });
    this.#claims = new ClaimChecks(world, inner, { ...beside, turns: this.#turns, deadlines: this.deadlines });
  }
  #broken(oracle: string, rule: string, message: string): void {
    this.#world.violate(oracle, rule, message);
  }

  /** A worker that can't know whether its commit was carried out drops the runs, and the attempts that they have in flight. */
  excuse(commits: readonly TurnCommit[]): void {
    for (const { runId } of commits) this.seen.get(runId).losses++;
  }

  /** W4: a worker that has stopped has released every run that it knew it held when it was asked to stop. */
  checkReleased(process: SimProcess, askedAt: number): Promise<void> {
    return this.#claims.checkReleased(process, askedAt);
  }
  /** Compares the histories in the store with the turns that were committed. */
  checkHistories(): Promise<void> {
    return this.#turns.checkHistories();
  }

  /** The store as the network reaches it. */
  get store(): FreeStore {
    const inner = this.#inner;
    return {
      limits: inner.limits,
      open: () => inner.open(),
      close: () => inner.close(),
      now: () => inner.now(),
      create: (runs) => this.#create(runs),
      claim: (request) => this.#claim(request),
      commit: (turns) => this.#commit(turns),
      send: (messages) => this.#send(messages),
      renew: (workerId, lease, claims) => this.#renew(workerId, lease, claims),
      terminate: async (runs) => {
        const before = await inner.get(runs.map(({ runId }) => runId));
        const results = await this.queues.freeing(() => inner.terminate(runs));
        for (const [i, { runId }] of runs.entries()) {
          this.#world.note("db", `terminate ${runId}: ${results[i]?.status}`);
          if (results[i]?.status !== "sent") continue;
          this.starts.dropped(before[i]);
          close(this.seen.get(runId));
          await this.#commits.closed(runId);
        }
        return results;
      },
      resume: async (runIds) => {
        const results = await inner.resume(runIds);
        for (const [i, id] of runIds.entries()) {
          this.#world.note("db", `resume ${id}: ${results[i]}`);
          if (results[i] !== "resumed") continue;
          this.seen.get(id).isClosed = false;
          this.#order.opened(id);
          this.queues.reopened(id);
        }
        return results;
      },
      readSchedules: (ids) => inner.readSchedules(ids),
      listSchedules: (page) => inner.listSchedules(page),
      changeSchedule: (change) => inner.changeSchedule(change),
      deleteSchedule: (id) => inner.deleteSchedule(id),
      tick: (ticks) => this.#schedules.tick(ticks, (run) => this.#born(run)),
      expire: async () => {
        const open = this.#commits.hasDeadlines ? this.seen.open() : [];
        const before = await inner.get(open.map(({ id }) => id));
        const found = await this.queues.freeing(() => inner.expire());
        this.#expiredAt = this.#world.now;
        if (open.length > 0) await this.#expired(open, before);
        return found;
      },
      retire: () => this.keeping.retire(),
      delete: (runIds) => this.keeping.delete(runIds),
      setQueue: async (name, spec) => this.queues.set(name, spec, await this.#order.look()),
      deleteQueue: async (name) => this.queues.set(name, undefined, await this.#order.look()),
      pauseQueue: (name, pause) => this.queues.pause(name, pause),
      resumeQueue: (name, key) => this.queues.resume(name, key),
      getQueue: (name) => inner.getQueue(name),
      listQueues: () => inner.listQueues(),
      limitsFor: (work) => inner.limitsFor(work),
      ...(inner.transact !== undefined && {
        transact: async (claim, body) => {
          const result = await inner.transact?.(claim, body);
          if (result === undefined) throw new Error("The store has no transactions.");
          this.#world.note("db", `transact ${claim.runId} #${claim.seq}: ${result === "stale" ? "stale" : `message ${result.id}`}`);
          if (result !== "stale") this.#messages.saw(this.seen.get(claim.runId), result);
          return result;
        },
      }),
      claimTasks: async (request) => {
        const result = await this.#withDeadlines(() => inner.claimTasks(request));
        this.seen.workers.add(request.workerId);
        for (const task of result.tasks) {
          const { id, runId, attempt, activity } = task;
          this.#world.note("db", `task ${id} (${activity} of ${runId}) attempt ${attempt} is given to ${request.workerId}`);
          this.#activities.claimed(task);
          this.deadlines.handedOut(task);
        }
        if (result.tasks.length > request.limit) this.#broken("room", "W1", `${result.tasks.length} activities for ${request.limit} slots`);
        await this.queues.tasks.claimed(request, result.tasks);
        return result;
      },
      heartbeat: async (tasks) => {
        const results = await this.#withDeadlines(() => inner.heartbeat(tasks));
        for (const [i, beat] of tasks.entries()) {
          if (results[i] !== true) continue;
          this.#activities.heldOn(beat.id);
          this.queues.tasks.renewed(beat);
        }
        return results;
      },
      answerTasks: (answers) => this.#answerTasks(answers),
      get: (ids) => inner.get(ids),
      history: (id) => inner.history(id),
      inbox: (id) => inner.inbox(id),
      attempts: (id) => inner.attempts(id),
      ...(inner.workers !== undefined && { workers: inner.workers.bind(inner) }),
      updates: (keys) => inner.updates(keys),
      rejectUpdates: async (updates) => {
        const results = await inner.rejectUpdates(updates);
        for (const [i, update] of updates.entries()) {
          this.#acceptances.rejected(update, results[i]);
          if (!this.#acceptances.isRejected(update.runId, update.id)) continue;
          // It leaves the inbox. A continuation may have given it a new id there.
          const { inbox } = this.seen.get(update.runId);
          for (const [id, { job }] of inbox) if (job.type === "update" && job.id === update.id) inbox.delete(id);
        }
        return results;
      },
      list: (query) => inner.list(query),
      count: (query) => inner.count(query),
      watch: (onWakeup) =>
        inner.watch((wakeup) => {
          this.queues.hinted(wakeup);
          onWakeup(wakeup);
        }),
    };
  }

  // ── creating and claiming ──

  async #create(runs: readonly NewRun[]): Promise<CreateResult[]> {
    const sources = runs.flatMap(({ forkedFrom }) => forkedFrom ?? []);
    const before = await Promise.all(sources.map((id) => this.#everythingOf(id)));
    const startedBefore = await this.starts.look(runs);
    const canceledRows = await Promise.all(runs.map(({ first }) => this.#inner.get(first === undefined ? [] : canceledBy(first.commit))));
    const results = await this.queues.freeing(() => this.#inner.create(runs));
    this.keeping.created(runs);
    await this.starts.started(runs, startedBefore, (run) => this.#startKeys.isRepeated(run));
    for (const [i, id] of sources.entries())
      if ((await this.#everythingOf(id)) !== before[i]) this.#broken("sources", "F2", `a fork has changed ${id}`);
    const canceled: string[] = [];
    for (const [i, run] of runs.entries()) {
      const result = results[i];
      this.#world.note(
        "db",
        `create ${run.id} (${run.workflow}${run.key === undefined ? "" : `, key ${run.key}`}): ${result?.status}${run.first === undefined ? "" : " with its first turn"}`,
      );
      if (result !== undefined) this.#startKeys.started(run, result);
      if (result?.status !== "created") continue;
      const seen = this.#born(run);
      for (const [k, message] of (run.messages ?? []).entries()) this.#messages.arrived(seen, result.inboxIds[k] ?? 0, message);
      if (run.copied !== undefined) this.#turns.copied(seen, run);
      if (run.first === undefined || result.begun === false) continue;
      seen.epoch = 1;
      seen.holder = run.first.workerId;
      this.seen.workers.add(run.first.workerId);
      seen.leasedUntil = this.#world.now + run.first.lease;
      const { commit } = run.first;
      for (const row of canceledRows[i] ?? []) this.starts.dropped(row);
      canceled.push(...canceledBy(commit));
      this.#turns.wrote(seen, commit, undefined);
      this.#activities.committed(commit);
      this.#commits.committed(commit, undefined);
      if (seen.isClosed) await this.#commits.closed(seen.id);
      await this.#turns.childrenOf([commit], [{ status: "committed", inbox: [] }]);
    }
    await this.#closeCanceled(canceled);
    return results;
  }

  /** K9: a run that has not begun ends with the commit that cancels it. */
  async #closeCanceled(ids: readonly string[]): Promise<void> {
    for (const row of await this.#inner.get(ids)) if (row !== undefined && CLOSED.has(row.status)) close(this.seen.get(row.id));
  }
  #born(run: NewRun): SeenRun {
    this.#commits.born(run);
    this.#order.opened(run.id);
    const seen = this.seen.get(run.id);
    seen.isClosed = false;
    seen.isCanceled = false;
    return seen;
  }
  /** Of a run that is forked. */
  async #everythingOf(id: string): Promise<string> {
    const inner = this.#inner;
    return stable([await inner.get([id]), await inner.history(id), await inner.attempts(id), await inner.inbox(id)]);
  }
  async #claim(request: ClaimRequest): Promise<ClaimResult> {
    const before = await this.#order.look();
    const result = await this.#inner.claim(request);
    if (request.blockedAfter === undefined && !this.queues.isFiled(request.queue, before)) this.#order.check(before, request, result);
    this.seen.workers.add(request.workerId);
    if (result.runs.length > request.limit) this.#broken("room", "W1", `${result.runs.length} runs for ${request.limit} slots`);
    const late = [...before.values()].filter(({ deadlineAt = Number.POSITIVE_INFINITY }) => deadlineAt <= this.#world.now);
    if (late.length > 0) await this.#overruled(late);
    for (const claim of result.runs) this.#claims.claimed(claim, request);
    await this.queues.claimed(before, request, result);
    return result;
  }
  /** K7: if the next attempt of an activity would begin after the deadline of its run, the run ends. */
  async #withDeadlines<T>(call: () => Promise<T>): Promise<T> {
    const open = this.#commits.hasDeadlines ? this.seen.open() : [];
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
      const run = this.seen.get(was.id);
      run.losses++;
      run.holder = undefined;
      run.leasedUntil = 0;
      if (!CLOSED.has(is.status)) continue;
      this.#world.note("db", `expire ${run.id} during another call: ${is.status}`);
      close(run);
      await this.#commits.closed(run.id);
    }
  }
  async #renew(workerId: string, lease: number, claims: readonly HeldClaim[]): Promise<Renewal[]> {
    const results = await this.#inner.renew(workerId, lease, claims);
    for (const [i, claim] of claims.entries())
      if (results[i]?.held === true) this.#claims.renewed(workerId, lease, claim, results[i].inbox);
    return results;
  }

  async #commit(commits: readonly TurnCommit[]): Promise<CommitResult[]> {
    const before = await this.#inner.get(commits.map(({ runId }) => runId));
    const canceled = commits.map(canceledBy);
    const canceledRows = await Promise.all(canceled.map((ids) => this.#inner.get(ids)));
    const results = await this.queues.freeing(() => this.#inner.commit(commits));
    const after = await this.#inner.get(commits.map(({ runId }) => runId));
    for (const [i, commit] of commits.entries()) {
      const run = this.seen.get(commit.runId);
      this.#world.note("db", `commit ${described(commit, this.#world.now)}: ${results[i]?.status}`);
      const result = results[i];
      if (result?.status === "late") for (const message of result.inbox) this.#messages.saw(run, message);
      if (result?.status !== "committed") continue;
      const isAgain = commits.slice(0, i).some(({ runId }) => runId === commit.runId);
      if (!isAgain) this.#turns.fenced(run, commit, before[i], this.#expiredAt);
      for (const row of canceledRows[i] ?? []) this.starts.dropped(row);
      // A run that is written in the same batch is checked with its own commit.
      await this.#closeCanceled((canceled[i] ?? []).filter((id) => commits.every(({ runId }) => runId !== id)));
      const { goesOn = false } = result;
      this.#turns.wrote(run, commit, after[i], goesOn);
      const isLast = commits.findLastIndex(({ runId }) => runId === commit.runId) === i;
      this.#activities.committed(commit);
      this.queues.tasks.committed(commit);
      this.#commits.committed(commit, isLast ? after[i] : undefined, goesOn);
      if (commit.close?.status === "continued" && !isAgain && isLast) this.#commits.continued(before[i], after[i]);
      if (run.isClosed || goesOn) await this.#commits.closed(run.id);
      for (const message of result.inbox) this.#messages.saw(run, message);
    }
    await this.#turns.childrenOf(commits, results);
    for (const [i, commit] of commits.entries())
      if (results[i]?.status === "committed") await this.#turns.trimmed(this.seen.get(commit.runId), commit);
    return results;
  }

  async #send(messages: readonly AddressedMessage[]): Promise<SendResult[]> {
    const before = await this.#inner.get(messages.map(({ runId }) => runId));
    const results = await this.queues.freeing(() => this.#inner.send(messages));
    for (const [i, addressed] of messages.entries()) {
      const { runId, message } = addressed;
      const result = results[i];
      if (result !== undefined) this.#startKeys.sent(addressed, result);
      this.#world.note(
        "db",
        `send ${message.job.type} to ${runId}: ${result?.status}${result !== undefined && "inboxId" in result ? ` as ${result.inboxId}` : ""}`,
      );
      if (result === undefined || !("inboxId" in result)) continue;
      const run = this.seen.get(runId);
      const key = message.job.type === "update" ? message.job.id : message.idempotencyKey;
      const known = key === undefined ? undefined : run.keys.get(key);
      if (known !== undefined && known !== result.inboxId)
        this.#broken("keys", "M3", `key ${key} of ${runId} was message ${known}, and is now ${result.inboxId}`);
      if (result.status === "duplicate") continue;
      const row = before[i];
      if (row !== undefined && CLOSED.has(row.status)) this.#broken("closed", "M12", `${runId} is ${row.status} and accepted a message`);
      this.#messages.arrived(run, result.inboxId, message);
      // K9: a run without a first turn is cancelled at once.
      if (message.job.type !== "cancel") continue;
      this.starts.dropped(row);
      const [now] = await this.#inner.get([runId]);
      this.#commits.canceled(message, row, now);
      if (now?.status === "canceled") close(run);
    }
    return results;
  }

  async #expired(open: readonly SeenRun[], before: readonly (RunRow | undefined)[]): Promise<void> {
    const after = await this.#inner.get(open.map(({ id }) => id));
    this.#commits.expired(after);
    for (const [i, run] of open.entries()) {
      const [was, is] = [before[i], after[i]];
      this.#commits.struck(was, is);
      if (was === undefined || is === undefined || (was.epoch === is.epoch && was.status === is.status)) continue;
      this.#world.note("db", `expire ${run.id}: ${is.status}`);
      if (CLOSED.has(is.status)) {
        close(run);
        await this.#commits.closed(run.id);
      } else {
        run.holder = undefined;
        run.leasedUntil = 0;
        run.losses++;
      }
      const isItsOwn = is.error?.name === "DeadlineExceededError" || !CLOSED.has(is.status);
      // The next attempt of an activity may be due after the deadline.
      const isBusy = [...run.opened.values()].some(({ command, isResolved }) => command.type === "activity" && !isResolved);
      if (isItsOwn && !isBusy && was.deadlineAt !== undefined && was.deadlineAt > this.#world.now)
        this.#broken("deadlines", "K7", `${run.id} was ended ${was.deadlineAt - this.#world.now} ms before its deadline`);
    }
  }

  async #answerTasks(answers: readonly TaskAnswer[]): Promise<boolean[]> {
    const results = await this.#withDeadlines(() => this.queues.freeing(() => this.#inner.answerTasks(answers)));
    for (const [i, answer] of answers.entries()) {
      this.#world.note("db", `task ${answer.id} ${answer.outcome.status}: ${results[i] === true ? "accepted" : "dropped"}`);
      if (results[i] !== true) continue;
      this.#activities.answered(answer);
      this.queues.tasks.answered(answer);
    }
    return results;
  }
}

/** The runs that its messages cancel. */
function canceledBy({ sends = [] }: TurnCommit): string[] {
  return sends.flatMap(({ runId, message }) => (message.job.type === "cancel" ? runId : []));
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
