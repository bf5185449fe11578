// Whether workers ask for tasks of a queue.
// Owns: nothing.
// Invariants: the server remembers who has asked for five minutes: a worker that has stopped may count for so long.

import { api } from "../proto.ts";
import { called } from "./serviceErrors.ts";
import type { ClientSettings } from "./settings.ts";

const { TaskQueueType } = api.api.enums.v1;
const TYPES = {
  runs: TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
  activities: TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
} as const;

/** `taskQueue`: by its name on the server. */
export async function hasPollers({ connection }: ClientSettings, taskQueue: string, of: keyof typeof TYPES): Promise<boolean> {
  const request = { namespace: connection.namespace, taskQueue: { name: taskQueue }, taskQueueType: TYPES[of] };
  const { pollers } = await called("describe", connection.service.describeTaskQueue(request));
  return (pollers?.length ?? 0) > 0;
}
