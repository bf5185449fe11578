// Asks about runs as anybody may, with the client's own code: the oracles of what is told.
// Owns: an engine of its own, right beside the store. Its questions take no time and no draw, so that they shift nothing.
// Invariants: M11 (a query answers with the state that was last published), D12 (every attempt is in the list of operations).

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
  /** Code as it is at the beginning. */
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
    // Open already, and closed by whoever opened it; whoever asks so seldom needs no hints.
    this.#store = { ...options.checks.store, open: async () => {}, close: async () => {}, watch: () => () => {} };
  }
  #open(): Promise<Holdfast> {
    const never = (): Timer => ({ cancel: () => {} });
    const environment: Environment = { ...this.#options.process.environment, every: never };
    this.#engine ??= Holdfast.with({ store: this.#store, environment });
    return this.#engine;
  }

  /** M11: what it says of the state that was last published, neither an older one nor one that no commit has. */
  async query(runId: string, workflow: string, name: string): Promise<unknown> {
    const engine = await this.#open();
    const code = this.#options.workflows.find((one) => one.name === workflow) as AnyWorkflow;
    const { published } = this.#options.checks.seen.get(runId);
    const first = Math.max(0, published.length - 1);
    const answer: unknown = await engine.run(runId, code).query(name as never);
    const states = published.length === 0 ? [undefined] : published.slice(first);
    const answers = states.map((state) => stable(evaluateQuery(code, name, state, undefined)));
    if (!answers.includes(stable(answer)))
      this.#world.violate("queries", "M11", `${name} of ${runId} was answered ${stable(answer)}; it was ${answers.join(" or ")}`);
    return answer;
  }

  /** D12: of every operation that is recorded. */
  async checkOperations(): Promise<void> {
    const engine = await this.#open();
    for (const run of this.#options.checks.seen.all.values()) {
      const [row] = await this.#store.get([run.id]);
      if (row === undefined || row.execution !== run.execution) continue;
      const listed = new Map((await engine.run(run.id).operations()).map((operation) => [operation.location, operation]));
      const turns = await this.#store.history(run.id);
      const kept = new Set(turns.flatMap(({ commands }) => commands.flatMap((command) => ("n" in command ? [command.seq] : []))));
      for (const { command, key } of run.opened.values()) {
        if (!HAS_ATTEMPTS.has(command.type) || !kept.has(command.seq)) continue; // L4: trimmed, with its attempts
        const operation = listed.get(key.location);
        if (operation === undefined) this.#broken(key.text, "is recorded, and not among the operations");
        else this.#checkAttempts(run, key.text, operation);
      }
    }
  }
  #checkAttempts(run: SeenRun, key: string, { attempts, status }: OperationInfo): void {
    const numbers = new Set(attempts.map(({ number }) => number));
    for (const number of this.#options.effects.begun(key)) {
      if (!numbers.has(number)) this.#broken(key, `has begun its attempt ${number}, and the list has ${[...numbers].join(", ") || "none"}`);
    }
    for (const [i, attempt] of attempts.entries()) {
      if (attempt.number !== i + 1) this.#broken(key, `has attempt ${attempt.number} in place ${i + 1}`);
      if (!this.#options.checks.seen.workers.has(attempt.workerId))
        this.#broken(key, `has attempt ${attempt.number} on worker "${attempt.workerId}", which nobody has seen`);
      this.#checkTimes(key, attempt, attempts[i - 1]);
    }
    const completed = attempts.filter((attempt) => attempt.status === "completed").length;
    const isTold = status !== "completed" || completed === 1;
    if (completed > 1 || !isTold) this.#broken(key, `of ${run.id} is ${status}, and ${completed} of its attempts are completed`);
  }
  /** By clocks that may have drifted. */
  #checkTimes(key: string, { number, startedAt, endedAt }: Attempt, previous: Attempt | undefined): void {
    const start = startedAt.getTime();
    const end = endedAt?.getTime() ?? this.#world.now;
    if (end < start - DRIFT_TOLERANCE || end > this.#world.now + DRIFT_TOLERANCE)
      this.#broken(key, `began its attempt ${number} at ${start} and ended it at ${end}; it is ${this.#world.now}`);
    const before = previous?.startedAt.getTime() ?? 0;
    if (start < before - DRIFT_TOLERANCE) this.#broken(key, `began its attempt ${number} at ${start}, and the one before at ${before}`);
  }
  #broken(key: string, message: string): void {
    this.#world.violate("operations", "D12", `${key} ${message}`);
  }
}
