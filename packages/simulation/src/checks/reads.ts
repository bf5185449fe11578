// Checks what clients read about runs, through the real client: the oracles of queries, operations and lists.
// Owns: a separate engine with direct access to the store. Its calls take no simulated time and draw nothing, so they change no trace.
// Invariants: M11 (a query is answered from the state that was last published), D12 (the list of operations contains every attempt), B1 B2
// (lists and counts equal a look at every run).

import { type AnyWorkflow, evaluateQuery, HAS_ATTEMPTS, type OperationInfo } from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import { Holdfast, type RunFilter } from "holdfast";
import type { RunRow, Store } from "holdfast/store";
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

  /** B1, B2: lists and counts, page by page, beside a look at every run. */
  async checkLists(): Promise<void> {
    const engine = await this.#open();
    const rows = (await this.#store.get([...this.#options.checks.seen.all.keys()])).filter((row) => row !== undefined);
    for (const { filter, matches } of questionsOf(rows)) {
      const expected = rows.filter(matches).toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
      const listed: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await engine.list({ ...filter, limit: 7, ...(cursor !== undefined && { cursor }) });
        listed.push(...page.runs.map(({ id }) => id));
        cursor = page.cursor;
      } while (cursor !== undefined && listed.length <= rows.length);
      const ids = expected.map(({ id }) => id);
      if (listed.join() !== ids.join())
        this.#world.violate(
          "lists",
          "B1",
          `${stable(filter)} lists ${listed.join(", ") || "nothing"} instead of ${ids.join(", ") || "nothing"}`,
        );
      const { capped: _, ...counts } = await engine.count(filter);
      const counted = Object.values(counts).reduce((sum, count) => sum + count, 0);
      const isRight = expected.every(({ status }) => counts[status] === expected.filter((row) => row.status === status).length);
      if (!isRight || counted !== ids.length)
        this.#world.violate("lists", "B2", `${stable(filter)} counts ${stable(counts)}, and ${ids.length} runs match`);
    }
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

interface Question {
  readonly filter: RunFilter;
  readonly matches: (row: RunRow) => boolean;
}
/** Of each kind of test, about what some of these runs have. */
function questionsOf(rows: readonly RunRow[]): Question[] {
  const some = rows.filter((_, i) => i % Math.ceil(rows.length / SAMPLES) === 0);
  const questions: Question[] = [{ filter: {}, matches: () => true }];
  for (const { id, workflow, status, createdAt, finishedAt, attributes } of some) {
    const prefix = id.slice(0, -1);
    questions.push({ filter: { workflow: [workflow], status }, matches: (row) => row.workflow === workflow && row.status === status });
    if (prefix !== "") questions.push({ filter: { idPrefix: prefix }, matches: (row) => row.id.startsWith(prefix) });
    questions.push({ filter: { until: new Date(createdAt) }, matches: (row) => row.createdAt < createdAt });
    if (finishedAt !== undefined)
      questions.push({ filter: { finishedSince: new Date(finishedAt) }, matches: (row) => (row.finishedAt ?? -1) >= finishedAt });
    for (const [name, value] of Object.entries(attributes)) {
      questions.push({ filter: { attributes: { [name]: value } }, matches: (row) => row.attributes[name] === value });
      questions.push({
        filter: { attributes: { [name]: { in: [value, "other"] } }, workflow },
        matches: (row) => row.attributes[name] === value && row.workflow === workflow,
      });
      if (typeof value !== "number") continue;
      questions.push({
        filter: { attributes: { [name]: { lte: value } } },
        matches: ({ attributes: { [name]: own } }) => typeof own === "number" && own <= value,
      });
    }
  }
  return questions;
}
const SAMPLES = 5;
