// The views of a run about others: messages that it got, and runs that it started.

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { call } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import type { Inbox, RunInfo, RunPage } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { clock } from "../base/times.ts";
import { preview, visible } from "../base/values.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { Ago, Status, WorkflowName } from "../ui/parts.tsx";
import { Link, RunLink, runPath } from "../ui/router.tsx";
import { payloadsOf } from "./events.ts";
import { useHistory, type ViewProps } from "./HistoryViews.tsx";
import type { RunModel } from "./model.ts";

export function MessagesView({ run, execution, model }: ViewProps & { model: RunModel }) {
  const history = useHistory({ run, execution });
  const payloads = useMemo(() => payloadsOf(history.data.value), [history.data.value]);
  const inbox = useResource<Inbox>(run.id, () => call<Inbox>("GET", `runs/${encodeSegment(run.id)}/inbox`), [`run:${run.id}`]);
  const timeline = model.timeline.value;
  const times = new Map(timeline?.turns.map(({ index, time }) => [index, time]));
  const taken = timeline?.messages ?? [];
  const waiting = inbox.data.value?.messages.filter(({ kind }) => kind !== "other") ?? [];
  const isEmpty = inbox.data.value !== undefined && waiting.length === 0 && taken.length === 0;
  return (
    <section>
      <h2>Messages</h2>
      <ErrorText error={inbox.error.value} />
      {isEmpty && <p class="empty">No messages.</p>}
      {!isEmpty && (
        <table aria-label="Messages">
          <thead>
            <tr>
              <th>Kind</th>
              <th>Name</th>
              <th>Arrived</th>
              <th>Taken by</th>
              <th class="wide-only">Payload</th>
            </tr>
          </thead>
          <tbody>
            {taken.map(({ id, kind, name, arrivedTurn, takenTurn, takenBy }) => (
              <tr key={`taken ${id}`}>
                <td>{kind}</td>
                <td>{name}</td>
                <td>
                  turn {arrivedTurn} <span class="muted">{clock(times.get(arrivedTurn)).slice(11)}</span>
                </td>
                <td>
                  {takenBy === null ? (
                    <Status status="waiting" />
                  ) : (
                    <>
                      <Link to={runPath(run.id, { op: takenBy })}>{visible(takenBy)}</Link>
                      {takenTurn !== null && <span class="muted"> in turn {takenTurn}</span>}
                    </>
                  )}
                </td>
                <td class="wide-only mono">{preview(payloads.get(id))}</td>
              </tr>
            ))}
            {waiting.map(({ id, kind, name, receivedAt, payload }) => (
              <tr key={`waiting ${id}`}>
                <td>{kind}</td>
                <td>{visible(name ?? "")}</td>
                <td>
                  <Ago time={receivedAt} />
                </td>
                <td>
                  <Status status="waiting" />
                </td>
                <td class="wide-only mono">{preview(payload)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

export function ChildrenView({ run }: { run: RunInfo }) {
  return (
    <section>
      <h2>Children</h2>
      <Children id={run.id} isTop />
    </section>
  );
}

function Children({ id, isTop = false }: { id: string; isTop?: boolean }) {
  const page = useResource<RunPage>(
    id,
    () => call<RunPage>("GET", `runs/${encodeSegment(id)}/children`, { query: { limit: 200 } }),
    isTop ? [`run:${id}`, "runs"] : [],
  );
  const runs = page.data.value?.runs;
  return (
    <>
      <ErrorText error={page.error.value} />
      {runs?.length === 0 && (
        <p class={isTop ? "empty" : "note no-children"}>{isTop ? "This run has started no others." : "no children"}</p>
      )}
      {runs !== undefined && runs.length > 0 && (
        <ul class="children" aria-label={`Children of ${id}`}>
          {runs.map((child) => (
            <Child key={child.id} run={child} />
          ))}
        </ul>
      )}
      {page.data.value?.cursor != null && <p class="muted">The newest 200 are shown.</p>}
    </>
  );
}

function Child({ run }: { run: RunInfo }) {
  const isOpen = useSignal(false);
  return (
    <li>
      <div class="child">
        <button
          type="button"
          class="plain"
          aria-expanded={isOpen.value}
          aria-label={`Children of ${run.id}`}
          onClick={() => {
            isOpen.value = !isOpen.value;
          }}
        >
          <span aria-hidden="true">{isOpen.value ? "▾" : "▸"}</span>
        </button>
        <Status status={run.status} />
        <span>
          <WorkflowName run={run} />
        </span>
        <RunLink id={run.id} />
      </div>
      {isOpen.value && <Children id={run.id} />}
    </li>
  );
}
