// Brings a run into memory to run one of its steps, or to look at its turns, on a worker that has not computed them.
// Owns: the copies in use, the newest of each run to be shared, and the replay worker that makes them.
// Invariants: D1 (a copy runs functions of steps and nothing else: its commands go nowhere), V2 (only code that serves the run and replays
// its history is used); histories are replayed one after the other.

import { type Logger, messageOf, type Turn } from "@holdfast/core";
import type { Connection, HistoryEvent, TemporalHistory } from "../bridge.ts";
import { completedBy, downloadHistory } from "../history.ts";
import { api } from "../proto.ts";
import { type BeginReplay, HistoryReplay } from "./historyReplay.ts";
import type { HostedRun } from "./run.ts";
import type { RehydratedRun } from "./tasks.ts";

const { EventType } = api.api.enums.v1;

export interface RehydrationOptions {
  readonly connection: Connection;
  readonly queue: string;
  readonly logger: Logger;
  readonly begin: BeginReplay;
}
interface Copy {
  readonly run: Promise<HostedRun | undefined>;
  users: number;
}

export class Rehydration {
  readonly #options: RehydrationOptions;
  readonly #copies = new Map<string, Copy>();
  #replay: HistoryReplay | undefined;

  constructor(options: RehydrationOptions) {
    this.#options = options;
  }
  /** `seq`: the step that is to run. A copy that was made before the step was scheduled does not have it, and another is made. */
  async get(workflowId: string, runId: string, seq: number): Promise<RehydratedRun | undefined> {
    for (let stale: Copy | undefined; ; ) {
      const shared = this.#copies.get(runId);
      const isNew = shared === undefined || shared === stale;
      const copy = isNew ? { run: this.#load(workflowId, runId), users: 0 } : shared;
      if (isNew) this.#copies.set(runId, copy);
      copy.users++;
      const release = (): void => {
        if (--copy.users === 0 && this.#copies.get(runId) === copy) this.#copies.delete(runId);
      };
      const run = await copy.run;
      if (run !== undefined && (isNew || run.executor.body(seq) !== undefined)) return { run, release };
      release();
      if (isNew) return undefined;
      stale = copy;
    }
  }
  async #load(workflowId: string, runId: string): Promise<HostedRun | undefined> {
    try {
      return await this.#replayed(workflowId, runId);
    } catch (error) {
      const message = `Run ${workflowId} could not be replayed to run a step of it: ${messageOf(error)}`;
      this.#options.logger.warn(message, { runId: workflowId });
      return undefined;
    }
  }
  /** The turns of the newest execution. Undefined if the code of this worker does not fit its history. */
  async turnsOf(workflowId: string): Promise<readonly Turn[] | undefined> {
    try {
      return (await this.#replayed(workflowId, ""))?.turns;
    } catch {
      return undefined;
    }
  }
  async #replayed(workflowId: string, runId: string): Promise<HostedRun | undefined> {
    const { connection, queue, logger, begin } = this.#options;
    const history = cut(await downloadHistory(connection, workflowId, runId));
    if (history === undefined) return undefined;
    this.#replay ??= new HistoryReplay({ namespace: connection.namespace, queue, logger });
    const { run, problem } = await this.#replay.replay(workflowId, history, begin);
    if (problem === undefined) return run;
    throw problem;
  }
  async stop(): Promise<void> {
    await this.#replay?.stop();
  }
}

/** The history up to the commands of the last completed task; undefined if there is none, or the run is closed. */
function cut({ events = [] }: TemporalHistory): TemporalHistory | undefined {
  const list = events ?? [];
  const last = list.findLastIndex(({ eventType }) => eventType === EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED);
  if (last < 0) return undefined;
  const completed = String(list[last]?.eventId);
  let end = last + 1;
  while (end < list.length && isOf(list[end] as HistoryEvent, completed)) end++;
  return { events: list.slice(0, end) };
}
/** Whether the completion of the task made the event. Those of updates don't name it. */
function isOf(event: HistoryEvent, completed: string): boolean {
  if (event.workflowExecutionUpdateAcceptedEventAttributes || event.workflowExecutionUpdateCompletedEventAttributes) return true;
  return completedBy(event) === completed;
}
