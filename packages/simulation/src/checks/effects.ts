// Checks what steps, transactions and activities really did: the oracles of effects.
// Owns: every attempt that began, and every effect that it had.
// Invariants: D1 D5 D6 D7 are checked whenever an attempt begins, D4 C7 (an attempt that is lost or cancelled is aborted) whenever it does
// something; transactions are counted at the end.

import type { StepInfo } from "@holdfast/core";
import type { Begun } from "../knownClaims.ts";
import type { SimProcess } from "../process.ts";
import type { World } from "../world.ts";
import { DRIFT_TOLERANCE } from "./seenRuns.ts";
import type { StoreChecks } from "./stores.ts";

interface Attempt {
  /** Undefined for an activity, which belongs to no claim. */
  readonly begun: Begun | undefined;
  readonly process: SimProcess;
  /** When it began. */
  readonly at: number;
  end: "none" | "failed" | "completed";
}
export interface Effect {
  readonly key: string;
  readonly attempt: number;
  readonly at: number;
}

/** Milliseconds that a process has to abort its steps. */
const MOMENT = 5;

/** K7: how far a worker may be behind the store's clock. It learns the store's time from its claims, whose answers may be late. */
const CLOCK_TOLERANCE = 1_000;

/** What steps have done, to check that each took effect as often as it may. */
export class Effects {
  readonly #world: World;
  readonly #checks: StoreChecks;
  readonly #attempts = new Map<string, Map<number, Attempt>>();
  /** In the order in which they happened. */
  readonly all: Effect[] = [];

  constructor(world: World, checks: StoreChecks) {
    this.#world = world;
    this.#checks = checks;
  }

  /** An attempt of a step begins in this process. */
  began(process: SimProcess, info: Pick<StepInfo, "attempt" | "idempotencyKey">, isActivity: boolean): void {
    const { attempt, idempotencyKey: key } = info;
    process.note(`begins ${key}, attempt ${attempt}`);
    const step = this.#checks.seen.steps.get(key);
    if (step === undefined) {
      this.#world.violate("effects", "D1", `${key} began before the commit that schedules it`);
      return;
    }
    const { run, opened, execution } = step;
    if (!isActivity && !opened.announced.has(attempt))
      this.#world.violate("effects", "D1", `attempt ${attempt} of ${key} began before the commit that announces it`);
    const attempts = this.#attempts.get(key) ?? new Map<number, Attempt>();
    this.#attempts.set(key, attempts);
    if (attempts.has(attempt)) this.#world.violate("attempts", "D7", `attempt ${attempt} of ${key} began twice: a lost attempt counts`);
    // A worker that does not know yet that it lost its claim may begin a step; one that holds the claim knows the recorded outcomes.
    if (opened.isResolved && run.holder === process.workerId)
      this.#world.violate("effects", "D6", `${key} began again after its outcome was recorded`);
    const before = attempts.get(attempt - 1);
    if (!isActivity && before?.end === "none" && !opened.failed.has(attempt - 1) && run.losses === opened.announced.get(attempt - 1))
      this.#world.violate(
        "parking",
        "D5",
        `attempt ${attempt} of ${key} began while attempt ${attempt - 1} was running, although no worker had lost the run`,
      );
    if (!isActivity && opened.command.type !== "rollback") this.#checks.deadlines.began(run.id, key, CLOCK_TOLERANCE);
    const early = (opened.failed.get(attempt - 1) ?? 0) - this.#world.now;
    if (!isActivity && early > DRIFT_TOLERANCE)
      this.#world.violate("retries", "D8", `attempt ${attempt} of ${key} began ${early} ms before it was due`);
    const { command } = opened;
    const most = "retry" in command ? command.retry?.maxAttempts : undefined;
    const failures = [...opened.failed.keys()].filter((number) => number > 0).length; // 0: a stopping worker released it before it began (W4)
    if (!isActivity && most !== undefined && failures >= most)
      this.#world.violate("retries", "D8", `attempt ${attempt} of ${key} began after ${failures} had failed; its policy allows ${most}`);
    const begun = isActivity ? undefined : { runId: run.id, execution, seq: command.seq, epoch: process.told.epochOf(run.id) };
    attempts.set(attempt, { end: "none", begun, process, at: this.#world.age });
  }
  /** An attempt has ended. */
  ended(info: StepInfo, end: "failed" | "completed"): void {
    const attempt = this.#attempts.get(info.idempotencyKey)?.get(info.attempt);
    if (attempt === undefined) return;
    attempt.end = end;
    this.#checkTold(attempt, info);
  }
  /** An attempt has taken effect. */
  effect(info: StepInfo): void {
    const { idempotencyKey: key, attempt: number } = info;
    this.all.push({ key, attempt: number, at: this.#world.now });
    const attempt = this.#attempts.get(key)?.get(number);
    if (attempt !== undefined) this.#checkTold(attempt, info);
  }
  /** D4 C7: the signal of an attempt is aborted as soon as its process knows that the claim is over or the operation cancelled. */
  #checkTold({ begun, process, at }: Attempt, { signal, attempt, idempotencyKey: key }: StepInfo): void {
    const over = begun === undefined ? undefined : process.told.overSince(begun);
    if (over === undefined || over.at <= at || this.#world.age - over.at < MOMENT || signal.aborted) return;
    const why = over.rule === "D4" ? "its claim was over" : "its run had cancelled it";
    this.#world.violate("aborts", over.rule, `attempt ${attempt} of ${key} continued and was not aborted although ${why}`);
  }
  /** The numbers of the attempts that began. */
  begun(key: string): readonly number[] {
    return [...(this.#attempts.get(key)?.keys() ?? [])];
  }
  /** How many attempts a step had. */
  attemptsOf(key: string): number {
    return this.#attempts.get(key)?.size ?? 0;
  }

  /** Checks that a transaction whose completion is recorded has written once, and that no transaction has written twice. */
  checkTransactions(rows: readonly string[]): void {
    const counts = new Map<string, number>();
    for (const key of rows) counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const [key, count] of counts) if (count > 1) this.#world.violate("transactions", "D6", `${key} has written ${count} times`);
    for (const [key, { run, opened }] of this.#checks.seen.steps) {
      if (opened.command.type !== "transaction" || !opened.isResolved) continue;
      if (!opened.isCompleted && counts.has(key))
        this.#world.violate("transactions", "D6", `${key} of ${run.id} is recorded as failed, but its writes are in the database`);
      if (opened.isCompleted && !counts.has(key))
        this.#world.violate("transactions", "D6", `${key} of ${run.id} is recorded as completed, but its writes are not in the database`);
    }
  }
}
