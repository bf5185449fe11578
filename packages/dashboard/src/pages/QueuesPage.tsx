// Queues: what waits, what runs, for how long, and the limits.

import { call } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import { may } from "../api/session.ts";
import type { QueueInfo } from "../api/types.ts";
import { encodeSegment, queryText } from "../base/paths.ts";
import { duration } from "../base/times.ts";
import { visible } from "../base/values.ts";
import { useSending } from "../forms/send.ts";
import { textOf } from "../runs/filter.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { isNarrow } from "../ui/narrow.ts";
import { Ago } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";

const OPEN = { name: "status", value: "open" };

type Limit = { readonly concurrency: number | null; readonly rate: { readonly limit: number; readonly per: string | number } | null };

export function QueuesPage() {
  const queues = useResource<readonly QueueInfo[]>("queues", async () => (await call<{ queues: QueueInfo[] }>("GET", "queues")).queues, [
    "runs",
    "workers",
  ]);
  return (
    <>
      <div class="page-head">
        <h1>Queues</h1>
      </div>
      <ErrorText error={queues.error.value} />
      <table aria-label="Queues">
        <thead>
          <tr>
            <th>Queue</th>
            <th>Ready</th>
            <th>Running</th>
            <th>Oldest wait</th>
            {!isNarrow.value && <th>Limits</th>}
            <th>Actions</th>
          </tr>
        </thead>
        <tbody>
          {queues.data.value?.map((queue) => (
            <QueueRow key={queue.name} queue={queue} onChanged={queues.refresh} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function QueueRow({ queue, onChanged }: { queue: QueueInfo; onChanged: () => void }) {
  const sending = useSending();
  const { name, paused, pausedUntil, pausedKeys, runs, activities } = queue;
  const act = (what: "pause" | "resume"): void =>
    sending.send(async () => {
      await call("POST", `queues/${encodeSegment(name)}/${what}`);
      onChanged();
    });
  return (
    <tr>
      <td>
        <Link to={`runs${queryText({ q: textOf([OPEN, { name: "queue", value: name }]) })}`}>{visible(name)}</Link>
        {paused && <span class="tag">paused</span>}
        {pausedUntil !== null && (
          <span class="muted">
            {" "}
            until <Ago time={pausedUntil} />
          </span>
        )}
        {isNarrow.value && <span class="below">limits: {limitsOf(queue)}</span>}
        {pausedKeys.length > 0 && <span class="muted"> keys paused: {visible(pausedKeys.join(", "))}</span>}
      </td>
      <td class="count">
        <Both runs={runs.waiting} activities={activities.waiting} />
      </td>
      <td class="count">
        <Both runs={runs.held} activities={activities.held} />
      </td>
      <td class="count">
        <Ago time={runs.oldest ?? activities.oldest} />
      </td>
      {!isNarrow.value && <td>{limitsOf(queue)}</td>}
      <td class="row-actions">
        <button type="button" disabled={!may("admin") || sending.isBusy.value} onClick={() => act(paused ? "resume" : "pause")}>
          {paused ? "Resume" : "Pause"}
        </button>
        <ErrorText error={sending.error.value} />
      </td>
    </tr>
  );
}

function Both({ runs, activities }: { runs: number; activities: number }) {
  return (
    <>
      {runs.toLocaleString("en-US")}
      {activities > 0 && <span class="muted"> + {activities.toLocaleString("en-US")} activities</span>}
    </>
  );
}

function limitsOf(queue: QueueInfo): string {
  const parts = [limitText(queue)];
  if (queue.perKey !== null) parts.push(`each key: ${limitText(queue.perKey) || "none"}`);
  const keys = Object.keys(queue.keys ?? {}).length;
  if (keys > 0) parts.push(`${keys} keys with limits`);
  return parts.filter((part) => part !== "").join("; ") || "none";
}
function limitText({ concurrency, rate }: Limit): string {
  const parts: string[] = [];
  if (concurrency !== null) parts.push(`${concurrency} at once`);
  if (rate !== null) parts.push(`${rate.limit} per ${typeof rate.per === "number" ? duration(rate.per) : rate.per}`);
  return parts.join(", ");
}
