// What a run waits for, in words, for those who look at it.
// Owns: nothing; it reads, and asks the workers of this process what they serve.
// Invariants: P11 W6 (what an open run waits for can be seen; nothing is claimed of other processes, which this one does not know),
// D12 (the last failure is shown while the next attempt is awaited).

import type { RunStatus } from "@holdfast/core";
import { type Environment, lastFailure } from "@holdfast/host";
import type { RunDescription } from "../backend/port.ts";
import { isActivity, needsMore, type OpenActivity, openActivities, waitingForOf } from "../host/waiting.ts";
import type { RunRow, Store } from "../store/port.ts";

/** Of a worker of this process: what it could take up. */
interface Server {
  hasCodeFor(run: Pick<RunRow, "workflow" | "version" | "queue">): boolean;
  hasActivity(name: string, queue: string): boolean;
}

/** Of other processes nothing is known here: one of them may serve it. */
const NO_WORKER = "no worker in this process";
const OPEN: ReadonlySet<RunStatus> = new Set(["pending", "running", "sleeping", "blocked", "rolling_back"]);
/** Parked: a worker has to take them up. A blocked one waits for code, and says so itself. */
const PARKED: ReadonlySet<RunStatus> = new Set(["pending", "sleeping", "rolling_back"]);

/** What is said of runs to those who look at them. */
export class Descriptions {
  readonly #environment: Environment;
  readonly #workers: () => Iterable<Server>;

  constructor(environment: Environment, workers: () => Iterable<Server>) {
    this.#environment = environment;
    this.#workers = workers;
  }

  /** With what its row says, and the workers of this process. */
  ofRow(row: RunRow): RunDescription {
    return { ...row, waitingFor: this.#waitingFor(row) };
  }

  /** With what history and attempts say as well, where that is more. */
  async describe(row: RunRow, store: Store): Promise<RunDescription> {
    const description = this.ofRow(row);
    const isLeased = row.workerId !== undefined;
    if (!OPEN.has(row.status) || (!isLeased && !needsMore(row.waitingFor))) return description;
    const [turns, attempts] = await Promise.all([store.history(row.id), store.attempts(row.id)]);
    // A worker that has it has written down only what history needs: what is open follows from that.
    const words = isLeased ? waitingForOf(turns, attempts) : description.waitingFor;
    const open = openActivities(turns, attempts);
    const activities = new Map(open.map((one) => [isLeased ? one.description : one.operation, this.#inWords(one, row.queue)]));
    return {
      ...description,
      error: row.error ?? lastFailure(turns, attempts),
      waitingFor: words.map((text) => activities.get(text) ?? text),
    };
  }

  /** Why no worker of this process could ever advance it, in words; undefined if one could, or if it waits for something else. */
  unserved(row: RunRow): string | undefined {
    return this.#isDue(row) && !this.#serves(row) ? noWorker(row) : undefined;
  }
  /** The same of its activities: one that no worker ever had, and none of this process serves. */
  async unservedActivity(row: RunRow, store: Store): Promise<string | undefined> {
    if (row.workerId !== undefined || !row.waitingFor.some(isActivity)) return undefined;
    const { waitingFor } = await this.describe(row, store);
    return waitingFor.find((text) => isActivity(text) && text.includes(NO_WORKER));
  }

  #waitingFor(row: RunRow): readonly string[] {
    const { availableAt, status, waitingFor } = row;
    if (this.#isDue(row)) {
      if (!this.#serves(row)) return [noWorker(row)];
      return status === "pending" ? [] : ["a free worker"]; // a new one is as good as begun
    }
    if (status !== "pending" || availableAt === undefined) return waitingFor;
    return [`start at ${new Date(availableAt).toISOString()}`, ...(this.#serves(row) ? [] : [noWorker(row)])];
  }
  /** Could a worker take it up now? Then what it waited for is there: a message, a timer, its start. */
  #isDue({ status, workerId, availableAt }: RunRow): boolean {
    return workerId === undefined && PARKED.has(status) && availableAt !== undefined && availableAt <= this.#environment.now();
  }
  #serves(row: RunRow): boolean {
    for (const worker of this.#workers()) if (worker.hasCodeFor(row)) return true;
    return false;
  }
  /** Of one that was attempted somewhere, some worker takes it up again. */
  #inWords({ description, name, queue, isAttempted }: OpenActivity, ofRun: string): string {
    if (isAttempted) return description;
    const at = queue ?? ofRun;
    for (const worker of this.#workers()) if (worker.hasActivity(name, at)) return `${description} (a free worker${inQueue(at)})`;
    return `${description} (${NO_WORKER} serves it${inQueue(at)})`;
  }
}

function noWorker({ workflow, version, queue }: RunRow): string {
  return `${NO_WORKER} serves ${workflow}${version === undefined ? "" : `@${version}`}${inQueue(queue)}`;
}
function inQueue(queue: string): string {
  return queue === "default" ? "" : ` in queue "${queue}"`;
}
