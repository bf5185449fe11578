// What in a queue stops a run or an activity that a worker could take up: a pause or a limit (Q, B6).
// Owns: the texts.
// Invariants: only what the store says of this piece of work at one moment: a limit that has room, and a slot that it does not need, are no
// obstacles. A store without queues has none.

import { isoTime } from "@holdfast/host";
import type { Reason } from "../backend/port.ts";
import type { Store } from "../store/port.ts";
import type { LimitedWork, LimitUse } from "../store/queuePort.ts";

type Obstacle = Pick<Reason, "kind" | "text" | "advice">;

/** One for each pause and each limit that stops it, the queue's before the key's. */
export async function queueReasons(
  store: Pick<Store, "limitsFor">,
  work: LimitedWork & { readonly queue: string; readonly key: string | undefined },
): Promise<Obstacle[]> {
  const limits = await store.limitsFor?.(work);
  if (limits === undefined) return [];
  const { queue, key, needs } = limits;
  const [name, label] = [JSON.stringify(work.queue), JSON.stringify(work.key)];
  const whole: Limited = {
    what: `Queue ${name}`,
    use: queue,
    resume: `engine.queues.resume(${name})`,
    raise: "of the queue",
    ...{ needsSlot: needs.queueSlot, isStart: needs.start },
  };
  const ofKey: Limited = {
    what: `Key ${label} of queue ${name}`,
    use: key,
    resume: `engine.queues.resume(${name}, { key: ${label} })`,
    raise: `of key ${label}`,
    ...{ needsSlot: needs.keySlot, isStart: needs.start },
  };
  const all = [whole, ofKey];
  return [...all.flatMap(pause), ...all.flatMap(full), ...all.flatMap(rate)];
}

interface Limited {
  /** The queue or the key, at the beginning of a sentence. */
  readonly what: string;
  readonly use: LimitUse;
  /** The call that ends its pause. */
  readonly resume: string;
  readonly raise: string;
  readonly needsSlot: boolean;
  readonly isStart: boolean;
}
function pause({ what, use, resume }: Limited): Obstacle[] {
  if (!use.paused) return [];
  const until = use.pausedUntil === undefined ? "" : ` until ${isoTime(use.pausedUntil)}`;
  return [{ kind: "paused", text: `${what} is paused${until}.`, advice: `${resume} ends the pause.` }];
}
function full({ what, use, raise, needsSlot }: Limited): Obstacle[] {
  const { slots } = use;
  if (slots === undefined || !needsSlot || slots.held < slots.limit) return [];
  const text = `${what} is full: ${slots.held} of ${slots.limit} slots are held.`;
  return [
    { kind: "queue-full", text, advice: `It begins when one of them is free. Raise the concurrency ${raise}, if that takes too long.` },
  ];
}
function rate({ what, use, raise, isStart }: Limited): Obstacle[] {
  const { starts } = use;
  if (starts?.roomAt === undefined || !isStart) return [];
  const text = `${what} has used up its rate of ${starts.limit} per ${durationText(starts.per)}, and has room again at ${isoTime(starts.roomAt)}.`;
  return [
    { kind: "rate", text, advice: `It begins then, after those that are before it. Raise the rate ${raise}, if that takes too long.` },
  ];
}
const durationText = (ms: number): string => (ms % 1_000 === 0 ? `${ms / 1_000} s` : `${ms} ms`);
