// The network between processes and the store, with its faults.
// Owns: when a call is carried out, and when and whether its answer arrives.
// Invariants: a call is carried out at most once, as a whole; a call that was answered was carried out; a dead process receives nothing.

import type {
  Answer,
  ClaimResult,
  CommitResult,
  CreateResult,
  HeldClaim,
  NewRun,
  QueueStore,
  Renewal,
  Store,
  TurnCommit,
  Wakeup,
} from "holdfast/store";
import { faultOf, StoreError } from "holdfast/store";
import type { FaultDraws } from "./faults.ts";
import type { SimProcess } from "./process.ts";
import type { World } from "./world.ts";

/** Milliseconds that a message usually takes in one direction. */
const WAY = 0.7;

type Given<T> = { readonly value: T } | { readonly error: unknown };

function locked(): StoreError {
  return new StoreError("Another transaction holds a lock. Try again.", { code: "HF_STORE_BUSY", retryable: true, fault: "busy" });
}

function outage(what: string): StoreError {
  return new StoreError(`${what} Try again.`, { code: "HF_STORE_UNAVAILABLE", retryable: true });
}

interface Batch<I, R> {
  readonly keyOf: (item: I) => string;
  readonly perform: (items: readonly I[]) => Promise<Answer<R>[]>;
  readonly onFailure?: () => void;
  readonly onTold?: (given: Given<readonly Answer<R>[]>) => void;
}
const runOf = ({ runId }: { readonly runId: string }): string => runId;
const taskOf = ({ id }: { readonly id: number }): string => `task ${id}`;
function doneOf<R>(answer: Answer<R> | undefined): R | undefined {
  return answer === "busy" ? undefined : answer;
}

/** Gives each process its connection to the store. */
export class Network {
  readonly #world: World;
  readonly #faults: FaultDraws;
  readonly #store: Store & QueueStore;
  /** The length of leases in this world: slow calls take about as long. */
  readonly #lease: number;
  readonly #watchers = new Map<SimProcess, Set<(wakeup: Wakeup) => void>>();

  /** When a call of each process last failed or was slow. */
  readonly #troubled = new Map<SimProcess, number>();

  readonly #onCommitFailed: (turns: readonly TurnCommit[]) => void;
  /** Whether closed runs may have to go: the worlds in which all are kept have no calls for that. */
  isRetiring: () => boolean = () => false;

  constructor(
    world: World,
    faults: FaultDraws,
    store: Store & QueueStore,
    lease: number,
    onCommitFailed: (turns: readonly TurnCommit[]) => void,
  ) {
    this.#onCommitFailed = onCommitFailed;
    this.#world = world;
    this.#faults = faults;
    this.#store = store;
    this.#lease = lease;
    store.watch((wakeup) => this.#hint(wakeup));
  }

  // ── calls ──

  /** `onFailure` is called if the caller will get an error from the network; `onTold` gets the answer just before the caller does. */
  #call<T>(
    process: SimProcess,
    what: string,
    perform: () => Promise<T>,
    onFailure?: () => void,
    onTold?: (given: Given<T>) => void,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (process.isDead) return;
      const faults = this.#faults;
      const { random } = process;
      let there = random.span(WAY);
      let back = random.span(WAY);
      const answer = (given: Given<T>, after: number): void => {
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
        // The call is carried out before the caller's timeout, or after it.
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
      // A transaction runs the caller's code, so it ends with the caller. Other calls may still arrive after the caller has died.
      const owner = what === "transact" ? process : random.chance(0.5) ? process.wire : undefined;
      const carryOut = async (): Promise<void> => {
        let given: Given<T>;
        try {
          given = { value: await perform() };
        } catch (error) {
          given = { error };
        }
        if (isGivenUp) this.#world.note(process.name, `${what} is carried out; its caller times out`);
        else if (isLost) {
          this.#world.note(process.name, `${what} is carried out; its answer is lost`);
          answer({ error: outage("The connection broke.") }, back);
        } else answer(given, back);
      };
      this.#world.after(there, owner, () => void carryOut());
    });
  }

  /** A batched call; another transaction may hold a lock on one of its keys. */
  #batch<I, R>(process: SimProcess, what: string, items: readonly I[], batch: Batch<I, R>): Promise<Answer<R>[]> {
    const { keyOf, perform, onFailure, onTold } = batch;
    const isLocked = items.length > 0 && this.#faults.draw("locked");
    const stream = this.#faults.stream("locked");
    const first = isLocked ? stream.between(0, items.length - 1) : items.length;
    const key = isLocked ? keyOf(items[first] as I) : undefined;
    const isRejected = isLocked && stream.chance(0.3);
    const isBusy = items.map((item, i) => i >= first && keyOf(item) === key);
    const carryOut = async (): Promise<Answer<R>[]> => {
      if (isLocked) this.#world.note(process.name, `${what} finds ${key} locked`);
      if (isRejected) throw locked();
      const free = items.filter((_, i) => isBusy[i] !== true);
      const results = isLocked && free.length === 0 ? [] : await perform(free);
      let used = 0;
      return isBusy.map((one) => (one ? "busy" : (results[used++] as Answer<R>)));
    };
    return this.#call(process, what, carryOut, onFailure, onTold);
  }

  /** Whether no call of the process has failed or been slow for a while. */
  isUntroubled(process: SimProcess): boolean {
    return this.#world.age > (this.#troubled.get(process) ?? Number.NEGATIVE_INFINITY) + 4 * this.#lease;
  }

  /** The store as one process reaches it. */
  storeOf(process: SimProcess): Store {
    const store = this.#store;
    const call = <A extends unknown[], T>(what: string, method: (...args: A) => Promise<T>) => {
      return (...args: A): Promise<T> => this.#call(process, what, () => method.apply(store, args));
    };
    return {
      limits: { ...store.limits, calls: 2 }, // two calls may overtake each other
      open: async () => {},
      close: async () => {},
      now: call("now", store.now),
      create: (runs) => {
        const onTold = (given: Given<readonly Answer<CreateResult>[]>): void => this.#toldCreated(process, runs, given);
        return this.#batch(process, "create", runs, { keyOf: ({ id }) => id, perform: (some) => store.create(some), onTold });
      },
      claim: (request) => {
        process.workerId = request.workerId;
        if (!process.isReady) this.#world.violate("starting", "W1", `${request.workerId} claims before it has started`);
        const cached = (runId: string) => (process.isDead ? undefined : request.cached(runId));
        return this.#call(process, "claim", () => store.claim({ ...request, cached }), undefined, (given) => this.#toldClaimed(process, given)); // biome-ignore format: one line
      },
      commit: (turns) => {
        const onFailure = (): void => this.#onCommitFailed(turns);
        const onTold = (given: Given<readonly Answer<CommitResult>[]>): void => this.#toldCommitted(process, turns, given);
        return this.#batch(process, "commit", turns, { keyOf: runOf, perform: (some) => store.commit(some), onFailure, onTold });
      },
      send: (messages) => this.#batch(process, "send", messages, { keyOf: runOf, perform: (some) => store.send(some) }),
      renew: (workerId, lease, claims) => {
        const onTold = (given: Given<readonly Answer<Renewal>[]>): void => this.#toldRenewed(process, claims, given);
        return this.#batch(process, "renew", claims, { keyOf: runOf, perform: (some) => store.renew(workerId, lease, some), onTold });
      },
      terminate: (runs) => this.#batch(process, "terminate", runs, { keyOf: runOf, perform: (some) => store.terminate(some) }),
      resume: (ids) => this.#batch(process, "resume", ids, { keyOf: (id) => id, perform: (some) => store.resume(some) }),
      expire: call("expire", store.expire),
      readSchedules: call("readSchedules", store.readSchedules),
      listSchedules: call("listSchedules", store.listSchedules),
      changeSchedule: call("changeSchedule", store.changeSchedule),
      deleteSchedule: call("deleteSchedule", store.deleteSchedule),
      tick: (ticks) => this.#batch(process, "tick", ticks, { keyOf: ({ schedule }) => schedule, perform: (some) => store.tick(some) }),
      retire: () => (this.isRetiring() ? this.#call(process, "retire", () => store.retire()) : Promise.resolve(0)),
      setQueue: call("setQueue", store.setQueue),
      deleteQueue: call("deleteQueue", store.deleteQueue),
      pauseQueue: call("pauseQueue", store.pauseQueue),
      resumeQueue: call("resumeQueue", store.resumeQueue),
      getQueue: call("getQueue", store.getQueue),
      listQueues: call("listQueues", store.listQueues),
      limitsFor: call("limitsFor", store.limitsFor),
      delete: (ids) => this.#batch(process, "delete", ids, { keyOf: (id) => id, perform: (some) => store.delete(some) }),
      ...(store.transact !== undefined && { transact: call("transact", store.transact) }),
      claimTasks: call("claimTasks", store.claimTasks),
      heartbeat: (beats) => this.#batch(process, "heartbeat", beats, { keyOf: taskOf, perform: (some) => store.heartbeat(some) }),
      answerTasks: (answers) => this.#batch(process, "answerTasks", answers, { keyOf: taskOf, perform: (some) => store.answerTasks(some) }),
      get: call("get", store.get),
      history: call("history", store.history),
      inbox: call("inbox", store.inbox),
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

  #toldCreated({ told }: SimProcess, runs: readonly NewRun[], given: Given<readonly Answer<CreateResult>[]>): void {
    if (!("value" in given)) return;
    for (const [i, { id, first }] of runs.entries()) {
      const result = doneOf(given.value[i]);
      if (first !== undefined && result?.status === "created" && result.begun !== false) told.claimed(id, 1, this.#world.age);
    }
  }
  #toldClaimed({ told }: SimProcess, given: Given<ClaimResult>): void {
    if ("value" in given) for (const { run } of given.value.runs) told.claimed(run.id, run.epoch, this.#world.age);
  }
  #toldRenewed({ told }: SimProcess, claims: readonly HeldClaim[], given: Given<readonly Answer<Renewal>[]>): void {
    if (!("value" in given)) return;
    for (const [i, { runId, epoch }] of claims.entries())
      if (doneOf(given.value[i])?.held === false) told.lost(runId, epoch, this.#world.age);
  }
  /** A worker that can't know whether its commit was carried out loses the run. */
  #toldCommitted({ told }: SimProcess, turns: readonly TurnCommit[], given: Given<readonly Answer<CommitResult>[]>): void {
    const { age } = this.#world;
    if ("error" in given && faultOf(given.error) === "busy") return; // nothing was written
    for (const [i, { runId, execution, epoch, close, turn }] of turns.entries()) {
      if ("value" in given && given.value[i] === "busy") continue; // nothing was written
      const status = "value" in given ? doneOf(given.value[i])?.status : undefined;
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
