// `holdfast queues list` and `show`
// Owns: how queues are shown.
// Invariants: none.

import { type Duration, formatDuration, parseDuration } from "@holdfast/core";
import type { ResponseOf } from "../../api/routes.ts";
import { printable, printableJson } from "../../terminal/escape.ts";
import { fields } from "../../terminal/table.ts";
import { relative, span } from "../../terminal/times.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";

type Queue = ResponseOf<"queues.get">;
type Limits = Pick<Queue, "concurrency" | "rate">;

export async function listQueues(session: Session): Promise<number> {
  const client = await session.reader();
  const { queues } = await client.call("queues.list");
  session.show({ json: { queues }, lines: queues, ids: queues.map(({ name }) => name), human: () => queueTable(session, queues) });
  return EXIT.ok;
}

function queueTable(session: Session, queues: readonly Queue[]): string[] {
  return session.table(
    [
      { title: "QUEUE", value: ({ name }: Queue) => name, least: 12 },
      { title: "WAITING", value: ({ runs }: Queue) => runs.waiting, align: "right", yields: 0 },
      { title: "RUNNING", value: ({ runs }: Queue) => runs.held, align: "right", yields: 0 },
      { title: "OLDEST", value: ({ runs }: Queue) => span(runs.oldest, null, session.now), yields: 2 },
      { title: "ACTIVITIES", value: ({ activities }: Queue) => `${activities.waiting}/${activities.held}`, align: "right", yields: 4 },
      { title: "LIMITS", value: allLimitsText, yields: 3 },
      { title: "PAUSED", value: (queue: Queue) => pausedText(queue, session.now), yields: 1 },
    ],
    queues,
  );
}

function limitsText({ concurrency, rate }: Limits, suffix = ""): string {
  return [concurrency === null ? "" : `${concurrency} at once`, rate === null ? "" : `${rate.limit}/${durationText(rate.per)}`]
    .filter((one) => one !== "")
    .map((one) => `${one}${suffix}`)
    .join(", ");
}
/** As people write it: stores keep milliseconds. */
function durationText(duration: Duration | string): string {
  return formatDuration(parseDuration(duration as Duration));
}
function allLimitsText(queue: Queue): string {
  const perKey = queue.perKey === null ? "" : limitsText(queue.perKey, " per key");
  return [limitsText(queue), perKey].filter((one) => one !== "").join(", ");
}

function pausedText({ paused, pausedUntil, pausedKeys }: Queue, now: number): string {
  if (paused) return pausedUntil === null ? "yes" : `until ${relative(pausedUntil, now)}`;
  return pausedKeys.length === 0 ? "" : `keys ${pausedKeys.join(", ")}`;
}

export async function showQueue(session: Session, [name]: readonly [string]): Promise<number> {
  const client = await session.reader();
  return printQueue(session, await client.call("queues.get", { params: { name } }));
}

export function printQueue(session: Session, queue: Queue): number {
  session.show({ json: queue, ids: [queue.name], human: () => queueLines(session, queue) });
  return EXIT.ok;
}

function queueLines({ colours, now }: Session, queue: Queue): string[] {
  const load = ({ waiting, held, oldest }: Queue["runs"]): string =>
    `${waiting} waiting, ${held} running${oldest === null ? "" : `, the oldest since ${span(oldest, null, now)}`}`;
  return fields(
    [
      ["queue", colours.bold(printable(queue.name))],
      ["runs", load(queue.runs)],
      ["activities", load(queue.activities)],
      ["limits", limitsText(queue) || "none"],
      ["per key", queue.perKey === null ? undefined : limitsText(queue.perKey)],
      ["keys", queue.keys === null ? undefined : printableJson(JSON.stringify(queue.keys))],
      ["counts", queue.counts ?? undefined],
      ["paused", printable(pausedText(queue, now))],
    ],
    colours,
  );
}
