// Why a run does not advance (B6), as far as the server tells.
// Owns: the texts and the advice, and the order of reasons.
// Invariants: one reason an obstacle, the nearest first; what only a worker could take up says no-worker alone. It only reads.

import type { AwaitedCommand } from "@holdfast/core";
import { isoTime } from "@holdfast/host";
import type { Reason, RunSnapshot } from "holdfast/backend";
import { queueOf, STEP_TYPE } from "../names.ts";
import { api, msIfSet } from "../proto.ts";
import type { Description, PendingActivity } from "./executions.ts";
import type { OpenOperation, OperationLog } from "./operationLog.ts";
import { hasPollers } from "./pollers.ts";
import type { ClientSettings } from "./settings.ts";

const { PendingActivityState, PendingWorkflowTaskState } = api.api.enums.v1;

/** How long a task waits before it is said that no worker takes it, in milliseconds. */
const TAKEN_WITHIN = 1_000;
const RETRIED = "Nothing to do: it is tried again then. Fix the cause if it goes on failing.";

/** `log`: undefined for a closed run, and for a history that is too long to be read. */
export async function reasonsOf(
  run: RunSnapshot,
  description: Description,
  log: OperationLog | undefined,
  settings: ClientSettings,
): Promise<Reason[]> {
  if (run.finishedAt !== undefined) return [closed(run)];
  if (run.status === "blocked") return [blocked(run)];
  return new Look(run, description, settings).reasons(log);
}

/** At one run that is open. */
class Look {
  readonly #run: RunSnapshot;
  readonly #description: Description;
  readonly #settings: ClientSettings;
  readonly #now = Date.now();

  constructor(run: RunSnapshot, description: Description, settings: ClientSettings) {
    this.#run = run;
    this.#description = description;
    this.#settings = settings;
  }

  async reasons(log: OperationLog | undefined): Promise<Reason[]> {
    const { attempt, createdAt, startedAt } = this.#run;
    const begins = msIfSet(this.#description.workflowExecutionInfo?.executionTime) ?? createdAt;
    if (begins > this.#now) {
      const first =
        attempt > 1
          ? reason("retrying", `It failed, and waits for another attempt at ${isoTime(begins)}.`, { advice: RETRIED })
          : reason("delayed", `It begins at ${isoTime(begins)}, as its start says.`, { advice: "Nothing to do.", since: createdAt });
      return [first, ...(await this.#noWorker(undefined))];
    }
    const { pendingWorkflowTask: task } = this.#description;
    if (task) {
      const since = msIfSet(task.scheduledTime);
      if (task.state === PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED)
        return [reason("running", "A worker runs its code.", { advice: "Nothing to do.", since: msIfSet(task.startedTime) ?? since })];
      return this.#untaken(since ?? this.#now);
    }
    const found = log === undefined ? this.#pending() : await this.#waiting(log.open());
    if (found.length > 0) return found;
    const advice =
      "Send what it waits for with run.signal() or run.update(), or with `holdfast runs signal` or `update`. Temporal does not record what that is: run.state() may tell.";
    const what = log === undefined ? "a timer, a signal or an update" : "a signal or an update";
    return [reason("signal", `It waits for ${what}.`, { advice, since: startedAt })];
  }

  /** A worker could take its task now. */
  async #untaken(since: number): Promise<Reason[]> {
    const isNew = this.#now - since < TAKEN_WITHIN;
    const missing = isNew ? [] : await this.#noWorker(since);
    if (missing.length > 0) return missing;
    const queue = JSON.stringify(this.#run.queue);
    if (isNew) return [reason("running", `Its task waits for a worker of queue ${queue}.`, { advice: "Nothing to do.", since })];
    const advice = "It begins when one of them is free. Start more workers, or raise their concurrency, if that takes too long.";
    return [reason("queue-full", `Workers ask for tasks of queue ${queue}, but none has taken this one.`, { advice, since })];
  }
  /** Empty: there is one. */
  async #noWorker(since: number | undefined): Promise<Reason[]> {
    const name = this.#description.workflowExecutionInfo?.taskQueue ?? "";
    if (await hasPollers(this.#settings, name, "runs")) return [];
    const queue = JSON.stringify(this.#run.queue);
    const advice = `Start a worker of queue ${queue} that has the workflow ${JSON.stringify(this.#run.workflow)} in its list.`;
    return [reason("no-worker", `No worker asks for tasks of queue ${queue}.`, { advice, since })];
  }

  async #waiting(operations: readonly OpenOperation[]): Promise<Reason[]> {
    const found: Reason[] = [];
    for (const one of operations) {
      const made = await this.#awaited(one);
      if (made.kind === "no-worker") return [made];
      found.push(made);
    }
    return found;
  }
  async #awaited(operation: OpenOperation): Promise<Reason> {
    const { location, words, childId, retryAt, openedAt, error } = operation;
    const text = `It waits for ${words}.`;
    const place = { since: openedAt, location };
    if (retryAt !== undefined && retryAt > this.#now) {
      const cause = error === undefined ? "" : ` The last attempt failed: ${error.message}`;
      return reason("retrying", `${text}${cause}`, { advice: RETRIED, ...place });
    }
    switch (operation.type) {
      case "step":
      case "transaction":
      case "rollback": {
        const [missing] = this.#isUntaken(location) ? await this.#noWorker(openedAt) : [];
        return missing ?? reason("running", text, { advice: "If it takes too long, look at what its code does.", ...place });
      }
      case "activity":
        return this.#activity(text, place);
      case "child":
      case "childResult": {
        const advice =
          childId === undefined
            ? "Ask why the child does not advance: run.operations() has its id."
            : `Ask why the child does not advance: engine.run(${JSON.stringify(childId)}).why(), or \`holdfast runs why ${childId}\`.`;
        return reason("child", text, { advice, ...place });
      }
      case "sleep":
        return reason("timer", text, { advice: "Nothing to do: the timer fires by itself.", ...place });
      case "condition":
      case "ivar":
        return reason("condition", text, { advice: "Code of the workflow has to make it true: send the message that does.", ...place });
      case "signalRun":
      case "cancelRun":
        return reason("running", text, { advice: "Nothing to do: the message is being delivered.", ...place });
      default: {
        operation.type satisfies "signal" | "receive" | "updateState" | Exclude<OpenOperation["type"], AwaitedCommand["type"]>;
        return reason("signal", text, {
          advice: "Send the message with run.signal() or run.update(), or with `holdfast runs signal` or `update`.",
          ...place,
        });
      }
    }
  }
  async #activity(text: string, place: Place): Promise<Reason> {
    const pending = this.#pendingAt(place.location);
    const queue = pending?.activityOptions?.taskQueue?.name;
    if (this.#isUntaken(place.location) && typeof queue === "string" && !(await hasPollers(this.#settings, queue, "activities"))) {
      const name = pending?.activityType?.name ?? "";
      const where = JSON.stringify(queueOf(queue, this.#settings.queue));
      const advice = "Start a worker that has this activity in its list, for that queue.";
      const missing = `${text} No worker asks for activities of queue ${where}, such as ${name}.`;
      return reason("no-activity-worker", missing, { advice, ...place });
    }
    return reason("activity", text, { advice: "Nothing to do: a worker carries it out.", ...place });
  }
  #pendingAt(location: string): PendingActivity | undefined {
    return (this.#description.pendingActivities ?? []).find(({ activityId }) => activityId === location);
  }
  /** It waits for a worker, and not since just now. */
  #isUntaken(location: string): boolean {
    const { state, scheduledTime } = this.#pendingAt(location) ?? {};
    if (state !== PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED) return false;
    return this.#now - (msIfSet(scheduledTime) ?? this.#now) >= TAKEN_WITHIN;
  }

  /** Without the history: the ids of activities are their locations. */
  #pending(): Reason[] {
    const { pendingActivities, pendingChildren } = this.#description;
    const activities = (pendingActivities ?? []).map(({ activityId, activityType, scheduledTime }) => {
      const place = { since: msIfSet(scheduledTime), location: activityId ?? "" };
      const kind = activityType?.name === STEP_TYPE ? "running" : "activity";
      return reason(kind, `It waits for ${activityId}.`, { advice: "If it takes too long, look at what its code does.", ...place });
    });
    const children = (pendingChildren ?? []).map(({ workflowId }) => {
      const advice = `Ask why the child does not advance: engine.run(${JSON.stringify(workflowId)}).why(), or \`holdfast runs why ${workflowId}\`.`;
      return reason("child", `It waits for child ${workflowId}.`, { advice });
    });
    return [...activities, ...children];
  }
}

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
function closed({ status, finishedAt, error }: RunSnapshot): Reason {
  const cause = error === undefined ? "" : ` ${error.message}`;
  return reason("closed", `It has ended: ${status}.${cause}`, { advice: "Start a new run, if there is more to do.", since: finishedAt });
}
function blocked({ error }: RunSnapshot): Reason {
  const location = (error?.data as { readonly location?: unknown } | undefined)?.location;
  const advice = "Deploy code that fits its history, or fix what the error names. The server tries again within 10 minutes.";
  const text = `Its code can't advance it: ${error?.message ?? "the cause is not known"}`;
  return reason("blocked", text, { advice, ...(typeof location === "string" && { location }) });
}
