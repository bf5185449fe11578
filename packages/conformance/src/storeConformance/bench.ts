// What every test of the suite works with: a fresh store, a clock that only the test moves, and short words for long requests.
// Owns: the time of the store under test, and the defaults of runs, claims and turns.
// Invariants: one clock, the test's own (it stands in 1970, so that a store that asks any other is found out at once).

import assert from "node:assert/strict";
import { jsonCodec, type Payload, type SerializedError, type Turn } from "@holdfast/core";
import type {
  AttemptRow,
  ClaimedRun,
  ClaimedTask,
  ClaimRequest,
  ClaimResult,
  CommitResult,
  CreateResult,
  InboxJob,
  InboxMessage,
  NewMessage,
  NewRun,
  NewTask,
  RunRow,
  SendResult,
  Store,
  TurnCommit,
  UpdateOutcome,
} from "holdfast/store";
import { type SettledStore, settled, settledStore } from "./settledStore.ts";

export { type SettledStore, settled };

/** The time at which the clock of a test starts. */
export const START = 1_000_000;
/** How long the claims of a test last, in milliseconds. */
export const LEASE = 10_000;
const CLAIM_TRIES = 100;
const CLAIM_PAUSE_MS = 20;

/** A claim as a worker holds it. */
export interface Held {
  /** The id of the run. */
  readonly runId: string;
  /** The number of its execution. */
  readonly execution: number;
  /** The claim that is held. */
  readonly epoch: number;
  /** The worker that holds it. */
  readonly workerId: string;
  /** Turns committed, as the worker knows them; `turn` counts on. */
  turns: number;
}

/** A value, encoded. */
export const payload = (value: unknown): Payload => jsonCodec.encode(value);
/** A signal, as a turn gets it. */
export const signal = (id: string, name = "poke"): InboxJob => ({ type: "signal", id, name, payload: payload(id) });
/** An update, as a turn gets it. */
export const update = (id: string, name = "change"): InboxJob => ({ type: "update", id, name, input: payload(id) });
/** A cancellation, as a turn gets it. */
export const CANCEL: InboxJob = { type: "cancel" };
/** An error, as it is stored. */
export const failure = (message: string): SerializedError => ({ name: "Error", message });
/** The end of a run that has completed. */
export const COMPLETED = { status: "completed", output: payload("done") } as const;
/** One retry after exactly a second, three attempts. */
export const RETRY = { maxAttempts: 3, initialInterval: 1_000, backoff: 1, maxInterval: 1_000, jitter: 0 } as const;

type Again = (store: Store) => Promise<Store> | Store;
/** The store under test, and how to open it again. */
export interface Storage {
  /** Makes a store on the clock of the test (`clock`). */
  readonly makeStore: (options: {
    /** Milliseconds since 1970, by the test's clock. */
    readonly clock: () => number;
  }) => Promise<Store> | Store;
  /** Opens the same data again, after the store was closed. */
  readonly reopen?: Again | undefined;
  /** Opens the same data beside the open store, as another process does. */
  readonly beside?: Again | undefined;
}
interface Clock {
  time: number;
}

/** A store with the calls that tests make most, in their shortest form. */
export class Bench {
  /** The one under test, as its maker knows it. */
  raw: Store;
  /** The same; what is busy is asked for again. */
  store: SettledStore;
  readonly #clock: Clock;
  readonly #storage: Storage;

  private constructor(store: Store, clock: Clock, storage: Storage) {
    this.raw = store;
    this.store = settledStore(store);
    this.#clock = clock;
    this.#storage = storage;
  }
  /** A bench on a new store. */
  static async on(storage: Storage): Promise<Bench> {
    const clock = { time: START };
    return new Bench(await storage.makeStore({ clock: () => clock.time }), clock, storage);
  }
  /** The process dies; another opens the same storage. */
  async crash(): Promise<void> {
    const { reopen } = this.#storage;
    assert.ok(reopen !== undefined, "only stores that can be opened again have tests that crash");
    this.raw = await reopen(this.raw);
    this.store = settledStore(this.raw);
  }
  /** Another process opens the same storage. */
  async beside(): Promise<Bench> {
    const { beside } = this.#storage;
    assert.ok(beside !== undefined, "only stores that can be shared have tests that share");
    return new Bench(await beside(this.raw), this.#clock, this.#storage);
  }
  /** The time of the clock, in milliseconds since 1970. */
  get time(): number {
    return this.#clock.time;
  }
  /** The time of the clock, in milliseconds since 1970. */
  set time(time: number) {
    this.#clock.time = time;
  }

  // ── runs ──

  /** Each run has its own queue unless the test says otherwise. */
  newRun(id: string, more: Partial<NewRun> = {}): NewRun {
    const defaults = { workflow: "order", version: undefined, input: payload(id), queue: `queue of ${id}`, priority: 0 };
    return { id, ...defaults, attributes: {}, onConflict: "reject", seed: `seed of ${id}`, ...more };
  }
  /** Creates a run, and returns the answer. */
  async create(id: string, more: Partial<NewRun> = {}): Promise<CreateResult> {
    return only(await this.store.create([this.newRun(id, more)]));
  }
  /** Creates a run, and returns its row. */
  async created(id: string, more: Partial<NewRun> = {}): Promise<RunRow> {
    const result = await this.create(id, more);
    assert.equal(result.status, "created");
    return this.row(id);
  }
  /** The row of a run that exists. */
  async row(id: string): Promise<RunRow> {
    const row = only(await this.store.get([id]));
    assert.ok(row !== undefined, `there is no run ${id}`);
    return row;
  }
  /** Whether there is such a run. */
  async exists(id: string): Promise<boolean> {
    return only(await this.store.get([id])) !== undefined;
  }

  // ── claims ──

  /** Claims runs. */
  claim(more: Partial<ClaimRequest> = {}): Promise<ClaimResult> {
    const serves = [{ workflow: "order", versions: "*" }] as const;
    return this.store.claim({ workerId: "w1", queue: "default", serves, limit: 100, lease: LEASE, cached: () => undefined, ...more });
  }
  /** Claims from the queue of this run, which must be the one that comes. */
  async claimRun(id: string, more: Partial<ClaimRequest> = {}): Promise<ClaimedRun> {
    const { queue, workflow } = await this.row(id);
    let claimed: ClaimedRun | undefined;
    // A store may pass over a run that a writer, who may just have died, has locked for a moment.
    for (let tries = 0; claimed === undefined && tries < CLAIM_TRIES; tries++) {
      if (tries > 0) await new Promise((resolve) => setTimeout(resolve, CLAIM_PAUSE_MS));
      const { runs } = await this.claim({ queue, serves: [{ workflow, versions: "*" }], limit: 1, ...more });
      claimed = runs[0];
    }
    assert.ok(claimed !== undefined, `nothing to claim in ${queue}`);
    assert.equal(claimed.run.id, id);
    return claimed;
  }
  /** Whether a worker could claim the run now. */
  async isClaimable(id: string): Promise<boolean> {
    const { availableAt } = await this.row(id);
    return availableAt !== undefined && availableAt <= this.time;
  }
  /** Claims the run, and returns the claim. */
  async hold(id: string, more: Partial<ClaimRequest> = {}): Promise<Held> {
    return heldOf(await this.claimRun(id, more));
  }
  /** A new run, claimed. */
  async running(id: string, more: Partial<NewRun> = {}): Promise<Held> {
    await this.created(id, more);
    return this.hold(id);
  }
  /** A new run that has had a turn and waits for a message. */
  async parked(id: string, more: Partial<NewRun> = {}): Promise<Held> {
    const held = await this.running(id, more);
    await this.commit(held, { turn: this.turn(held), lease: "park", status: "sleeping" });
    return held;
  }
  /** What is in the inbox of a run that is held. */
  async inbox(held: Held, seen = 0): Promise<readonly InboxMessage[]> {
    const { runId, epoch, workerId } = held;
    const renewed = only(await this.store.renew(workerId, LEASE, [{ runId, epoch, seen }]));
    assert.ok(renewed.held, `the claim of ${runId} does not hold`);
    return renewed.inbox;
  }

  // ── turns ──

  /** The next turn of a held run: one step more. */
  turn(held: Held, more: Partial<Turn> = {}): Turn {
    const index = held.turns++;
    const step = { type: "step", seq: index + 1, unit: "", name: `step-${index}`, n: 0 } as const;
    return { index, time: this.time, historyLength: index, jobs: [], commands: [step], ...more };
  }
  /** A commit of a turn that does nothing. */
  draft(held: Held, more: Partial<TurnCommit> = {}): TurnCommit {
    const { runId, execution, epoch, workerId } = held;
    return { runId, execution, epoch, workerId, status: "running", lease: "keep", ...more };
  }
  /** Commits a turn, and returns the answer. */
  async tryCommit(held: Held, more: Partial<TurnCommit> = {}): Promise<CommitResult> {
    return only(await this.store.commit([this.draft(held, more)]));
  }
  /** Commits a turn that must be accepted, and returns the inbox. */
  async commit(held: Held, more: Partial<TurnCommit> = {}): Promise<readonly InboxMessage[]> {
    const result = await this.tryCommit(held, more);
    assert.ok(result.status === "committed", `the commit of ${held.runId} is stale`);
    return result.inbox;
  }
  /** Commits a turn that leaves the run waiting, and returns the inbox. */
  park(held: Held, more: Partial<TurnCommit> = {}): Promise<readonly InboxMessage[]> {
    return this.commit(held, { lease: "park", status: "sleeping", ...more });
  }
  /** Commits the last turn of a run. */
  async close(held: Held, close: TurnCommit["close"] = COMPLETED, more: Partial<TurnCommit> = {}): Promise<void> {
    await this.commit(held, { close, status: close?.status ?? "completed", ...more });
  }

  // ── messages ──

  /** Sends a message, and returns the answer. */
  async send(runId: string, job: InboxJob, idempotencyKey?: string): Promise<SendResult> {
    const message: NewMessage = idempotencyKey === undefined ? { job } : { job, idempotencyKey };
    return only(await this.store.send([{ runId, message }]));
  }
  /** Sends a message that must be accepted, and returns its id in the inbox. */
  async sent(runId: string, job: InboxJob, idempotencyKey?: string): Promise<number> {
    const result = await this.send(runId, job, idempotencyKey);
    assert.ok(result.status === "sent", `a message to ${runId}: ${result.status}`);
    return result.inboxId;
  }
  /** The outcome of an update. */
  async outcome(runId: string, id: string): Promise<UpdateOutcome | undefined> {
    return only(await this.store.updates([{ runId, id }]));
  }

  // ── activities ──

  /** An activity to schedule. */
  newTask(seq: number, more: Partial<NewTask> = {}): NewTask {
    return { seq, activity: "mail", queue: "tasks", input: payload(seq), retry: RETRY, location: `mail#${seq}`, ...more };
  }
  /** A run that waits for these activities. */
  async waitingFor(id: string, ...tasks: readonly NewTask[]): Promise<Held> {
    const held = await this.running(id);
    await this.commit(held, { turn: this.turn(held), tasks, lease: "park", status: "sleeping" });
    return held;
  }
  /** Claims activities. */
  async claimTasks(more: Partial<Parameters<Store["claimTasks"]>[0]> = {}): Promise<readonly ClaimedTask[]> {
    const { tasks } = await this.store.claimTasks({
      workerId: "w1",
      queue: "tasks",
      activities: ["mail"],
      limit: 100,
      lease: LEASE,
      ...more,
    });
    return tasks;
  }
  /** Claims the only activity. */
  async claimTask(more: Partial<Parameters<Store["claimTasks"]>[0]> = {}): Promise<ClaimedTask> {
    const task = (await this.claimTasks({ limit: 1, ...more }))[0];
    assert.ok(task !== undefined, "there is no activity to claim");
    return task;
  }
  /** Completes an attempt of an activity. False: the claim was lost. */
  async complete(task: ClaimedTask, value: unknown = "done"): Promise<boolean> {
    return only(
      await this.store.answerTasks([{ id: task.id, token: task.token, outcome: { status: "completed", value: payload(value) } }]),
    );
  }
  /** Fails an attempt of an activity. False: the claim was lost. */
  async fail(task: ClaimedTask, message = "no", retryable = true): Promise<boolean> {
    const outcome = { status: "failed", error: failure(message), retryable, random: 0.5 } as const;
    return only(await this.store.answerTasks([{ id: task.id, token: task.token, outcome }]));
  }
  /** The attempts of a run; `task`: those of activities. */
  async attempts(runId: string): Promise<(AttemptRow & { readonly task?: boolean })[]> {
    const rows = await this.store.attempts(runId);
    return rows.toSorted((a, b) => a.seq - b.seq || a.number - b.number);
  }
}

// ── looking ──

/** The claim on a run that was claimed. */
export function heldOf({ run }: ClaimedRun): Held {
  assert.ok(run.workerId !== undefined);
  return { runId: run.id, execution: run.execution, epoch: run.epoch, workerId: run.workerId, turns: run.turns };
}
/**
 * The only item.
 * @throws if there are more or fewer.
 */
export function only<T>(items: readonly T[]): T {
  assert.equal(items.length, 1, "a batch of one is answered by one");
  return items[0] as T;
}
/** The jobs of the messages. */
export const jobsOf = (inbox: readonly InboxMessage[]): InboxJob[] => inbox.map(({ job }) => job);
/** Ids of the signals and updates, in order. */
export const idsOf = (inbox: readonly InboxMessage[]): string[] => inbox.map(({ job }) => ("id" in job ? job.id : job.type));
/** The ids of the runs that were claimed. */
export const runIds = ({ runs }: ClaimResult): string[] => runs.map(({ run }) => run.id);
/** The numbers from 0 up to `count`. */
export const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** The one message there is: the answer to an operation. */
export function resolution(inbox: readonly InboxMessage[]): Extract<InboxJob, { type: "resolve" }> {
  const job = only(jobsOf(inbox));
  assert.ok(job.type === "resolve", `a ${job.type} where an answer was expected`);
  return job;
}
/** Of an outcome (`status`, `error`) that should be a failure: the name of its error. */
export function failureOf(outcome: { readonly status: string; readonly error?: SerializedError } | undefined): string | undefined {
  assert.ok(outcome !== undefined && (outcome.status === "failed" || outcome.status === "rejected"), `the outcome is ${outcome?.status}`);
  return outcome.error?.name;
}

/** Equal as stored values are: a field that is undefined is a field that is not there. */
export function same(actual: unknown, expected: unknown, message?: string): void {
  assert.deepEqual(bare(actual), bare(expected), message);
}
function bare(value: unknown): unknown {
  if (value instanceof Uint8Array) return `bytes ${[...value].join(" ")}`;
  if (Array.isArray(value)) return value.map(bare);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== undefined)
      .map(([key, field]) => [key, bare(field)]),
  );
}
