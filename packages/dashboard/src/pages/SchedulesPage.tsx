// Schedules: when they start runs next, and their pause.

import { useSignal } from "@preact/signals";
import { call } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import { may } from "../api/session.ts";
import type { ScheduleInfo } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { clock, duration } from "../base/times.ts";
import { visible } from "../base/values.ts";
import { useSending } from "../forms/send.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { isNarrow } from "../ui/narrow.ts";
import { Ago } from "../ui/parts.tsx";
import { RunLink } from "../ui/router.tsx";

interface Page {
  readonly schedules: readonly ScheduleInfo[];
  readonly cursor: string | null;
}

export function SchedulesPage() {
  const after = useSignal<string | undefined>(undefined);
  const page = useResource<Page>(
    `schedules ${after.value ?? ""}`,
    () => call<Page>("GET", "schedules", { query: { limit: 100, after: after.value } }),
    ["runs"],
  );
  const started = useSignal<string | undefined>(undefined);
  const found = page.data.value;
  return (
    <>
      <div class="page-head">
        <h1>Schedules</h1>
      </div>
      <ErrorText error={page.error.value} />
      {started.value !== undefined && (
        <p class="said" role="status">
          Started <RunLink id={started.value} />
        </p>
      )}
      {found?.schedules.length === 0 && <p class="empty">No schedules.</p>}
      {found !== undefined && found.schedules.length > 0 && (
        <table aria-label="Schedules">
          <thead>
            <tr>
              <th>Schedule</th>
              {!isNarrow.value && <th>Workflow</th>}
              <th>When</th>
              <th>Next runs</th>
              <th class="wide-only">Last run</th>
              <th class="wide-only">Missed</th>
              <th>Actions</th>
            </tr>
          </thead>
          <tbody>
            {found.schedules.map((schedule) => (
              <ScheduleRow
                key={schedule.id}
                schedule={schedule}
                onChanged={(id) => {
                  started.value = id;
                  page.refresh();
                }}
              />
            ))}
          </tbody>
        </table>
      )}
      <nav class="paging" aria-label="Pages">
        {after.value !== undefined && (
          <button
            type="button"
            onClick={() => {
              after.value = undefined;
            }}
          >
            First page
          </button>
        )}
        {found?.cursor != null && (
          <button
            type="button"
            onClick={() => {
              after.value = found.cursor ?? undefined;
            }}
          >
            Next page
          </button>
        )}
      </nav>
    </>
  );
}

/** The next one with its time, in the zone of the browser. */
function NextRuns({ times }: { times: readonly string[] }) {
  return (
    <span title={times.map((time) => clock(time)).join("\n")}>
      {times.slice(0, 3).map((time, i) => (
        <span key={time} class={i === 0 ? "" : "muted wide-only"}>
          {i > 0 && ", "}
          <Ago time={time} />
          {i === 0 && <span class="muted"> ({clock(time).slice(0, 16)})</span>}
        </span>
      ))}
    </span>
  );
}

function ScheduleRow({ schedule, onChanged }: { schedule: ScheduleInfo; onChanged: (started: string | undefined) => void }) {
  const sending = useSending();
  const act = (what: "pause" | "resume" | "trigger"): void =>
    sending.send(async () => {
      const answer = await call<{ id: string }>("POST", `schedules/${encodeSegment(schedule.id)}/${what}`);
      onChanged(what === "trigger" ? answer.id : undefined);
    });
  const { id, workflow, cron, every, timezone, paused, nextRuns, lastRunId, missed } = schedule;
  const isOff = !may("operate") || sending.isBusy.value;
  return (
    <tr>
      <td>
        {visible(id)}
        {paused && <span class="tag">paused</span>}
        {isNarrow.value && <span class="below">{visible(workflow)}</span>}
      </td>
      {!isNarrow.value && <td>{visible(workflow)}</td>}
      <td>
        <code>{cron ?? `every ${typeof every === "number" ? duration(every) : String(every)}`}</code>
        {timezone !== null && <span class="muted"> {timezone}</span>}
      </td>
      <td>{paused ? <span class="muted">none while paused</span> : <NextRuns times={nextRuns} />}</td>
      <td class="wide-only">{lastRunId !== null && <RunLink id={lastRunId} />}</td>
      <td class="wide-only">{missed > 0 ? missed.toLocaleString("en-US") : ""}</td>
      <td class="row-actions">
        <button type="button" disabled={isOff} onClick={() => act(paused ? "resume" : "pause")}>
          {paused ? "Resume" : "Pause"}
        </button>
        <button type="button" disabled={isOff} onClick={() => act("trigger")}>
          Trigger
        </button>
        <ErrorText error={sending.error.value} />
      </td>
    </tr>
  );
}
