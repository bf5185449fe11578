// A handle on a run for adapters whose host is behind the public API: `Holdfast` and `Run`.
// Owns: how the calls of `HostRun` become calls of `Run`.
// Invariants: it settles the host before it answers, as `Host` demands.

import type { AnyWorkflow } from "@holdfast/core";
import type { Holdfast, Run } from "holdfast";
import type { HostRun, HostSend, HostUpdate } from "./host.ts";

/** As a caller in plain JavaScript sees it. */
type AnyRun = Run<unknown, never, never, never> & {
  signal(name: string, payload: unknown, options: HostSend): Promise<void>;
  update(name: string, input: unknown, options: object): Promise<unknown>;
  query(name: string, args: unknown): Promise<unknown>;
};

/** What a handle needs of its host. */
export interface Settling {
  /** Resolves once nothing can advance. */
  settle(): Promise<void>;
  /** A call from outside. */
  asked<T>(call: (holdfast: Holdfast) => Promise<T>): Promise<T>;
  /** The same, for what may need a timer that is due now. */
  askedNow<T>(call: (holdfast: Holdfast) => Promise<T>): Promise<T>;
}

const ENDED = new Set(["completed", "failed", "canceled", "terminated", "blocked"]);

/** A run of an engine, as the tests of hosts use it. */
export class HoldfastRun implements HostRun {
  readonly id: string;
  readonly #host: Settling;
  readonly #workflow: AnyWorkflow;
  constructor(host: Settling, workflow: AnyWorkflow, id: string) {
    this.#host = host;
    this.#workflow = workflow;
    this.id = id;
  }
  #asked<T>(call: (run: AnyRun) => Promise<T>): Promise<T> {
    return this.#host.asked((holdfast) => call(holdfast.run(this.id, this.#workflow) as unknown as AnyRun));
  }
  async #do(call: (run: AnyRun) => Promise<void>): Promise<void> {
    await this.#asked(call);
    await this.#host.settle();
  }
  async #info() {
    await this.#host.settle();
    return this.#asked((run) => run.describe());
  }
  async result(): Promise<unknown> {
    const { status } = await this.#info();
    if (!ENDED.has(status)) throw new Error(`Run ${this.id} is ${status}.`);
    return this.#host.askedNow((holdfast) => holdfast.run(this.id, this.#workflow).result());
  }
  async status() {
    return (await this.#info()).status;
  }
  async waitingFor() {
    return (await this.#info()).waitingFor;
  }
  signal(name: string, payload?: unknown, options: HostSend = {}) {
    return this.#do((run) => run.signal(name, payload, options));
  }
  async update(name: string, input?: unknown, options: HostUpdate = {}) {
    const reply = this.#asked((run) => run.update(name, input, options));
    reply.catch(() => {}); // The caller that awaits it gets the error.
    await this.#host.settle();
    return reply;
  }
  query(name: string, args?: unknown) {
    return this.#asked((run) => run.query(name, args));
  }
  state() {
    return this.#asked((run) => run.state());
  }
  cancel(reason?: string) {
    return this.#do((run) => run.cancel(reason));
  }
  terminate(reason?: string) {
    return this.#do((run) => run.terminate(reason));
  }
  recover() {
    return this.#do((run) => run.resume());
  }
  history() {
    return this.#asked((run) => run.history());
  }
  operations() {
    return this.#asked((run) => run.operations());
  }
}
