// Descriptions of runs for people: what they wait for, and their last failure.
// Owns: nothing; it reads the store, and asks the workers of this process, then the registry of all workers, what they serve.
// Invariants: P11 W6 (shows what an open run waits for; without a registry it says nothing about other processes), D12 (shows the last failure
// while the next attempt is due). The registry is read only if no worker of this process serves what is due. What is due is so by the store's
// clock: that of this process may be seconds away from it.

import type { RunStatus } from "@holdfast/core";
import { lastFailure } from "@holdfast/host";
import type { RunDescription } from "../backend/port.ts";
import type { RunRow, Store } from "../store/port.ts";
import type { WorkerRow } from "../store/workerPort.ts";
import { isActivity, needsHistory, type OpenActivity, openActivities, waitingForOf } from "./waitingFor.ts";

/** What a worker of this process serves. */
interface Server {
  hasCodeFor(run: Pick<RunRow, "workflow" | "version" | "queue">): boolean;
  hasActivity(name: string, queue: string): boolean;
}

/** What decides what a run waits for. */
type Waiting = Pick<RunRow, "workflow" | "version" | "queue" | "status" | "workerId" | "availableAt" | "after" | "waitingFor">;
/** What descriptions are read from. */
type DescribingStore = Pick<Store, "now" | "history" | "attempts" | "liveWorkers">;

const OPEN: ReadonlySet<RunStatus> = new Set(["pending", "running", "sleeping", "blocked", "rolling_back"]);
/** Parked: they wait for a worker. A blocked run waits for code, as its row says. */
const PARKED: ReadonlySet<RunStatus> = new Set(["pending", "sleeping", "rolling_back"]);

export class Descriptions {
  readonly #workers: () => Iterable<Server>;

  constructor(workers: () => Iterable<Server>) {
    this.#workers = workers;
  }

  /** From their rows, and from what workers serve. */
  async ofRows<R extends Waiting>(rows: readonly R[], store: DescribingStore): Promise<R[]> {
    const now = await timeFor(rows, store);
    const others = rows.some((row) => waitsForWorker(row, now) && !this.#servesHere(row)) ? await readOthers(store) : UNKNOWN;
    return rows.map((row) => ({ ...row, waitingFor: this.#waitingFor(row, others, now) }));
  }

  /** Also from its history and attempts, if they say more. */
  async describe(row: RunRow, store: DescribingStore): Promise<RunDescription> {
    const [description = row] = await this.ofRows([row], store);
    const isLeased = row.workerId !== undefined;
    if (!OPEN.has(row.status) || (!isLeased && !needsHistory(row.waitingFor))) return description;
    const [turns, attempts] = await Promise.all([store.history(row.id), store.attempts(row.id)]);
    // While a worker drives a run, its row does not say what it waits for: that follows from the history.
    const waitingFor = isLeased ? waitingForOf(turns, attempts) : description.waitingFor;
    const open = openActivities(turns, attempts);
    const isHere = (one: OpenActivity): boolean => one.isAttempted || this.#hasActivityHere(one.name, one.queue ?? row.queue);
    const others = open.every(isHere) ? UNKNOWN : await readOthers(store);
    const words = (one: OpenActivity): string => this.#describeActivity(one, one.queue ?? row.queue, others);
    const activities = new Map(open.map((one) => [isLeased ? one.description : one.operation, words(one)]));
    return {
      ...description,
      error: row.error ?? lastFailure(turns, attempts),
      waitingFor: waitingFor.map((text) => activities.get(text) ?? text),
    };
  }

  /** Due, and no worker of this process serves it. */
  isUnservedHere(row: RunRow, now: number): boolean {
    return isDue(row, now) && !this.#servesHere(row);
  }
  /** Why no worker can ever advance it; undefined if one can, or if the run waits for something else. */
  async unserved(row: RunRow, store: Store): Promise<string | undefined> {
    if (!this.isUnservedHere(row, await timeFor([row], store))) return this.#unservedActivity(row, store);
    const others = await readOthers(store);
    return this.#serves(row, others) ? undefined : noWorker(row, others);
  }
  /** One that was never attempted, and that no worker serves. */
  async #unservedActivity(row: RunRow, store: Store): Promise<string | undefined> {
    if (row.workerId !== undefined || !row.waitingFor.some(isActivity)) return undefined;
    const { waitingFor } = await this.describe(row, store);
    return waitingFor.find((text) => isActivity(text) && text.includes("(no worker "));
  }

  #waitingFor(row: Waiting, others: Others, now: number): readonly string[] {
    const { availableAt, status, after, waitingFor } = row;
    const worker = this.#serves(row, others) ? [] : [noWorker(row, others)];
    // A new run that a worker serves is about to begin.
    if (isDue(row, now)) return worker.length > 0 || status === "pending" ? worker : ["a free worker"];
    if (status === "pending" && after !== undefined) return [`run ${after} to close`, ...worker];
    if (status !== "pending" || availableAt === undefined) return waitingFor;
    return [`start at ${new Date(availableAt).toISOString()}`, ...worker];
  }
  #servesHere(row: Waiting): boolean {
    for (const worker of this.#workers()) if (worker.hasCodeFor(row)) return true;
    return false;
  }
  #serves(row: Waiting, others: Others): boolean {
    return this.#servesHere(row) || others?.some((worker) => servesRun(worker, row)) === true;
  }
  #hasActivityHere(name: string, queue: string): boolean {
    for (const worker of this.#workers()) if (worker.hasActivity(name, queue)) return true;
    return false;
  }
  /** An activity that was attempted before has a worker somewhere. */
  #describeActivity({ description, name, isAttempted }: OpenActivity, queue: string, others: Others): string {
    if (isAttempted) return description;
    const isServed = this.#hasActivityHere(name, queue) || others?.some((worker) => servesActivity(worker, name, queue)) === true;
    return `${description} (${isServed ? "a free worker" : `${none(others)} serves it`}${inQueue(queue)})`;
  }
}

/** The store's time, if something in the rows depends on it. */
async function timeFor(rows: readonly Waiting[], store: Pick<Store, "now">): Promise<number> {
  return rows.some((row) => isDue(row, Number.POSITIVE_INFINITY)) ? store.now() : Number.NEGATIVE_INFINITY;
}
/** True if a worker could claim it then: what it waited for has happened (a message, a timer, its start). */
function isDue({ status, workerId, availableAt }: Waiting, now: number): boolean {
  return workerId === undefined && PARKED.has(status) && availableAt !== undefined && availableAt <= now;
}
function waitsForWorker(row: Waiting, now: number): boolean {
  return isDue(row, now) || (row.status === "pending" && row.workerId === undefined);
}

/** Workers of all processes that are alive. Undefined: the store has no registry, or it was not read. */
type Others = readonly WorkerRow[] | undefined;
const UNKNOWN: Others = undefined;
async function readOthers(store: Pick<Store, "liveWorkers">): Promise<Others> {
  return store.liveWorkers?.();
}
export function servesRun(worker: WorkerRow, { workflow, version, queue }: Pick<RunRow, "workflow" | "version" | "queue">): boolean {
  return worker.serves.some((served) => {
    if (served.workflow !== workflow || (served.queue ?? worker.queue) !== queue) return false;
    return served.versions === "*" || served.versions.includes(version);
  });
}
export function servesActivity(worker: WorkerRow, name: string, queue: string): boolean {
  return worker.queue === queue && worker.activities.includes(name);
}

/** Without a registry another process may have one. */
const none = (others: Others): string => (others === undefined ? "no worker in this process" : "no worker");
function noWorker(row: Waiting, others: Others): string {
  return `${none(others)} serves ${servedAs(row)}`;
}
/** What a worker must serve to drive this run. */
export function servedAs({ workflow, version, queue }: Pick<RunRow, "workflow" | "version" | "queue">): string {
  return `${workflow}${version === undefined ? "" : `@${version}`}${inQueue(queue)}`;
}
function inQueue(queue: string): string {
  return queue === "default" ? "" : ` in queue "${queue}"`;
}
