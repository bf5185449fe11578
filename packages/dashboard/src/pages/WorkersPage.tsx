// Workers that are alive: what they serve, how busy they are, and when they were last heard of.

import { call, now } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import type { WorkerInfo } from "../api/types.ts";
import { clock, duration, toMs } from "../base/times.ts";
import { visible } from "../base/values.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { isNarrow } from "../ui/narrow.ts";
import { tick } from "../ui/tick.ts";

export function WorkersPage() {
  const workers = useResource<readonly WorkerInfo[]>(
    "workers",
    async () => (await call<{ workers: WorkerInfo[] }>("GET", "workers")).workers,
    ["workers"],
  );
  const found = workers.data.value;
  return (
    <>
      <div class="page-head">
        <h1>Workers</h1>
      </div>
      <ErrorText error={workers.error.value} />
      {found?.length === 0 && <p class="empty">No worker is alive. Runs wait until one starts.</p>}
      {found !== undefined && found.length > 0 && (
        <table aria-label="Workers">
          <thead>
            <tr>
              <th>Worker</th>
              {!isNarrow.value && <th>Queue</th>}
              <th>Slots</th>
              <th>Activities</th>
              <th class="wide-only">Code</th>
              <th class="wide-only">Alive</th>
              <th>Lag</th>
            </tr>
          </thead>
          <tbody>
            {found.map((worker) => (
              <WorkerRow key={worker.id} worker={worker} />
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function WorkerRow({ worker }: { worker: WorkerInfo }) {
  tick.value;
  const { id, host, pid, queue, serves, activities, active, concurrency, activeActivities, activityConcurrency, startedAt, seenAt } =
    worker;
  return (
    <tr>
      <td>
        {visible(id)}{" "}
        <span class="muted">
          {visible(host)}, pid {pid}
        </span>
        {isNarrow.value && <span class="below">queue {visible(queue)}</span>}
      </td>
      {!isNarrow.value && <td>{visible(queue)}</td>}
      <td class="short">
        <Slots used={active} all={concurrency} label={`Runs of ${id}`} />
      </td>
      <td class="short">
        <Slots used={activeActivities} all={activityConcurrency} label={`Activities of ${id}`} />
      </td>
      <td class="wide-only">
        {serves.map(({ workflow, versions }) => (
          <span class="tag" key={workflow}>
            {visible(workflow)}
            {versions === "*" ? "@*" : versions.some((one) => one !== null) ? `@${versions.map((one) => one ?? "none").join(",")}` : ""}
          </span>
        ))}
        {activities.map((name) => (
          <span class="tag muted" key={name}>
            {visible(name)}
          </span>
        ))}
      </td>
      <td class="wide-only short" title={`Started ${clock(startedAt)}`}>
        {ageOf(startedAt)}
      </td>
      <td class="short" title={`Last heard from ${clock(seenAt)}`}>
        {ageOf(seenAt)}
      </td>
    </tr>
  );
}

const ageOf = (time: string): string => duration(now() - (toMs(time) ?? now()));

function Slots({ used, all, label }: { used: number; all: number; label: string }) {
  return (
    <>
      <meter class="wide-only" min={0} max={Math.max(1, all)} value={used} aria-label={label} /> {used} of {all}
    </>
  );
}
