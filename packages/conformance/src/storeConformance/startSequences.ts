// Conformance: random sequences of starts, claims, signals and ends of one run, against a small model.
// Owns: the model: what Q9 says of one run, in a few lines.
// Invariants tested: Q9, M1, K9, P10.

import type { NewRun } from "holdfast/store";
import { type Bench, CANCEL, COMPLETED, type Held, heldOf, idsOf, payload, range, START, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

interface Waiting {
  input: number;
  at: number;
  firstAt: number;
  isReplacing: boolean;
  signals: number[];
}
interface Model {
  execution: number;
  status: "pending" | "running" | "completed" | "canceled" | "terminated";
  /** A worker has claimed it since its start. */
  isBegun: boolean;
  input: number;
  at: number;
  firstAt: number;
  /** In order of arrival. */
  signals: number[];
  next: Waiting | undefined;
}
const isOpen = ({ status }: Model): boolean => status === "pending" || status === "running";

/** Whole numbers below `below`, the same for the same seed. */
export function randomOf(seed: number): (below: number) => number {
  let state = (seed + 1) * 2_654_435_761;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

class Sequence {
  readonly #bench: Bench;
  readonly #random: (below: number) => number;
  #model: Model | undefined;
  #held: Held | undefined;
  #given: readonly { readonly id: number; readonly name: number }[] = [];
  #count = 0;

  constructor(bench: Bench, seed: number) {
    this.#bench = bench;
    this.#random = randomOf(seed);
  }
  async step(): Promise<string> {
    const ways = [
      "start",
      "start",
      "start",
      "claim",
      "claim",
      "close",
      "close",
      "continue",
      "signal",
      "cancel",
      "terminate",
      "tick",
    ] as const;
    const way = ways[this.#random(ways.length)] ?? "tick";
    await this[way]();
    return way;
  }
  async check(): Promise<void> {
    const model = this.#model;
    if (model === undefined) return;
    const { execution, status, input, availableAt } = await this.#bench.row("a");
    const at = model.status === "pending" ? model.at : availableAt;
    same([execution, status, input, availableAt], [model.execution, model.status, payload(model.input), at]);
  }

  /** The end of an execution: its next start begins, or the run is closed. */
  #end(model: Model, status: "completed" | "canceled" | "terminated"): void {
    const { next } = model;
    this.#held = undefined;
    if (next === undefined) {
      model.status = status;
      model.signals = [];
      return;
    }
    const { input, at, firstAt, signals } = next;
    const waiting = [...model.signals, ...signals].sort((a, b) => a - b);
    this.#model = { ...model, execution: model.execution + 1, status: "pending", isBegun: false, input, firstAt, signals: waiting, next: undefined, at: Math.max(at, this.#bench.time) }; // biome-ignore format: one value
  }

  async start(): Promise<void> {
    const input = ++this.#count;
    const { time } = this.#bench;
    const onConflict = this.#random(2) === 0 ? "replace" : "debounce";
    const delay = [0, 10, 30][this.#random(3)] ?? 0;
    const maxDelay = onConflict === "debounce" && this.#random(2) === 0 ? 20 : undefined;
    const more: Partial<NewRun> = { onConflict, input: payload(input), delay, maxDelay, messages: [{ job: signal(String(input)) }] };
    await this.#bench.create("a", more);
    const startTime = (firstAt: number): number =>
      Math.min(time + delay, maxDelay === undefined ? Number.POSITIVE_INFINITY : firstAt + maxDelay);
    const model = this.#model;
    if (model === undefined || !isOpen(model)) {
      const execution = (model?.execution ?? 0) + 1;
      this.#model = { execution, status: "pending", isBegun: false, input, at: startTime(time), firstAt: time, signals: [input], next: undefined }; // biome-ignore format: one value
      return;
    }
    if (!model.isBegun) {
      const at = startTime(model.firstAt);
      model.at = at <= time ? Math.min(at, model.at) : at;
      model.input = input;
      model.signals.push(input);
      return;
    }
    const firstAt = model.next?.firstAt ?? time;
    const isCanceled = onConflict === "replace" && model.next?.isReplacing !== true;
    const isReplacing = isCanceled || model.next?.isReplacing === true;
    model.next = { input, at: startTime(firstAt), firstAt, isReplacing, signals: [...(model.next?.signals ?? []), input] };
    if (isCanceled && model.status === "pending") this.#end(model, "canceled"); // K9: it was continued, and no worker has begun with it
  }
  async claim(): Promise<void> {
    const model = this.#model;
    if (model?.status !== "pending" || model.at > this.#bench.time) return;
    const claimed = await this.#bench.claimRun("a");
    const messages = claimed.inbox.filter(({ job }) => job.type === "signal");
    same(idsOf(messages).map(Number), model.signals);
    this.#given = messages.map(({ id, job }) => ({ id, name: Number("id" in job ? job.id : 0) }));
    this.#held = heldOf(claimed);
    model.status = "running";
    model.isBegun = true;
  }
  /** Some of what the turn was given is consumed by code; of the rest it was given half, and half is still in the inbox. */
  async close(): Promise<void> {
    const [model, held] = [this.#model, this.#held];
    if (model === undefined || held === undefined) return;
    const consumed = this.#given.slice(0, this.#random(this.#given.length + 1));
    const left = this.#given.slice(consumed.length);
    const unconsumed = this.#random(2) === 0 ? left : [];
    const taken = [...consumed, ...unconsumed].map(({ id }) => id);
    const close = { ...COMPLETED, unconsumed: unconsumed.map(({ name }) => ({ job: signal(String(name)) })) };
    await this.#bench.close(held, close, { turn: this.#bench.turn(held), consumed: taken });
    const names = new Set(consumed.map(({ name }) => name));
    model.signals = model.signals.filter((name) => !names.has(name));
    this.#end(model, "completed");
  }
  async continue(): Promise<void> {
    const [model, held] = [this.#model, this.#held];
    if (model === undefined || held === undefined) return;
    const input = ++this.#count;
    const next = { input: payload(input), version: undefined, seed: `seed ${input}`, carried: [] };
    await this.#bench.close(held, { status: "continued", next }, { turn: this.#bench.turn(held) });
    this.#held = undefined;
    Object.assign(model, { execution: model.execution + 1, status: "pending", input, at: this.#bench.time } satisfies Partial<Model>);
  }
  async signal(): Promise<void> {
    const name = ++this.#count;
    if (this.#model === undefined || !isOpen(this.#model)) return;
    await this.#bench.sent("a", signal(String(name)));
    this.#model.signals.push(name);
  }
  async cancel(): Promise<void> {
    const model = this.#model;
    if (model === undefined || !isOpen(model) || this.#random(2) === 0) return;
    await this.#bench.sent("a", CANCEL);
    model.next = undefined;
    if (model.status === "pending") this.#end(model, "canceled");
  }
  async terminate(): Promise<void> {
    const model = this.#model;
    if (model === undefined || !isOpen(model) || this.#random(3) > 0) return;
    await this.#bench.store.terminate([{ runId: "a", reason: undefined }]);
    model.next = undefined;
    this.#end(model, "terminated");
  }
  async tick(): Promise<void> {
    this.#bench.time += this.#random(20);
  }
}

export function startSequences({ test }: Suite): void {
  for (const seed of range(6))
    test(`Q9 any sequence of starts, claims, signals and ends is as the model says (seed ${seed})`, async (bench) => {
      const sequence = new Sequence(bench, START + seed);
      const steps: string[] = [];
      for (const _ of range(120)) {
        try {
          steps.push(await sequence.step());
          await sequence.check();
        } catch (error) {
          throw new Error(`After ${steps.join(", ")}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
        }
      }
    });
}
