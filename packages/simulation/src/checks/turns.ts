// Checks turns as they are committed: which worker may write, what a turn contains, and that history never changes.
// Owns: nothing; the turns are recorded in `SeenRun`.
// Invariants: D2 D4 D8 D9 K5 K7 K8 L4 M8 M10 P7 Y3, each named where it is checked.

import {
  askedWait,
  type Command,
  dueOf,
  formatLocation,
  HAS_ATTEMPTS,
  type Job,
  type OpeningCommand,
  resolveRetry,
  retryDelay,
  reviveError,
  type Turn,
} from "@holdfast/core";
import type { AttemptRow, CommitResult, NewRun, RunRow, Store, TurnCommit } from "holdfast/store";
import type { World } from "../world.ts";
import type { Acceptances } from "./acceptances.ts";
import type { ClaimOrder } from "./claimOrder.ts";
import type { CommitChecks } from "./commits.ts";
import type { MessageChecks } from "./messages.ts";
import {
  beginAnew,
  beginExecution,
  CLOSED,
  close,
  DRIFT_TOLERANCE,
  type Opened,
  type OperationKey,
  type SeenRun,
  type SeenRuns,
  stable,
} from "./seenRuns.ts";

/** The other checks that a committed turn is passed on to. */
interface Beside {
  readonly seen: SeenRuns;
  readonly messages: MessageChecks;
  readonly commits: CommitChecks;
  readonly order: ClaimOrder;
  readonly acceptances: Acceptances;
}

export class TurnChecks {
  readonly #world: World;
  readonly #inner: Store;
  readonly #checks: Beside;

  constructor(world: World, inner: Store, checks: Beside) {
    this.#world = world;
    this.#inner = inner;
    this.#checks = checks;
  }
  #broken(oracle: string, rule: string, message: string): void {
    this.#world.violate(oracle, rule, message);
  }
  /** D4, K5: only the worker with the current claim writes, and only to an open run. */
  fenced(
    run: SeenRun,
    { runId, epoch, execution, workerId, turn, attempts = [] }: TurnCommit,
    before: RunRow | undefined,
    expiredAt: number,
  ): void {
    if (run.epoch !== epoch || run.holder !== workerId)
      this.#broken(
        "epoch",
        "D4",
        `${workerId} wrote ${runId} at epoch ${epoch}; ${run.holder ?? "no worker"} holds it at epoch ${run.epoch}`,
      );
    if (before === undefined || before.epoch !== epoch || before.execution !== execution)
      this.#broken("epoch", "D4", `${workerId} wrote ${runId} at epoch ${epoch}; the store has it at epoch ${before?.epoch}`);
    if (turn !== undefined && before?.deadlineAt !== undefined && before.deadlineAt <= expiredAt && !isExempt(before, turn))
      this.#broken("deadlines", "K7", `${runId} continued after its deadline had expired`);
    if (before !== undefined && CLOSED.has(before.status))
      this.#broken("closed", "K5", `${runId} was ${before.status} and accepted a commit`);
    for (const { seq, retryAt } of attempts) {
      if (retryAt === undefined || before?.deadlineAt === undefined || retryAt < before.deadlineAt) continue;
      if (run.opened.get(seq)?.command.type !== "rollback")
        this.#broken("deadlines", "K7", `#${seq} of ${runId} has its retry scheduled ${retryAt - before.deadlineAt} ms after the deadline`);
    }
  }
  /** D2: the commit that starts children also creates them. */
  async childrenOf(commits: readonly TurnCommit[], results: readonly CommitResult[]): Promise<void> {
    const ids = commits.flatMap(({ children }, i) => (results[i]?.status === "committed" ? (children ?? []).map(({ id }) => id) : []));
    const rows = ids.length === 0 ? [] : await this.#inner.get(ids);
    for (const [i, id] of ids.entries()) if (rows[i] === undefined) this.#broken("one commit", "D2", `child ${id} does not exist`);
  }
  /** `goesOn`: the run begins with its next start (Q9). */
  wrote(run: SeenRun, commit: TurnCommit, after: RunRow | undefined, goesOn = false): void {
    if (commit.turn !== undefined) this.#turn(run, commit.turn);
    for (const row of commit.attempts ?? []) {
      const { seq, number, status, retryAt = 0 } = row;
      const opened = run.opened.get(seq);
      if (opened !== undefined && status === "running") opened.announced.set(number, run.losses);
      if (opened === undefined || status !== "failed") continue;
      opened.failed.set(number, retryAt);
      this.#checkRetry(opened, row);
    }
    this.#checks.messages.consumed(run, commit);
    this.#checks.messages.ended(run, commit);
    if (commit.state !== undefined) run.published.push(commit.state);
    for (const { id } of commit.children ?? []) {
      this.#checks.order.opened(id);
      this.#checks.seen.get(id); // known from now on: a child may end without ever being claimed
    }
    this.#checks.acceptances.committed(commit);
    for (const { id, outcome } of commit.updates ?? []) {
      if (this.#checks.acceptances.isRejected(run.id, id)) continue;
      if (run.updates.has(id)) this.#broken("outcome", "M10", `update ${id} of ${run.id} ended twice`);
      if (outcome.status === "rejected" && commit.turn?.jobs.some((job) => job.type === "update" && job.id === id) === true)
        this.#broken("outcome", "M8", `update ${id} of ${run.id} was rejected, but is in its history`);
      run.updates.set(id, stable(outcome));
    }
    if (commit.lease === "park" || commit.close !== undefined) {
      run.holder = undefined;
      run.leasedUntil = 0;
    }
    if (commit.lease === "park" && commit.close === undefined) this.#parked(run, commit, after);
    if (commit.close === undefined) return;
    if (commit.close.status === "continued") beginExecution(run, run.execution + 1);
    else if (goesOn) beginAnew(run, run.execution + 1);
    else close(run);
  }
  /** D8: whether another attempt follows, and when, is up to the recorded policy. */
  #checkRetry({ command, key, forgiven }: Opened, { number, retryAt, endedAt, error }: AttemptRow): void {
    if (retryAt === undefined || number === 0 || (command.type !== "step" && command.type !== "transaction")) return;
    if (error?.name === "FatalError")
      this.#broken("retries", "D8", `attempt ${number} of ${key.text} failed with a fatal error and is retried`);
    const asked = error === undefined ? undefined : askedWait(reviveError(error));
    const { nonRetryable: _, ...policy } = command.retry ?? {};
    const least = asked ?? retryDelay(resolveRetry(policy, "operation"), Math.max(1, number - forgiven), 0);
    const wait = retryAt - (endedAt ?? 0);
    if (wait < least - 1)
      this.#broken("retries", "D8", `${key.text} waits ${wait} ms after attempt ${number}; its policy requires at least ${least}`);
  }
  /** L4: trimming leaves the iterations that a loop or a receive keeps. */
  async trimmed(run: SeenRun, { turn, close }: TurnCommit): Promise<void> {
    if (close !== undefined) return;
    for (const command of turn?.commands ?? []) {
      if (command.type !== "commit" || command.trim === undefined) continue;
      const turns = await this.#inner.history(run.id);
      const kept = new Set(turns.flatMap(({ commands }) => commands.flatMap((one) => ("n" in one ? [one.seq] : []))));
      for (const { command: opened } of run.opened.values()) {
        const iteration = iterationOf(opened.unit, command.unit);
        if (opened.seq > command.seq && iteration !== undefined && iteration >= command.trim && !kept.has(opened.seq))
          this.#broken(
            "trimming",
            "L4",
            `${run.id} trimmed #${opened.seq} of iteration ${iteration}, but must keep iterations from ${command.trim} on`,
          );
      }
    }
  }
  /** D9: a run that parks has seen every message that was acknowledged before, or is available at once. */
  #parked(run: SeenRun, commit: TurnCommit, after: RunRow | undefined): void {
    if (after === undefined || after.workerId !== undefined) return;
    const waiting = [...run.inbox].find(([id, { isConsumed }]) => !isConsumed && id > (commit.seen ?? 0));
    if (commit.status !== "blocked") this.#checks.commits.parked(after, run.isCanceled);
    if (waiting !== undefined && (after.availableAt === undefined || after.availableAt > this.#world.now))
      this.#broken("parking", "D9", `${run.id} parks although message ${waiting[0]} in its inbox was not delivered`);
    const lost = [...(commit.attempts ?? [])].some(({ status, number }) => status === "lost" || number === 0);
    if (lost) run.losses++; // W4: its worker has released it
  }
  /** F1: a fork begins with turns of its source, which are still as they were committed. Only ids of children may differ. */
  copied(run: SeenRun, { forkedFrom = "", copied }: NewRun): void {
    const source = this.#checks.seen.get(forkedFrom);
    for (const key of copied?.keys ?? []) run.keys.set(key, 0);
    for (const turn of copied?.turns ?? []) {
      const own = { ...turn, jobs: turn.jobs.map(withoutId) };
      const committed = JSON.parse(source.turns[turn.index] ?? "{}") as Partial<Turn>;
      const parts = { ...committed, jobs: (committed.jobs ?? []).map(withoutId) };
      if (stable(own) !== stable(parts))
        this.#broken("prefix", "F1", `turn ${turn.index} of ${run.id} is not the turn of ${forkedFrom} that it was copied from`);
      run.turns.length = turn.index;
      this.#turn(run, turn);
    }
  }
  #turn(run: SeenRun, turn: Turn): void {
    if (turn.index !== run.turns.length) this.#broken("turns", "D2", `${run.id} wrote turn ${turn.index} after ${run.turns.length} turns`);
    if (turn.time < run.lastTime) this.#broken("time", "P7", `the time of ${run.id} went back from ${run.lastTime} to ${turn.time}`);
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
      this.#broken("answers", "Y3", `${run.id} received an answer to #${job.seq}, which it never opened`);
      return;
    }
    if (job.type === "resolve") {
      if (opened.isResolved) this.#broken("answers", "Y3", `${run.id} received a second outcome of #${job.seq} (${opened.command.name})`);
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
    opened.failed.clear(); // D10: it has all its attempts again
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
    if (HAS_ATTEMPTS.has(command.type)) this.#checks.seen.steps.set(key.text, { run, execution: run.execution, opened });
  }
  /** Records never change: a turn in the store is the committed turn without what was trimmed (L4). */
  compare(run: SeenRun, turn: Turn): void {
    const text = run.turns[turn.index];
    if (text === JSON.stringify(turn)) return;
    if (text === undefined) {
      this.#broken("history", "D2", `${run.id} has a turn ${turn.index} that was never committed`);
      return;
    }
    const committed = JSON.parse(text) as Turn;
    const isPart = (parts: readonly unknown[], whole: readonly unknown[]): boolean => {
      const texts = whole.map(stable);
      return parts.every((part) => texts.includes(stable(part)));
    };
    if (turn.time !== committed.time || !isPart(turn.jobs, committed.jobs) || !isPart(turn.commands, committed.commands))
      this.#broken("history", "D2", `turn ${turn.index} of ${run.id} is not the turn that was committed`);
  }
  /** Compares the histories in the store with the turns that were committed. */
  async checkHistories(): Promise<void> {
    for (const run of this.#checks.seen.all.values()) {
      const [row] = await this.#inner.get([run.id]);
      if (row === undefined) {
        if (run.turns.length > 0) this.#broken("history", "D2", `${run.id} is missing from the store`);
        continue;
      }
      if (row.execution !== run.execution) continue;
      for (const turn of await this.#inner.history(run.id)) this.compare(run, turn);
    }
  }
}

/** A child that is open in a fork has another id there. */
function withoutId(job: Job): Job {
  return job.type === "childStarted" ? { type: "childStarted", seq: job.seq, runId: "" } : job;
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

/** K7: rollbacks run after the deadline too. */
function isExempt({ status }: RunRow, { jobs }: Turn): boolean {
  return status === "rolling_back" || jobs.some(({ type }) => type === "expire");
}
