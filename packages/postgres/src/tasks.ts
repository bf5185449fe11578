// Activities: claims, heartbeats and answers of attempts.
// Owns: how they are handed to the server, and what its answers mean.
// Invariants: D11 (the server fences all of it by token and by time); a task that can't be read fails and stops no other.

import { type StoredRunRetry, serializeError } from "@holdfast/core";
import {
  type Answer,
  type ClaimedTask,
  type Heartbeat,
  isolate,
  isRefusal,
  type Store,
  StoreCorruptError,
  type TaskAnswer,
  type TaskClaimRequest,
} from "holdfast/store";
import {
  encoded,
  json,
  numberArray,
  optionalPayload,
  payload,
  readJson,
  readOptionalNumber,
  readOptionalPayload,
  readOptionalText,
  readPayload,
  readText,
  text,
  time,
  type Value,
} from "./columns.ts";
import { isDamage } from "./connection/serverErrors.ts";
import type { Context } from "./context.ts";
import { lateAgain, type Overdue } from "./overdue.ts";
import { MOST_REFUSED } from "./refusals.ts";
import { Slots } from "./runs/slots.ts";

type TaskColumns = Readonly<Record<string, Value>>;

interface TaskClaimAnswer {
  readonly now: number;
  readonly next: number | null;
  readonly overdue: boolean;
  /** The queue has limits. */
  readonly limited: boolean | null;
  readonly tasks: readonly TaskColumns[] | null;
}

function claimedTask(row: TaskColumns): ClaimedTask {
  return {
    id: Number(row["id"]),
    runId: readText(row["runId"]),
    execution: Number(row["execution"]),
    seq: Number(row["seq"]),
    activity: readText(row["activity"]),
    queue: readText(row["queue"]),
    location: readText(row["location"]),
    input: readPayload(row["input"]),
    retry: readJson<StoredRunRetry>(row["retry"]),
    startToClose: readOptionalNumber(row["startToClose"]),
    scheduleToClose: readOptionalNumber(row["scheduleToClose"]),
    scheduleToStart: readOptionalNumber(row["scheduleToStart"]),
    heartbeat: readOptionalNumber(row["heartbeat"]),
    attempt: Number(row["attempt"]),
    token: Number(row["token"]),
    lastHeartbeat: readOptionalPayload(row["lastHeartbeat"]),
    key: readOptionalText(row["key"]),
    priority: readOptionalNumber(row["priority"]),
  };
}

/** As `settle_tasks_1` reads it: s status, v value, e error, r retryable, n random, w the wait that it asks for. */
function answerFields({ id, token, outcome }: TaskAnswer, i: number): object {
  if (outcome.status === "completed") return { i, id, token, s: "completed", v: payload(outcome.value) };
  return { i, id, token, s: "failed", e: json(outcome.error), r: outcome.retryable, n: outcome.random, w: time(outcome.after) };
}

/** A task that can't be read fails, so that no other claim finds it again. */
function damagedFields(row: TaskColumns, i: number, error: Error): object {
  return { i, id: Number(row["id"]), token: Number(row["token"]), s: "failed", e: json(serializeError(error)), o: true };
}

const MOST_CLAIMED = 1_000;

interface Beaten {
  readonly held: readonly number[] | null;
  readonly overdue: boolean;
}
type TaskClaims = Awaited<ReturnType<Store["claimTasks"]>>;
interface TaskClaimed extends TaskClaims {
  readonly overdue: boolean;
}

export class Tasks {
  readonly #context: Context;
  readonly #overdue: Overdue;
  /** Of activities of limited queues, by id. */
  readonly #slots = new Slots();

  constructor(context: Context, overdue: Overdue) {
    this.#context = context;
    this.#overdue = overdue;
  }

  async claim(request: TaskClaimRequest): Promise<TaskClaims> {
    const answer = await this.#claimIsolated(request);
    if (!answer.overdue) return answer;
    await this.#overdue.sweepFound().catch(lateAgain); // the tasks that were claimed must reach the worker
    const left = request.limit - answer.tasks.length;
    const { now, tasks, nextAt } = left <= 0 ? { ...answer, tasks: [] } : await this.#claimIsolated({ ...request, limit: left });
    return { now, tasks: [...answer.tasks, ...tasks], nextAt };
  }
  /** A task that the server refuses to have claimed stops no other. */
  async #claimIsolated(request: TaskClaimRequest): Promise<TaskClaimed> {
    try {
      return await this.#claim(request);
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
    const { limit } = request;
    const tasks: ClaimedTask[] = [];
    let last: TaskClaimed | undefined;
    const refused = await isolate(await this.#claimable(request), async (ids) => {
      if (tasks.length >= limit) return;
      last = await this.#claim({ ...request, limit: limit - tasks.length }, ids);
      tasks.push(...last.tasks);
    });
    this.#context.refusals.tell("An activity", refused);
    // All were refused: an empty claim tells the time.
    last ??= await this.#claim({ ...request, limit: 0 });
    const { now, nextAt, overdue } = last;
    return { now, tasks, nextAt: nextAt !== undefined && nextAt > now ? nextAt : undefined, overdue };
  }
  /** What a claim may have, in order: tasks whose claim was lost (D7), and those that are due. */
  async #claimable({ workerId, queue, activities, limit, known }: TaskClaimRequest): Promise<number[]> {
    const { connections, place, now } = this.#context;
    const sql = `SELECT id FROM (
      SELECT 0 AS rank, t.id AS at, t.id FROM ${place.s}.tasks t WHERE $5::bigint[] IS NOT NULL AND t.worker_id = $4 AND t.queue = $2
        AND t.id <> ALL ($5::bigint[]) AND t.activity = ANY (ARRAY (SELECT * FROM json_array_elements_text($3::json)))
      UNION ALL
      SELECT 1, c.available_at, c.id FROM json_array_elements_text($3::json) AS a(activity) CROSS JOIN LATERAL (
        SELECT t.id, t.available_at FROM ${place.s}.tasks t WHERE t.queue = $2 AND t.activity = a.activity
          AND t.available_at <= ${place.s}.clock_1($1::bigint) ORDER BY t.available_at, t.id LIMIT $6) c
      ) found ORDER BY rank, at, id LIMIT $6`;
    const names = [text(queue), JSON.stringify(activities.map(text)), text(workerId)];
    const most = Math.min(limit, MOST_CLAIMED) + MOST_REFUSED;
    const rows = await connections.query<{ id: number }>(sql, [now(), ...names, known === undefined ? null : `{${known.join(",")}}`, most]);
    return rows.map(({ id }) => Number(id));
  }
  /** `only`: of these tasks. */
  async #claim(request: TaskClaimRequest, only?: readonly number[]): Promise<TaskClaimed> {
    const { connections, functions, place, notifications, now: given } = this.#context;
    const { workerId, queue, activities, limit, lease } = request;
    const values = [
      given(),
      text(workerId),
      text(queue),
      JSON.stringify(activities.map(text)),
      Math.max(0, Math.min(limit, MOST_CLAIMED)),
      time(lease),
      request.known === undefined ? null : JSON.stringify(request.known),
      only === undefined ? null : numberArray(only),
    ];
    const sql = functions.sqlOf("claim_tasks_1", 12);
    const [row] = await connections.call<{ answer: string }>(() => ({ sql, values }), { tellAgain: true });
    const { now, next, overdue, limited, tasks } = JSON.parse(row?.answer ?? "{}") as TaskClaimAnswer;
    if (limited === true) for (const task of tasks ?? []) this.#slots.hold(String(task["id"]));
    const broken: object[] = [];
    const readable = (tasks ?? []).flatMap((row, i) => {
      try {
        return [claimedTask(row)];
      } catch (error) {
        if (!isDamage(error)) throw error;
        broken.push(damagedFields(row, i, new StoreCorruptError({ where: place.where, cause: error })));
        return [];
      }
    });
    // A task that can't be failed now is claimed again when its lease ends; those that were claimed with it must not wait for that.
    const fail = (some: readonly object[]) => this.#overdue.settle(some, true);
    if (broken.length > 0) await isolate(broken, fail).then(() => notifications.tell({ work: true, messages: true }), lateAgain);
    return { now, tasks: readable, nextAt: next ?? undefined, overdue };
  }
  async heartbeat(beats: readonly Heartbeat[]): Promise<Answer<boolean>[]> {
    const { functions, place, now } = this.#context;
    const fieldsOf = ({ id, token, lease, details }: Heartbeat, i: number) => {
      return { i, id, token, lease: time(lease), details: optionalPayload(details) };
    };
    const fields = encoded(place.where, () => JSON.stringify(beats.map(fieldsOf)));
    const { held, overdue } = JSON.parse(await functions.ask("heartbeat_1", [now(), fields], { isBatch: true })) as Beaten;
    if (overdue) await this.#overdue.sweepFound().catch(lateAgain);
    return beats.map((_, i) => held?.includes(i) === true);
  }
  async answer(answers: readonly TaskAnswer[], wait: boolean): Promise<Answer<boolean>[]> {
    const { place, notifications } = this.#context;
    const fields = encoded(place.where, () => answers.map(answerFields));
    const { taken, busy, overdue } = await this.#overdue.settle(fields, wait, { isBatch: true });
    // Q7: what comes after a failure, and what waits for the slot.
    const isFreed = answers.map(({ id }) => this.#slots.free(String(id))).includes(true);
    const tasks = isFreed || answers.some(({ outcome }) => outcome.status === "failed");
    notifications.tell({ work: true, messages: true, tasks });
    if (overdue) await this.#overdue.sweepFound().catch(lateAgain);
    return answers.map((_, i) => (busy?.includes(i) === true ? "busy" : taken.includes(i)));
  }
}
