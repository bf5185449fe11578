// Checks what clients read about runs, through the real client: the oracles of queries and operations.
// Owns: a separate engine with direct access to the store. Its calls take no simulated time and draw nothing, so they change no trace.
// Invariants: M11 (a query is answered from the state that was last published), D12 (the list of operations contains every attempt).

import { type AnyWorkflow, evaluateQuery, HAS_ATTEMPTS, type OperationInfo } from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import { Holdfast } from "holdfast";
import type { Store } from "holdfast/store";
import type { SimProcess } from "../process.ts";
import type { World } from "../world.ts";
import type { Effects } from "./effects.ts";
import { DRIFT_TOLERANCE, type SeenRun, stable } from "./seenRuns.ts";
import type { StoreChecks } from "./stores.ts";

export interface ReadChecksOptions {
  readonly process: SimProcess;
  readonly checks: StoreChecks;
  readonly effects: Effects;
  /** The workflows of the first build. */
  readonly workflows: readonly AnyWorkflow[];
}
type Attempt = OperationInfo["attempts"][number];

export class ReadChecks {
  readonly #world: World;
  readonly #options: ReadChecksOptions;
  readonly #store: Store;
  #engine: Promise<Holdfast> | undefined;

  constructor(options: ReadChecksOptions) {
    this.#world = options.process.world;
    this.#options = options;
    // The simulation opens and closes the store; calls as rare as these need no hints.
    this.#store = { ...options.checks.store, open: async () => {}, close: async () => {}, watch: () => () => {} };
  }
  #open(): Promise<Holdfast> {
    const never = (): Timer => ({ cancel: () => {} });
    const environment: Environment = { ...this.#options.process.environment, every: never };
    this.#engine ??= Holdfast.with({ store: this.#store, environment });
    return this.#engine;
  }

  /** M11: the answer comes from the last published state: not from an older one, and not from one that no commit contains. */
  async query(runId: string, workflow: string, name: string): Promise<unknown> {
    const engine = await this.#open();
    const code = this.#options.workflows.find((one) => one.name === workflow) as AnyWorkflow;
    const { published } = this.#options.checks.seen.get(runId);
    const first = Math.max(0, published.length - 1);
    const answer: unknown = await engine.run(runId, code).query(name as never);
    const states = published.length === 0 ? [undefined] : published.slice(first);
    const answers = states.map((state) => stable(evaluateQuery(code, name, state, undefined)));
    if (!answers.includes(stable(answer)))
      this.#world.violate("queries", "M11", `${name} of ${runId} was answered ${stable(answer)} instead of ${answers.join(" or ")}`);
    return answer;
  }

  /** D12: checks the listed attempts of every recorded operation. */
  async checkOperations(): Promise<void> {
    const engine = await this.#open();
    for (const run of this.#options.checks.seen.all.values()) {
      const [row] = await this.#store.get([run.id]);
      if (row === undefined || row.execution !== run.execution) continue;
      const listed = new Map((await engine.run(run.id).operations()).map((operation) => [operation.location, operation]));
      const turns = await this.#store.history(run.id);
      const kept = new Set(turns.flatMap(({ commands }) => commands.flatMap((command) => ("n" in command ? [command.seq] : []))));
      for (const { command, key } of run.opened.values()) {
        if (!HAS_ATTEMPTS.has(command.type) || !kept.has(command.seq)) continue; // L4: trimmed together with its attempts
        const operation = listed.get(key.location);
        if (operation === undefined) this.#broken(key.text, "is recorded, but not in the list of operations");
        else this.#checkAttempts(run, key.text, operation);
      }
    }
  }
  #checkAttempts(run: SeenRun, key: string, { attempts, status }: OperationInfo): void {
    const numbers = new Set(attempts.map(({ number }) => number));
    for (const number of this.#options.effects.begun(key)) {
      if (!numbers.has(number))
        this.#broken(key, `began attempt ${number}, but its listed attempts are ${[...numbers].join(", ") || "none"}`);
    }
    for (const [i, attempt] of attempts.entries()) {
      if (attempt.number !== i + 1) this.#broken(key, `has attempt ${attempt.number} at position ${i + 1} of the list`);
      if (!this.#options.checks.seen.workers.has(attempt.workerId))
        this.#broken(key, `has attempt ${attempt.number} on worker "${attempt.workerId}", which never existed`);
      this.#checkTimes(key, attempt, attempts[i - 1]);
    }
    const completed = attempts.filter((attempt) => attempt.status === "completed").length;
    const isTold = status !== "completed" || completed === 1;
    if (completed > 1 || !isTold) this.#broken(key, `of ${run.id} is ${status}, but ${completed} of its attempts are completed`);
  }
  /** The times come from clocks that may have drifted. */
  #checkTimes(key: string, { number, startedAt, endedAt }: Attempt, previous: Attempt | undefined): void {
    const start = startedAt.getTime();
    const end = endedAt?.getTime() ?? this.#world.now;
    if (end < start - DRIFT_TOLERANCE || end > this.#world.now + DRIFT_TOLERANCE)
      this.#broken(key, `has attempt ${number} listed from ${start} to ${end}; the time is ${this.#world.now}`);
    const before = previous?.startedAt.getTime() ?? 0;
    if (start < before - DRIFT_TOLERANCE)
      this.#broken(key, `has attempt ${number} listed from ${start}, which is before its previous attempt at ${before}`);
  }
  #broken(key: string, message: string): void {
    this.#world.violate("operations", "D12", `${key} ${message}`);
  }
}
