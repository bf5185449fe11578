// The clients of a simulated world: they repeat a call, from any process that is alive, until it is answered.
// Owns: the retries of clients, and the answers they got.
// Invariants: M1 M3 M10 (what a client was answered is durable, and a call repeated under its key has the same effect and answer).

import { type AnyWorkflow, InvalidInputError, jsonCodec, RunAlreadyExistsError } from "@holdfast/core";
import type { Holdfast, Run, StartOptions } from "holdfast";
import type { RunRow, Store } from "holdfast/store";
import { StoreError } from "holdfast/store";
import type { ReadChecks } from "./checks/reads.ts";
import type { StoreChecks } from "./checks/stores.ts";
import type { FaultDraws } from "./faults.ts";
import type { SimProcess } from "./process.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

/** A process with an engine in it. */
export interface Host {
  readonly process: SimProcess;
  readonly engine: Holdfast;
  /** The workflows that are deployed in this process. */
  readonly workflows: readonly AnyWorkflow[];
}
/** What a call resulted in: a value or an error. */
export type Asked<T> =
  | {
      /** What it returned. */
      readonly value: T;
    }
  | {
      /** What it threw. */
      readonly error: Error;
    };

const WAITS = 100;

/** The clients of a simulated world: they start runs and send messages, and repeat calls whose answer was lost. */
export class Clients {
  /** The world that they live in. */
  readonly world: World;
  /** Randomness from the seed. */
  readonly random: Random;
  /** What is checked of the store. */
  readonly checks: StoreChecks;
  readonly #store: Store;
  readonly #faults: FaultDraws;
  readonly #hosts: () => readonly Host[];
  readonly #reads: ReadChecks;

  constructor(
    world: World,
    random: Random,
    checks: StoreChecks,
    store: Store,
    faults: FaultDraws,
    hosts: () => readonly Host[],
    reads: ReadChecks,
  ) {
    this.#store = store;
    this.#reads = reads;
    this.world = world;
    this.random = random;
    this.checks = checks;
    this.#faults = faults;
    this.#hosts = hosts;
  }
  /** Whether this world has no faults. */
  get isCalm(): boolean {
    return this.#faults.isCalm;
  }
  /** Waits, in simulated milliseconds. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.world.after(ms, undefined, resolve));
  }
  /** Reports that a rule is broken. */
  violate(oracle: string, rule: string, message: string): void {
    this.world.violate(oracle, rule, message);
  }

  /** Calls an engine, and another one if the first dies or the store can't be reached. Other errors are answers. */
  async ask<T>(what: string, ask: (engine: Holdfast, host: Host) => Promise<T>): Promise<T> {
    for (;;) {
      const host = await this.#host();
      const { process } = host;
      process.note(`asks: ${what}`);
      try {
        const asked = ask(host.engine, host);
        asked.catch(() => {});
        const answer = await Promise.race([asked.then((value) => ({ value })), process.death]);
        if (answer !== "dead") return answer.value;
      } catch (error) {
        if (!isOutage(error)) throw error;
      }
      await this.sleep(this.random.span(WAITS));
    }
  }
  async #host(): Promise<Host> {
    for (;;) {
      const hosts = this.#hosts();
      if (hosts.length > 0) return this.random.pick(hosts);
      await this.sleep(WAITS);
    }
  }
  /** Like `ask`, with the answer or error as a value. A fault may make it ask twice; `agree` then gets both answers. */
  async told<T>(
    what: string,
    ask: (engine: Holdfast, host: Host) => Promise<T>,
    agree?: (first: Asked<T>, second: Asked<T>) => void,
  ): Promise<Asked<T>> {
    if (this.#faults.draw("sendTwice")) {
      const asked = this.#told(what, ask);
      await this.sleep(this.random.span(2));
      const second = await this.#told(`${what}, again`, ask);
      agree?.(await asked, second);
      await asked;
      return second;
    }
    return this.#told(what, ask);
  }
  async #told<T>(what: string, ask: (engine: Holdfast, host: Host) => Promise<T>): Promise<Asked<T>> {
    try {
      return { value: await this.ask(what, ask) };
    } catch (error) {
      return { error: error as Error };
    }
  }

  // ── the calls of clients ──

  /** Starts a run under an `id`. */
  async start(workflow: string, input: unknown, options: StartOptions & { id: string }): Promise<void> {
    try {
      await this.ask(`start ${options.id}`, (engine, host) => engine.start(codeOf(host, workflow) as never, input as never, options));
    } catch (error) {
      // An earlier call created the run, but its answer was lost.
      if (!(error instanceof RunAlreadyExistsError)) throw error;
    }
    if (!this.checks.seen.all.has(options.id))
      this.violate("acknowledged", "D2", `the start of ${options.id} was acknowledged, but the run does not exist`);
  }
  /** Sends a signal; the answer is an error if the signal was refused. */
  async signal(runId: string, name: string, payload: unknown, key: string): Promise<Asked<void>> {
    const told = await this.told(`signal ${name} ${key} to ${runId}`, (engine) =>
      (engine.run(runId) as Run<unknown, never>).signal(name as never, payload as never, { idempotencyKey: key } as never),
    );
    if ("value" in told && this.checks.seen.all.get(runId)?.keys.has(key) !== true)
      this.violate("acknowledged", "M1", `signal ${key} to ${runId} was acknowledged, but is not in the store`);
    return told;
  }
  /** Sends an update; `acceptWithin` in milliseconds. */
  async update(
    runId: string,
    name: string,
    input: unknown,
    key: string,
    options: { readonly acceptWithin?: number } = {},
  ): Promise<Asked<unknown>> {
    const told = await this.told(
      `update ${name} ${key} of ${runId}`,
      (engine) => (engine.run(runId) as Run<unknown>).update(name as never, input as never, { idempotencyKey: key, ...options } as never),
      (first, second) => {
        const [a, b] = [shown(first), shown(second)];
        if (a !== b) this.violate("acknowledged", "M10", `update ${key} of ${runId} was answered ${a}, and then ${b} under the same key`);
      },
    );
    if ("value" in told && this.checks.seen.all.get(runId)?.updates.has(key) !== true)
      this.violate("acknowledged", "M10", `the outcome of update ${key} of ${runId} was returned before it was durable`);
    this.world.note("", `update ${key} of ${runId}: ${"value" in told ? JSON.stringify(told.value) : told.error.name}`);
    return told;
  }
  /** Requests the cancellation of a run. */
  async cancel(runId: string): Promise<Asked<void>> {
    const told = await this.told(`cancel ${runId}`, (engine) => engine.run(runId).cancel("a client wants it"));
    const run = this.checks.seen.all.get(runId);
    if ("value" in told && run?.isAskedToCancel !== true && run?.isClosed !== true)
      this.violate("acknowledged", "K1", `the cancellation of ${runId} was acknowledged, but is not in the store`);
    return told;
  }
  /** Terminates a run. */
  async terminate(runId: string): Promise<Asked<void>> {
    const told = await this.told(`terminate ${runId}`, (engine) => engine.run(runId).terminate("a client wants it"));
    if ("value" in told && this.checks.seen.all.get(runId)?.isClosed !== true)
      this.violate("acknowledged", "K6", `the termination of ${runId} was acknowledged, but the run is open`);
    return told;
  }
  /** Waits for the result of a run. */
  async result(runId: string): Promise<Asked<unknown>> {
    const told = await this.#told(`result of ${runId}`, (engine) => engine.run(runId).result());
    if ("value" in told && this.checks.seen.all.get(runId)?.isClosed !== true)
      this.violate("acknowledged", "D2", `the result of ${runId} was returned before it was durable`);
    this.world.note("", `result of ${runId}: ${"value" in told ? JSON.stringify(told.value) : told.error.name}`);
    return told;
  }
  /** Like `result`, but keeps waiting while the run is blocked. */
  async end(runId: string): Promise<Asked<unknown>> {
    for (;;) {
      const told = await this.result(runId);
      if (!("error" in told) || told.error.name !== "RunBlockedError") return told;
      await this.sleep(500);
    }
  }
  /** The current answer to a query of the run. */
  query(runId: string, workflow: string, name: string): Promise<unknown> {
    return this.#reads.query(runId, workflow, name);
  }
  /** The run's row in the store, with its published `state` decoded. */
  async row(runId: string): Promise<(Omit<RunRow, "state"> & { readonly state: unknown }) | undefined> {
    const [row] = await this.#store.get([runId]);
    return row === undefined ? undefined : { ...row, state: row.state === undefined ? undefined : jsonCodec.decode(row.state) };
  }
}

function shown(told: Asked<unknown>): string {
  return "value" in told ? String(JSON.stringify(told.value)) : told.error.name;
}
function codeOf({ workflows }: Host, name: string): AnyWorkflow {
  const code = workflows.find((one) => one.name === name);
  if (code !== undefined) return code;
  const message = `no scenario has a workflow "${name}". Known workflows: ${workflows.map((one) => one.name).join(", ")}.`;
  throw new InvalidInputError({ what: "start", issues: [{ message, path: [] }] });
}
function isOutage(error: unknown): boolean {
  return error instanceof StoreError || (error as { code?: string }).code === "HF_ENGINE_CLOSED";
}
