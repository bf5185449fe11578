// The views of a run about others: messages that it got, and runs that it started.

import { useSignal } from "@preact/signals";
import { call } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import type { Inbox, RunInfo, RunPage } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { clock } from "../base/times.ts";
import { preview } from "../base/values.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { Ago, Status } from "../ui/parts.tsx";
import { Link, RunLink, runPath } from "../ui/router.tsx";
import type { RunModel } from "./model.ts";

export function MessagesView({ run, model }: { run: RunInfo; model: RunModel }) {
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
                      <Link to={runPath(run.id, { op: takenBy })}>{takenBy}</Link>
                      {takenTurn !== null && <span class="muted"> in turn {takenTurn}</span>}
                    </>
                  )}
                </td>
                <td class="wide-only" />
              </tr>
            ))}
            {waiting.map(({ id, kind, name, receivedAt, payload }) => (
              <tr key={`waiting ${id}`}>
                <td>{kind}</td>
                <td>{name}</td>
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
      {runs?.length === 0 && <p class="empty">{isTop ? "This run has started no others." : "none"}</p>}
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
      <Status status={run.status} /> {run.workflow} <RunLink id={run.id} />
      {isOpen.value && <Children id={run.id} />}
    </li>
  );
}
