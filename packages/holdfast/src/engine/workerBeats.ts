// The beats of a worker: it says every few seconds that it is alive, what it serves and how busy it is (B6).
// Owns: the timer of the beats, and the one that is under way.
// Invariants: a worker that dies is listed for two of its leases at most, and for half a minute; one that stops leaves at once. A beat that
// fails stops nothing: the next one repairs it.

import { hostname } from "node:os";
import type { Environment, Timer } from "@holdfast/host";
import type { Store } from "../store/port.ts";
import type { WorkerBeat, WorkflowRow } from "../store/workerPort.ts";

/** Milliseconds. A worker counts as alive for three of them. */
const BEAT_EVERY = 10_000;
const BEATS_ALIVE = 3;

export interface WorkerBeatsOptions {
  readonly store: Store;
  readonly environment: Environment;
  readonly lease: number;
  /** What the worker serves, and what it has in progress now. */
  describe(): Omit<WorkerBeat, "host" | "pid" | "aliveFor">;
  /** What its workflows look like: it does not change while the worker lives, and is said once. */
  readonly workflows: () => readonly WorkflowRow[];
}

export class WorkerBeats {
  readonly #options: WorkerBeatsOptions;
  readonly #every: number;
  #timer: Timer | undefined;
  #underWay: Promise<void> | undefined;

  constructor(options: WorkerBeatsOptions) {
    this.#options = options;
    this.#every = Math.min(BEAT_EVERY, (2 * options.lease) / BEATS_ALIVE);
  }
  /** Resolves when the worker is listed. */
  async start(): Promise<void> {
    if (this.#options.store.beat === undefined) return;
    this.#timer = this.#options.environment.every(this.#every, () => void this.#beat());
    await Promise.all([this.#beat(), this.#register()]);
  }
  async #register(): Promise<void> {
    const { store, workflows } = this.#options;
    try {
      await store.register?.(workflows());
    } catch {
      // Consoles know less then. Other calls report what is wrong with the store.
    }
  }
  async stop(): Promise<void> {
    if (this.#timer === undefined) return;
    this.#timer.cancel();
    const { store, describe } = this.#options;
    await this.#underWay;
    try {
      await store.leave?.(describe().id);
    } catch {
      // It is not listed for long. The store may be closed before its engine: that is an error that is thrown, not a rejection.
    }
  }
  #beat(): Promise<void> {
    this.#underWay ??= this.#send().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }
  async #send(): Promise<void> {
    const { store, describe } = this.#options;
    const aliveFor = BEATS_ALIVE * this.#every;
    try {
      await store.beat?.({ ...describe(), host: hostname(), pid: process.pid, aliveFor });
    } catch {
      // Other calls report what is wrong with the store.
    }
  }
}
