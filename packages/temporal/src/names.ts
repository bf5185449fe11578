// Names, ids and queues as Temporal has them.
// Owns: how a start key becomes a workflow id, which task queue a queue of Holdfast is, and the names that workers and clients agree on.
// Invariants: M3 (one workflow id for each workflow and key); Temporal's ids have at most 1,000 bytes.

import { createHash } from "node:crypto";
import { isText, type temporal, textOf } from "./proto.ts";

/** The name of this backend in messages. */
export const HOST = "Temporal";
/** The activity type of steps, transactions and rollbacks. The activity id is the location. */
export const STEP_TYPE = "holdfast.step";
/** What follows the location in the activity id of a rollback. */
export const ROLLBACK_SUFFIX = "~rollback";
/** How the summaries of the timers begin with which the host schedules an operation again. */
export const RETRY_OF = "retry of";
export const ANOTHER_WORKER = "another worker for";
export const HOST_TIMERS: readonly string[] = [RETRY_OF, ANOTHER_WORKER];
/** Encoding of an input that carries the turns of the execution before; the run's own input is its field `input`. */
export const CARRIED_ENCODING = "json/holdfast-turns";

/** The server's limit of ids, names and queues. */
export const MOST_BYTES = 1_000;
const LONGEST_ID = 900;
/** The queue that a start or a worker means if it names none. */
const DEFAULT_QUEUE = "default";

/** Temporal refuses calls with such an id instead of finding nothing. */
export function isImpossible(id: string): boolean {
  return id === "" || !isName(id);
}
/** Whether Temporal accepts it as an id, a name or a queue. */
export function isName(text: string): boolean {
  return isText(text) && Buffer.byteLength(text) <= MOST_BYTES;
}

/** Unchanged up to 900 bytes; of a longer text the beginning and a hash of the whole. */
export function boundedId(text: string): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= LONGEST_ID) return textOf(text);
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 32);
  // A character that is cut in half at the end becomes U+FFFD, which is dropped.
  return `${bytes
    .subarray(0, LONGEST_ID - hash.length - 1)
    .toString("utf8")
    .replace(/\uFFFD+$/, "")}~${hash}`;
}

/** The workflow id of a run that was started with a key and without an id. */
export function keyedId(workflow: string, key: string): string {
  return boundedId(`${workflow}~${key}`);
}

/** `own`: the task queue of the URL, which stands for the default queue. */
export function taskQueueOf(queue: string, own: string): string {
  return queue === DEFAULT_QUEUE ? own : queue;
}
/** The inverse of `taskQueueOf`. */
export function queueOf(taskQueue: string, own: string): string {
  return taskQueue === own ? DEFAULT_QUEUE : taskQueue;
}

/** The server's limit of fairness keys. */
const LONGEST_FAIRNESS_KEY = 64;

/** What decides when a task is handed out: nothing if neither is set. */
export interface Urgency {
  readonly priority?: number | undefined;
  /** Whose work it is. */
  readonly key?: string | undefined;
}
export function priorityFields({ priority = 0, key }: Urgency): { priority?: temporal.api.common.v1.IPriority } {
  if (priority === 0 && key === undefined) return {};
  return {
    priority: {
      ...(priority !== 0 && { priorityKey: priorityKeyOf(priority) }),
      ...(key !== undefined && { fairnessKey: fairnessKeyOf(key) }),
    },
  };
}
/** Temporal has five priorities, of which 1 is the highest and 3 the default; Holdfast's have no bounds, and higher runs first. */
function priorityKeyOf(priority: number): number {
  return Math.min(5, Math.max(1, 3 - priority));
}
/** A key that is too long for the server is known to it by its hash. */
function fairnessKeyOf(key: string): string {
  if (isText(key) && Buffer.byteLength(key) <= LONGEST_FAIRNESS_KEY) return key;
  return createHash("sha256").update(key, "utf16le").digest("hex");
}
