// Workers that are alive: what they serve, how busy they are, and when they were last heard of.

import { call, now } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import type { WorkerInfo } from "../api/types.ts";
import { duration, toMs } from "../base/times.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { Ago } from "../ui/parts.tsx";
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
              <th>Queue</th>
              <th>Slots</th>
              <th>Activities</th>
              <th class="wide-only">Code</th>
              <th>Alive</th>
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
        {id}
        <span class="muted">
          {" "}
          {host}, pid {pid}
        </span>
      </td>
      <td>{queue}</td>
      <td>
        <Slots used={active} all={concurrency} label={`Runs of ${id}`} />
      </td>
      <td>
        <Slots used={activeActivities} all={activityConcurrency} label={`Activities of ${id}`} />
      </td>
      <td class="wide-only">
        {serves.map(({ workflow, versions }) => (
          <span class="tag" key={workflow}>
            {workflow}
            {versions === "*" ? "@*" : versions.some((one) => one !== null) ? `@${versions.map((one) => one ?? "none").join(",")}` : ""}
          </span>
        ))}
        {activities.map((name) => (
          <span class="tag muted" key={name}>
            {name}
          </span>
        ))}
      </td>
      <td>
        since <Ago time={startedAt} />
      </td>
      <td>{duration(now() - (toMs(seenAt) ?? now()))}</td>
    </tr>
  );
}

function Slots({ used, all, label }: { used: number; all: number; label: string }) {
  return (
    <>
      <meter min={0} max={Math.max(1, all)} value={used} aria-label={label} /> {used} of {all}
    </>
  );
}
