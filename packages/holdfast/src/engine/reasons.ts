// Why a run does not advance (B6).
// Owns: the texts and the advice, and the order of reasons.
// Invariants: one reason per obstacle, the nearest first; if no worker serves the run, no-worker is the only reason. It only reads.

import { formatLocation, type RunStatus } from "@holdfast/core";
import { type AwaitedOperation, awaitedBy, isoTime, lastFailure } from "@holdfast/host";
import type { Reason } from "../backend/port.ts";
import type { RunRow, Store } from "../store/port.ts";
import type { WorkerRow } from "../store/workerPort.ts";
import { servedAs, servesActivity, servesRun } from "./descriptions.ts";
import { queueReasons } from "./queueReasons.ts";
import { describeAwaited, retryOfRun } from "./waitingFor.ts";

const CLOSED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated"]);

/** A worker of this process: its last beat may be seconds old. */
interface WorkerHere {
  readonly id: string;
  readonly load: Pick<WorkerRow, "active" | "activeActivities">;
}

/** What reasons are found by. */
type ReasoningStore = Pick<Store, "now" | "history" | "attempts" | "liveWorkers" | "limitsFor">;

export async function reasonsOf(row: RunRow, store: ReasoningStore, here: Iterable<WorkerHere> = []): Promise<Reason[]> {
  if (CLOSED.has(row.status)) return [closed(row)];
  if (row.status === "blocked") return [await blocked(row, store)];
  const [now, live] = await Promise.all([store.now(), store.liveWorkers?.() ?? []]);
  const loads = new Map([...here].map(({ id, load }) => [id, load]));
  return new Look(row, store, live.map((worker) => ({ ...worker, ...loads.get(worker.id) })), now).reasons(); // biome-ignore format: one line
}

/** At one run that is open, with the workers that are alive. */
class Look {
  readonly #row: RunRow;
  readonly #store: ReasoningStore;
  readonly #workers: readonly WorkerRow[];
  readonly #now: number;
  /** The workers that could claim it. */
  readonly #serving: readonly WorkerRow[];

  constructor(row: RunRow, store: ReasoningStore, workers: readonly WorkerRow[], now: number) {
    this.#row = row;
    this.#store = store;
    this.#workers = workers;
    this.#now = now;
    this.#serving = workers.filter((worker) => servesRun(worker, row));
  }

  async reasons(): Promise<Reason[]> {
    const { status, workerId, availableAt, after } = this.#row;
    if (workerId !== undefined) return this.#leased(workerId);
    if (status === "pending" && availableAt === undefined && after !== undefined)
      return [afterRun(this.#row, after), ...(await this.#afterwards())];
    if (availableAt !== undefined && availableAt <= this.#now) return this.#due(availableAt);
    if (status === "pending") return [delayed(this.#row, availableAt), ...(await this.#afterwards())];
    return this.#waiting();
  }

  /** A worker could claim it now. */
  async #due(since: number): Promise<Reason[]> {
    const { id: runId, queue, key } = this.#row;
    if (this.#serving.length === 0) return this.#noWorker();
    const obstacles = await queueReasons(this.#store, { of: "runs", runId, queue, key });
    if (obstacles.length > 0) return obstacles.map((one) => ({ ...one, since, location: undefined }));
    const isBusy = this.#serving.every(({ active, concurrency }) => active >= concurrency);
    const what = servedAs(this.#row);
    return isBusy
      ? [
          reason("queue-full", `All slots of the workers that serve ${what} are taken.`, {
            advice: "It begins when a slot is free. Start more workers, or raise their concurrency, if that takes too long.",
            since,
          }),
        ]
      : [reason("running", `A worker that serves ${what} is about to claim it.`, { advice: "Nothing to do.", since })];
  }
  /** What stops it once it may begin, and does not end by itself until then. Slots and rates may be free by that time. */
  async #afterwards(): Promise<Reason[]> {
    if (this.#serving.length === 0) return this.#noWorker();
    const { id: runId, queue, key } = this.#row;
    const obstacles = await queueReasons(this.#store, { of: "runs", runId, queue, key });
    return obstacles.filter(({ kind }) => kind === "paused").map((one) => ({ ...one, since: undefined, location: undefined }));
  }
  /** Empty: there is one. */
  #noWorker(): Reason[] {
    if (this.#serving.length > 0) return [];
    const elsewhere = this.#workers.some(({ serves }) => serves.some(({ workflow }) => workflow === this.#row.workflow));
    const advice = elsewhere
      ? "Workers that are alive serve this workflow in another version or queue: start one with this version and queue."
      : "Start a worker that has this workflow in its list.";
    return [reason("no-worker", `No worker that is alive serves ${servedAs(this.#row)}.`, { advice, since: this.#row.availableAt })];
  }

  async #leased(workerId: string): Promise<Reason[]> {
    const { availableAt = this.#now } = this.#row;
    const isOver = availableAt <= this.#now;
    if (isOver && this.#serving.length === 0) return this.#noWorker();
    const isAlive = this.#workers.some(({ id }) => id === workerId);
    if (isOver || (!isAlive && this.#store.liveWorkers !== undefined)) {
      const text = isOver
        ? `Worker ${workerId} has it, but its lease ended at ${isoTime(availableAt)}.`
        : `Worker ${workerId} has it, but is not alive any more. Its lease ends at ${isoTime(availableAt)}.`;
      const advice = "Another worker takes the run over then, and continues at its last commit.";
      return [reason("lease", text, { advice, since: isOver ? availableAt : undefined }), ...this.#noWorker()];
    }
    const awaited = await this.#waiting();
    if (awaited.length > 0) return awaited;
    return [reason("running", `Worker ${workerId} runs its code.`, { advice: "Nothing to do.", since: this.#row.startedAt })];
  }

  async #waiting(): Promise<Reason[]> {
    const { id, workerId, waitingFor } = this.#row;
    const [turns, attempts] = await Promise.all([this.#store.history(id), this.#store.attempts(id)]);
    const { operations, retryRunAt } = awaitedBy(turns, attempts);
    const failure = lastFailure(turns, attempts);
    const found: Reason[] = [];
    if (retryRunAt !== undefined && retryRunAt > this.#now) {
      const cause = failure === undefined ? "" : ` Its last failure: ${failure.message}`;
      const since = turns.at(-1)?.time;
      found.push(reason("retrying", `It failed, and waits for ${retryOfRun(retryRunAt)}.${cause}`, { advice: RETRIED, since }));
    }
    for (const one of operations) {
      const worker = attempts.find(({ seq, status }) => seq === one.command.seq && status === "running")?.workerId;
      found.push(await this.#awaited(one, failure?.message, worker));
    }
    // A parked run with nothing in its history to wait for: its driver knew more.
    if (found.length === 0 && workerId === undefined)
      found.push(...waitingFor.map((text) => reason("signal", `It waits for ${text}.`, { advice: "Send what it waits for." })));
    return found;
  }
  /** `worker`: the one that makes an attempt of it now. */
  async #awaited(one: AwaitedOperation, failure: string | undefined, worker: string | undefined): Promise<Reason> {
    const { command, retryAt, openedAt } = one;
    const text = `It waits for ${describeAwaited(one)}.`;
    const place = { since: openedAt, location: formatLocation(command.unit, command.name, command.n) };
    if (retryAt !== undefined && retryAt > this.#now) {
      const cause = failure === undefined ? "" : ` The last attempt failed: ${failure}`;
      return reason("retrying", `${text}${cause}`, { advice: RETRIED, ...place });
    }
    switch (command.type) {
      case "activity":
        return this.#activity(one, text, place, worker);
      case "sleep":
        return reason("timer", text, { advice: "Nothing to do: the timer fires by itself.", ...place });
      case "signal":
      case "receive": {
        const advice =
          command.type === "signal"
            ? "Send the signal with run.signal(), or with `holdfast runs signal`."
            : "Send a message that it receives with run.signal() or run.update(), or with `holdfast runs signal` or `update`.";
        return reason("signal", text, { advice, ...place });
      }
      case "child": {
        const advice = `Ask why the child does not advance: engine.run(${JSON.stringify(command.id)}).why(), or \`holdfast runs why ${command.id}\`.`;
        return reason("child", `${text} Its run is ${command.id}.`, { advice, ...place });
      }
      case "childResult":
        return reason("child", text, { advice: "Ask why the child does not advance: run.operations() has its id.", ...place });
      case "condition":
      case "ivar":
        return reason("condition", text, { advice: "Code of the workflow has to make it true: send the message that does.", ...place });
      case "signalRun":
      case "cancelRun":
        return reason("running", text, { advice: "Nothing to do: the message is being delivered.", ...place });
      case "step":
      case "transaction":
      case "rollback":
      case "updateState": {
        const worker = this.#row.workerId === undefined ? "" : ` Worker ${this.#row.workerId} has the run.`;
        return reason("running", `${text}${worker}`, { advice: "If it takes too long, look at what its code does.", ...place });
      }
      default:
        return command satisfies never;
    }
  }
  async #activity({ command }: AwaitedOperation, text: string, place: Place, worker: string | undefined): Promise<Reason> {
    const { name } = command;
    if (worker !== undefined) {
      const advice = "If it takes too long, look at what its code does.";
      return reason("activity", `${text} Worker ${worker} carries it out.`, { advice, ...place });
    }
    const queue = (command.type === "activity" ? command.queue : undefined) ?? this.#row.queue;
    const key = (command.type === "activity" ? command.key : undefined) ?? this.#row.key;
    const serving = this.#workers.filter((one) => servesActivity(one, name, queue));
    const where = queue === "default" ? "" : ` in queue "${queue}"`;
    if (serving.length === 0 && this.#store.liveWorkers !== undefined) {
      const advice = "Start a worker that has this activity in its list, for that queue.";
      return reason("no-activity-worker", `${text} No worker that is alive serves ${name}${where}.`, { advice, ...place });
    }
    const [obstacle] = await queueReasons(this.#store, { of: "activities", queue, key });
    if (obstacle !== undefined) return { ...obstacle, text: `${text} ${obstacle.text}`, ...place };
    const isBusy =
      serving.length > 0 && serving.every(({ activeActivities, activityConcurrency }) => activeActivities >= activityConcurrency);
    if (!isBusy) return reason("activity", text, { advice: "Nothing to do: a worker is about to claim it.", ...place });
    return reason("queue-full", `${text} All slots of the workers that serve ${name}${where} are taken.`, {
      advice: "It begins when a slot is free. Start more workers, or raise their activityConcurrency, if that takes too long.",
      ...place,
    });
  }
}

const RETRIED = "Nothing to do: it is tried again then. Fix the cause if it goes on failing.";

interface Place {
  readonly since: number | undefined;
  readonly location: string;
}
function reason(
  kind: Reason["kind"],
  text: string,
  more: { readonly advice: string; readonly since?: number | undefined; readonly location?: string },
): Reason {
  return { kind, text, advice: more.advice, since: more.since, location: more.location };
}

function closed({ status, finishedAt, error, resumable }: RunRow): Reason {
  const cause = error === undefined ? "" : ` ${error.message}`;
  const advice = resumable === true ? "run.resume() continues it from where it stopped." : "Start a new run, if there is more to do.";
  return reason("closed", `It has ended: ${status}.${cause}`, { advice, since: finishedAt });
}
/** V4: it has not advanced since its last turn. */
async function blocked({ id, error, startedAt, createdAt }: RunRow, store: ReasoningStore): Promise<Reason> {
  // Errors name the operation that diverges, or the unit that broke a rule; the root has no name.
  const { location, unit } = (error?.data ?? {}) as { readonly location?: unknown; readonly unit?: unknown };
  const where = [location, unit].find((place) => typeof place === "string" && place !== "") as string | undefined;
  // Rows that can't be read may be what blocks it.
  const turns = await store.history(id).catch(() => []);
  const since = turns.at(-1)?.time ?? startedAt ?? createdAt;
  const advice = "Deploy code that fits its history, or fix what the error names. Then call run.resume(), or start a new worker.";
  const text = `Its code can't advance it: ${error?.message ?? "the cause is not known"}`;
  return reason("blocked", text, { advice, since, ...(where !== undefined && { location: where }) });
}
function afterRun({ createdAt }: RunRow, after: string): Reason {
  const advice = `Ask why that run does not end: engine.run(${JSON.stringify(after)}).why().`;
  return reason("after", `It begins once run ${after} has closed.`, { advice, since: createdAt });
}
function delayed({ createdAt }: RunRow, availableAt: number | undefined): Reason {
  const when = availableAt === undefined ? "when a message comes" : `at ${isoTime(availableAt)}`;
  return reason("delayed", `It begins ${when}, as its start says.`, { advice: "Nothing to do.", since: createdAt });
}
