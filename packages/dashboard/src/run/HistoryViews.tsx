// The views of a run that are made from its history: events, and state over turns.

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { call } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import type { History, RunInfo } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { clock } from "../base/times.ts";
import { diffValues } from "../base/values.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { Diff, Value } from "../ui/parts.tsx";
import { param, setParams } from "../ui/router.tsx";
import { eventsOf, stateAfter, statesOf, turnsOf } from "./events.ts";

export interface ViewProps {
  readonly run: RunInfo;
  readonly execution: number;
}

export function useHistory({ run, execution }: ViewProps) {
  return useResource<History>(
    `${run.id} ${execution}`,
    () => call<History>("GET", `runs/${encodeSegment(run.id)}/history`, { query: { execution } }),
    [`run:${run.id}`],
  );
}

const PAGE = 300;

export function EventsView(props: ViewProps) {
  const history = useHistory(props);
  const most = useSignal(PAGE);
  const events = useMemo(() => (history.data.value === undefined ? [] : eventsOf(history.data.value)), [history.data.value]);
  return (
    <section>
      <h2>Events</h2>
      <ErrorText error={history.error.value} />
      <table class="events" aria-label="Events">
        <thead>
          <tr>
            <th>Turn</th>
            <th>Time</th>
            <th>Event</th>
            <th>Subject</th>
          </tr>
        </thead>
        <tbody>
          {events.slice(0, most.value).map(({ key, turn, time, direction, type, subject, record }) => (
            <tr key={key}>
              <td>{turn}</td>
              <td class="time">{clock(time).slice(11)}</td>
              <td>
                <span class="muted" role="img" aria-label={direction === "in" ? "received" : "recorded"}>
                  {direction === "in" ? "→" : "←"}
                </span>{" "}
                {type}
              </td>
              <td>
                <details>
                  <summary>{subject || "…"}</summary>
                  <Value value={record} label={`Event ${key}`} />
                </details>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {events.length > most.value && (
        <button
          type="button"
          onClick={() => {
            most.value += PAGE;
          }}
        >
          {`Show more (${(events.length - most.value).toLocaleString("en-US")} left)`}
        </button>
      )}
    </section>
  );
}

export function StateView(props: ViewProps) {
  const history = useHistory(props);
  const data = history.data.value;
  const states = useMemo(() => (data === undefined ? [] : statesOf(data)), [data]);
  const turns = useMemo(() => (data === undefined ? [] : turnsOf(data)), [data]);
  const last = turns.at(-1)?.index ?? 0;
  const asked = param("turn");
  const turn = asked === undefined ? last : Math.min(Number(asked) || 0, last);
  const { before, at } = stateAfter(states, turn);
  const isChanged = at !== undefined && at.turn === turn;
  return (
    <section>
      <h2>State</h2>
      <ErrorText error={history.error.value} />
      {data !== undefined && states.length === 0 && <p class="empty">This run has published no state.</p>}
      {states.length > 0 && (
        <>
          <div class="slider">
            <input
              type="range"
              aria-label="Turn"
              min={turns[0]?.index ?? 0}
              max={last}
              step={1}
              value={turn}
              onInput={({ currentTarget }) => setParams({ turn: currentTarget.value })}
            />
            <output>
              Turn {turn} of {last}
              {isChanged ? ": published here" : at !== undefined && `: published in turn ${at.turn}`}
            </output>
          </div>
          <div class="columns">
            <div>
              <h3>Value</h3>
              {at === undefined ? <p class="note">none yet</p> : <Value value={at.value} label="State" />}
            </div>
            <div>
              <h3>Change</h3>
              <Diff lines={diffValues(before?.value, at?.value)} label="Change" />
            </div>
          </div>
        </>
      )}
    </section>
  );
}
