// The bodies of steps and activities in a simulated world: they take time, have effects, fail, hang, or ignore their signal.
// Owns: the behaviour of every attempt, drawn from the seed by the name of the attempt, so that the order of attempts does not change it.
// Invariants: a body ends with its process; the effects that it had by then count.

import { type ActivityInfo, RetryLaterError, type StepInfo } from "@holdfast/core";
import type { Effects } from "./checks/effects.ts";
import type { FaultDraws } from "./faults.ts";
import type { SimProcess } from "./process.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

/** Options of a body. */
export interface WorkOptions {
  /**
   * Milliseconds that the body usually takes.
   * @defaultValue `5`
   */
  readonly takes?: number;
  /** The body always fails. */
  readonly fails?: boolean;
}
/** How a transaction writes a row: with `insert` on the memory store, with SQL on SQLite. */
interface Table {
  insert?(key: string): void;
  run?(sql: string, ...parameters: unknown[]): unknown;
  exec?(sql: string): void;
}

/** The bodies of steps in a simulated world: they take time, fail and hang by the seed. */
export class StepBodies {
  /** The process that they run in. */
  readonly process: SimProcess;
  readonly #world: World;
  readonly #faults: FaultDraws;
  readonly #effects: Effects;
  /** The length of leases in this world. */
  readonly #lease: number;
  readonly #calm: Promise<void>;

  constructor(process: SimProcess, faults: FaultDraws, effects: Effects, lease: number, calm: Promise<void>) {
    this.process = process;
    this.#world = process.world;
    this.#faults = faults;
    this.#effects = effects;
    this.#lease = lease;
    this.#calm = calm;
  }
  /** The body of a step: returns the value after some time, unless it fails. */
  step<T>(info: StepInfo, value: T, options: WorkOptions = {}): Promise<T> {
    this.#effects.began(this.process, info, false);
    return this.#work(info, value, options);
  }
  /** Does the work of an activity and returns the value. */
  activity<T>(info: ActivityInfo, value: T, options: WorkOptions = {}): Promise<T> {
    this.#effects.began(this.process, info, true);
    return this.#work(info, value, options, () => info.heartbeat(info.attempt));
  }
  /** The synchronous body of a transaction. */
  transaction<T>(tx: unknown, info: StepInfo, value: T): T {
    this.#effects.began(this.process, info, false);
    const random = this.#world.random(`attempt ${info.idempotencyKey} ${info.attempt}`);
    write(tx as Table, info.idempotencyKey);
    if (random.chance(this.#faults.rate("stepThrows"))) {
      this.#faults.struck.stepThrows++;
      this.#effects.ended(info, "failed");
      throw new Error("The step threw.");
    }
    this.#effects.ended(info, "completed");
    return value;
  }
  async #work<T>(info: StepInfo, value: T, options: WorkOptions, beat?: () => void): Promise<T> {
    const random = this.#world.random(`attempt ${info.idempotencyKey} ${info.attempt}`);
    const throws = random.chance(this.#faults.rate("stepThrows"));
    const hangs = random.chance(this.#faults.rate("stepHangs"));
    const ignoresAbort = random.chance(this.#faults.rate("stepIgnoresAbort"));
    const isLong = random.chance(0.05);
    const takes = isLong ? random.next() * 2 * this.#lease : random.span(options.takes ?? 5);
    try {
      await this.process.sleep(takes * random.next());
      beat?.();
      if (hangs) await this.#hang(info, ignoresAbort);
      if (info.signal.aborted) this.#aborted(info, ignoresAbort);
      if (throws) this.#faults.struck.stepThrows++;
      if (options.fails === true || throws) throw failureOf(random);
      this.#effects.effect(info);
      await this.process.sleep(takes * random.next());
      this.#effects.ended(info, "completed");
      return value;
    } catch (error) {
      this.#effects.ended(info, "failed");
      throw error;
    }
  }
  #aborted({ signal }: StepInfo, isIgnored: boolean): void {
    if (!isIgnored) throw signal.reason;
    this.#faults.struck.stepIgnoresAbort++;
  }
  /** Hangs until its signal is aborted, or the faults are over. */
  async #hang({ signal }: StepInfo, ignoresAbort: boolean): Promise<void> {
    this.#faults.struck.stepHangs++;
    const told = new Promise<void>((resolve) => {
      if (!ignoresAbort) signal.addEventListener("abort", () => resolve());
    });
    await Promise.race([told, this.#calm]);
    await this.process.sleep(1);
  }
}

/** D8: some failures say when to retry. */
function failureOf(random: Random): Error {
  return random.chance(0.2) ? new RetryLaterError("The step asked for time.", { after: random.span(100) }) : new Error("The step threw.");
}

function write(table: Table, key: string): void {
  if (table.insert !== undefined) return table.insert(key);
  table.exec?.("CREATE TABLE IF NOT EXISTS simulated (key TEXT)");
  table.run?.("INSERT INTO simulated (key) VALUES (?)", key);
}
