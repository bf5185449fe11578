// The way from a process to the store and back, with everything that can happen on it.
// Owns: when a call is carried out, when its answer comes, and whether it does.
// Invariants: a call is carried out at most once, as a whole; what was answered was carried out; a dead process hears nothing.

import type { ClaimResult, CommitResult, CreateResult, NewRun, Store, TurnCommit, Wakeup } from "holdfast/store";
import { StoreError } from "holdfast/store";
import type { FaultDraws } from "./faults.ts";
import type { SimProcess } from "./process.ts";
import type { World } from "./world.ts";

/** Milliseconds that a way takes as a rule. */
const WAY = 0.7;

type Claim = Parameters<Store["renew"]>[2][number];
type Answer<T> = { readonly value: T } | { readonly error: unknown };

function outage(what: string): StoreError {
  return new StoreError(`${what} Try again.`, { code: "HF_STORE_UNAVAILABLE", retryable: true });
}

/** What a process sees of the store. */
export class Network {
  readonly #world: World;
  readonly #faults: FaultDraws;
  readonly #store: Store;
  /** Of the leases in this world: slow calls take about as long. */
  readonly #lease: number;
  readonly #watchers = new Map<SimProcess, Set<(wakeup: Wakeup) => void>>();

  /** When a call of a process last went wrong, or took its time. */
  readonly #troubled = new Map<SimProcess, number>();

  readonly #onCommitFailed: (turns: readonly TurnCommit[]) => void;

  constructor(world: World, faults: FaultDraws, store: Store, lease: number, onCommitFailed: (turns: readonly TurnCommit[]) => void) {
    this.#onCommitFailed = onCommitFailed;
    this.#world = world;
    this.#faults = faults;
    this.#store = store;
    this.#lease = lease;
    store.watch((wakeup) => this.#hint(wakeup));
  }

  // ── calls ──

  /** `onFailure`: told if the caller will see an error that is the network's. `onTold`: told what the caller is, just before it is. */
  #call<T>(
    process: SimProcess,
    what: string,
    perform: () => Promise<T>,
    onFailure?: () => void,
    onTold?: (given: Answer<T>) => void,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (process.isDead) return;
      const faults = this.#faults;
      const { random } = process;
      let there = random.span(WAY);
      let back = random.span(WAY);
      const answer = (given: Answer<T>, after: number): void => {
        const tell = (): void => {
          onTold?.(given);
          if ("value" in given) resolve(given.value);
          else reject(given.error);
        };
        this.#world.after(after, process, tell);
        if (faults.draw("answerTwice")) this.#world.after(after + random.span(WAY), process, tell);
      };
      const trouble = (): void => void this.#troubled.set(process, this.#world.age);
      if (faults.draw("refuse")) {
        trouble();
        this.#world.note(process.name, `${what} is refused`);
        onFailure?.();
        answer({ error: outage("The store could not be reached.") }, there + back);
        return;
      }
      if (faults.draw("slow")) {
        trouble();
        const slow = faults.stream("slow");
        if (slow.chance(0.5)) there += slow.next() * 1.5 * this.#lease;
        else back += slow.next() * 1.5 * this.#lease;
      }
      let isGivenUp = false;
      if (faults.draw("timeOut")) {
        const stream = faults.stream("timeOut");
        const patience = stream.next() * this.#lease;
        // Carried out before the caller gives up, or after.
        there = stream.next() * 2 * patience;
        isGivenUp = true;
        trouble();
        onFailure?.();
        answer({ error: outage("The store did not answer in time.") }, patience);
      }
      const isLost = !isGivenUp && faults.draw("loseAnswer");
      if (isLost) {
        trouble();
        onFailure?.();
      }
      // A transaction is the caller's own code: it does not run without it. Other calls may be on their way when the caller dies.
      const owner = what === "transact" ? process : random.chance(0.5) ? process.wire : undefined;
      const carryOut = async (): Promise<void> => {
        let given: Answer<T>;
        try {
          given = { value: await perform() };
        } catch (error) {
          given = { error };
        }
        if (isGivenUp) this.#world.note(process.name, `${what} is carried out; its caller gives up, or has`);
        else if (isLost) {
          this.#world.note(process.name, `${what} is carried out; its answer is lost`);
          answer({ error: outage("The connection broke.") }, back);
        } else answer(given, back);
      };
      this.#world.after(there, owner, () => void carryOut());
    });
  }

  /** Nothing has gone wrong with its calls, or all of that is long over. */
  isUntroubled(process: SimProcess): boolean {
    return this.#world.age > (this.#troubled.get(process) ?? Number.NEGATIVE_INFINITY) + 4 * this.#lease;
  }

  /** The store as a process sees it. */
  storeOf(process: SimProcess): Store {
    const store = this.#store;
    const call = <A extends unknown[], T>(what: string, method: (...args: A) => Promise<T>) => {
      return (...args: A): Promise<T> => this.#call(process, what, () => method.apply(store, args));
    };
    return {
      commitsAtOnce: 2, // two may overtake each other
      open: async () => {},
      close: async () => {},
      now: call("now", store.now),
      create: (runs) => this.#call(process, "create", () => store.create(runs), undefined, (given) => this.#toldCreated(process, runs, given)), // biome-ignore format: one line
      claim: (request) => {
        process.workerId = request.workerId;
        if (!process.isReady) this.#world.violate("starting", "W1", `${request.workerId} claims before it has started`);
        const cached = (runId: string) => (process.isDead ? undefined : request.cached(runId));
        return this.#call(process, "claim", () => store.claim({ ...request, cached }), undefined, (given) => this.#toldClaimed(process, given)); // biome-ignore format: one line
      },
      commit: (turns) => this.#call(process, "commit", () => store.commit(turns), () => this.#onCommitFailed(turns), (given) => this.#toldCommitted(process, turns, given)), // biome-ignore format: one line
      send: call("send", store.send),
      renew: (workerId, lease, claims) => this.#call(process, "renew", () => store.renew(workerId, lease, claims), undefined, (given) => this.#toldRenewed(process, claims, given)), // biome-ignore format: one line
      terminate: call("terminate", store.terminate),
      resume: call("resume", store.resume),
      expire: call("expire", store.expire),
      ...(store.transact !== undefined && { transact: call("transact", store.transact) }),
      claimTasks: call("claimTasks", store.claimTasks),
      heartbeat: call("heartbeat", store.heartbeat),
      answerTasks: call("answerTasks", store.answerTasks),
      get: call("get", store.get),
      history: call("history", store.history),
      attempts: call("attempts", store.attempts),
      ...(store.workers !== undefined && { workers: call("workers", store.workers) }),
      updates: call("updates", store.updates),
      rejectUpdates: call("rejectUpdates", store.rejectUpdates),
      list: call("list", store.list),
      count: call("count", store.count),
      watch: (onWakeup) => this.#watch(process, onWakeup),
    };
  }

  // ── what processes know ──

  #toldCreated({ told }: SimProcess, runs: readonly NewRun[], given: Answer<readonly CreateResult[]>): void {
    if (!("value" in given)) return;
    for (const [i, { id, first }] of runs.entries())
      if (first !== undefined && given.value[i]?.status === "created") told.claimed(id, 1, this.#world.age);
  }
  #toldClaimed({ told }: SimProcess, given: Answer<ClaimResult>): void {
    if ("value" in given) for (const { run } of given.value.runs) told.claimed(run.id, run.epoch, this.#world.age);
  }
  #toldRenewed({ told }: SimProcess, claims: readonly Claim[], given: Answer<readonly { readonly held: boolean }[]>): void {
    if (!("value" in given)) return;
    for (const [i, { runId, epoch }] of claims.entries()) if (given.value[i]?.held === false) told.lost(runId, epoch, this.#world.age);
  }
  /** Whoever can't know whether its commit was carried out gives the run up. */
  #toldCommitted({ told }: SimProcess, turns: readonly TurnCommit[], given: Answer<readonly CommitResult[]>): void {
    const { age } = this.#world;
    for (const [i, { runId, execution, epoch, close, turn }] of turns.entries()) {
      const status = "value" in given ? given.value[i]?.status : undefined;
      if (status === "late") continue; // nothing was written
      const isOver = status !== "committed" || close !== undefined;
      if (isOver) told.lost(runId, epoch, age);
      else for (const command of turn?.commands ?? []) if (command.type === "cancel") told.gaveUp(runId, execution, command.seq, age);
    }
  }

  // ── hints ──

  #watch(process: SimProcess, onWakeup: (wakeup: Wakeup) => void): () => void {
    const watchers = this.#watchers.get(process) ?? new Set();
    this.#watchers.set(process, watchers);
    watchers.add(onWakeup);
    return () => watchers.delete(onWakeup);
  }
  /** D9: hints may be lost, late or doubled. */
  #hint(wakeup: Wakeup): void {
    for (const [process, watchers] of this.#watchers) {
      if (process.isDead) this.#watchers.delete(process);
      else for (const watcher of watchers) this.#tell(process, () => watcher(wakeup));
    }
  }
  #tell(process: SimProcess, tell: () => void): void {
    const faults = this.#faults;
    const { random } = process;
    const late = (): number => (faults.draw("lateHint") ? faults.stream("lateHint").span(this.#lease / 2) : 0);
    if (!faults.draw("loseHint")) this.#world.after(random.span(WAY) + late(), process, tell);
    if (faults.draw("doubleHint")) this.#world.after(random.span(WAY) + late(), process, tell);
  }
}
