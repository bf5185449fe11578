// One run: what it is, what can be done with it, and its views.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { call, Problem } from "../api/call.ts";
import { useResource } from "../api/resource.ts";
import type { Reason, RunInfo, Timeline as TimelineJson } from "../api/types.ts";
import { encodeSegment } from "../base/paths.ts";
import { isOpen } from "../base/statuses.ts";
import { clock, duration, toMs } from "../base/times.ts";
import { visible } from "../base/values.ts";
import { AXES, type AxisName } from "../timeline/axis.ts";
import { merge, readTimeline, type Timeline } from "../timeline/model.ts";
import { isFailure } from "../timeline/tree.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { Ago, Facts, Notice, Status, Text, Value, WorkflowName } from "../ui/parts.tsx";
import { Link, param, RunLink, setParams } from "../ui/router.tsx";
import { Actions } from "./Actions.tsx";
import { Blocked } from "./Blocked.tsx";
import { Failure } from "./Failure.tsx";
import { EventsView, StateView } from "./HistoryViews.tsx";
import { RunModel } from "./model.ts";
import { OperationsView } from "./OperationsView.tsx";
import { ChildrenView, MessagesView } from "./RelatedViews.tsx";
import { TimelineView } from "./TimelineView.tsx";

const VIEWS = ["timeline", "operations", "events", "state", "messages", "children"] as const;
type ViewName = (typeof VIEWS)[number];
const titleOf = (view: ViewName): string => view.slice(0, 1).toUpperCase() + view.slice(1);

export function RunPage({ id }: { id: string }) {
  const isFull = useSignal(false);
  const run = useResource<RunInfo>(
    `${id} ${String(isFull.value)}`,
    () => call<RunInfo>("GET", `runs/${encodeSegment(id)}`, { query: { full: isFull.value ? true : undefined } }),
    [`run:${id}`],
  );
  const { value: found } = run.data;
  const { value: error } = run.error;
  if (found === undefined) {
    const isMissing = error instanceof Problem && error.status === 404;
    if (isMissing) {
      return (
        <Notice title="Run not found">
          <p>
            There is no run <code>{visible(id)}</code>. It may have been deleted, or the address is wrong.
          </p>
          <p>
            <Link to="runs">All runs</Link>
          </p>
        </Notice>
      );
    }
    return error === undefined ? <p class="empty">Loading…</p> : <ErrorText error={error} />;
  }
  const asked = Number(param("execution") ?? found.execution);
  const execution = Number.isInteger(asked) && asked >= 1 ? asked : found.execution;
  return (
    <Loaded key={`${id} ${execution}`} run={found} execution={execution} refresh={run.refresh} loadLarge={() => (isFull.value = true)} />
  );
}

interface LoadedProps {
  readonly run: RunInfo;
  readonly execution: number;
  readonly refresh: () => void;
  readonly loadLarge: () => void;
}

function Loaded({ run, execution, refresh, loadLarge }: LoadedProps) {
  const model = useMemo(() => new RunModel(), []);
  useEffect(() => () => model.dispose(), []);
  const path = `runs/${encodeSegment(run.id)}/timeline`;
  const timeline = useResource<Timeline>(
    `${run.id} ${execution}`,
    async (before) => {
      const isMore = before !== undefined && before.lastTurn >= 0;
      const json = await call<TimelineJson>("GET", path, { query: { execution, after: isMore ? before.lastTurn : undefined } });
      const next = readTimeline(json);
      return isMore ? merge(before, next) : next;
    },
    [`run:${run.id}`],
  );
  const loaded = timeline.data.value;
  const location = param("op");
  useEffect(() => {
    if (loaded !== undefined) model.setTimeline(loaded, location);
  }, [loaded]);

  const asked = param("view");
  const view = VIEWS.find((one) => one === asked) ?? "timeline";
  const lastFailed = model.tree.value === undefined ? undefined : [...model.tree.value.byKey.values()].findLast(isFailure)?.operation;
  const forkBefore = model.selectedOperation.value?.location ?? lastFailed?.location ?? "";
  return (
    <>
      <header class="run-head">
        <h1>{visible(run.id)}</h1>
        <span class="workflow">
          <WorkflowName run={run} />
        </span>
        <Status status={run.status} />
      </header>
      <Actions run={run} forkBefore={forkBefore} onChanged={refresh} />
      <Blocked run={run} />
      {isOpen(run.status) && run.status !== "blocked" && <Why run={run} model={model} />}
      <Overview run={run} loadLarge={loadLarge} />
      <ErrorText error={timeline.error.value} />
      {run.execution > 1 && <Executions run={run} execution={execution} />}
      <Tabs view={view}>
        {view === "timeline" && <TimelineView run={run} execution={execution} model={model} axis={axisOf(param("axis"))} />}
        {view === "operations" && <OperationsView run={run} execution={execution} model={model} />}
        {view === "events" && <EventsView run={run} execution={execution} />}
        {view === "state" && <StateView run={run} execution={execution} />}
        {view === "messages" && <MessagesView run={run} execution={execution} model={model} />}
        {view === "children" && <ChildrenView run={run} />}
      </Tabs>
    </>
  );
}

const axisOf = (text: string | undefined): AxisName => AXES.find((axis) => axis === text) ?? "compact";

function Tabs({ view, children }: { view: ViewName; children: ComponentChildren }) {
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    const next = VIEWS[(VIEWS.indexOf(view) + by + VIEWS.length) % VIEWS.length];
    event.preventDefault();
    setParams({ view: next });
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label="Views" onKeyDown={onKeyDown}>
        {VIEWS.map((one) => (
          <button
            key={one}
            type="button"
            role="tab"
            id={`tab-${one}`}
            aria-selected={one === view}
            aria-controls="view"
            tabIndex={one === view ? 0 : -1}
            onClick={() => setParams({ view: one === "timeline" ? undefined : one }, { replace: false })}
          >
            {titleOf(one)}
          </button>
        ))}
      </div>
      <div id="view" role="tabpanel" aria-labelledby={`tab-${view}`} class="view">
        {children}
      </div>
    </>
  );
}

function Why({ run, model }: { run: RunInfo; model: RunModel }) {
  const why = useResource<readonly Reason[]>(
    run.id,
    async () => (await call<{ reasons: Reason[] }>("GET", `runs/${encodeSegment(run.id)}/why`)).reasons,
    [`run:${run.id}`, "workers"],
  );
  const reasons = why.data.value ?? [];
  if (reasons.length === 0) return null;
  return (
    <section class="why" aria-label="Why">
      <b>Why:</b>
      <ul>
        {reasons.map(({ kind, text, advice, since, location }) => {
          const child = location === null ? undefined : model.tree.value?.byLocation.get(location)?.operation?.childId;
          return (
            <li key={`${kind} ${location ?? ""} ${typeof text === "string" ? text : ""}`}>
              <Text text={text} />{" "}
              <span class="muted">
                {child === undefined ? <Text text={advice} /> : <ChildReason id={child} />}
                {since !== null && (
                  <>
                    {" "}
                    (<Ago time={since} />)
                  </>
                )}
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function ChildReason({ id }: { id: string }) {
  return (
    <>
      See why the child does not advance: <RunLink id={id} />
    </>
  );
}

function Executions({ run, execution }: { run: RunInfo; execution: number }) {
  return (
    <label class="inline-field executions">
      <span>Execution</span>
      <select
        value={String(execution)}
        onChange={({ currentTarget }) =>
          setParams(
            { execution: Number(currentTarget.value) === run.execution ? undefined : currentTarget.value, op: undefined },
            { replace: false },
          )
        }
      >
        {Array.from({ length: Math.min(run.execution, 200) }, (_, i) => run.execution - i).map((number) => (
          <option key={number} value={String(number)}>
            {number === run.execution ? `${number} (newest)` : number}
          </option>
        ))}
      </select>
    </label>
  );
}

const isLarge = (value: unknown): boolean => typeof value === "object" && value !== null && "$large" in value;

function Overview({ run, loadLarge }: { run: RunInfo; loadLarge: () => void }) {
  const started = toMs(run.startedAt);
  const finished = toMs(run.finishedAt);
  return (
    <div class="overview">
      <Facts
        facts={[
          ["Queue", run.queue],
          ["Key", run.key],
          [
            "Created",
            <time key="created" dateTime={run.createdAt}>
              {clock(run.createdAt)}
            </time>,
          ],
          ["Took", started !== undefined && finished !== undefined ? duration(finished - started) : null],
          ["Deadline", run.deadlineAt === null ? null : clock(run.deadlineAt)],
          ["Worker", run.workerId],
          ["Execution", run.execution > 1 ? String(run.execution) : null],
          ["Attempt", run.attempt > 1 ? String(run.attempt) : null],
          ["Parent", run.parentId === null ? null : <RunLink key="parent" id={run.parentId} />],
          ["Forked from", run.forkedFrom === null ? null : <RunLink key="fork" id={run.forkedFrom} />],
          [
            "Schedule",
            run.schedule === null ? null : (
              <Link key="schedule" to="schedules">
                {run.schedule}
              </Link>
            ),
          ],
          [
            "Attributes",
            Object.entries(run.attributes)
              .map(([name, value]) => `${name}=${String(value)}`)
              .join("  "),
          ],
        ]}
      />
      <details class="run-values" open>
        <summary>Input and output</summary>
        <div class="columns">
          <div>
            <h3>Input</h3>
            <Value value={run.input ?? undefined} label="Input of the run" />
          </div>
          <div>
            {run.error !== null && run.status !== "blocked" ? (
              <Failure error={run.error} title="Error" />
            ) : (
              <>
                <h3>Output</h3>
                {isOpen(run.status) ? (
                  <p class="note">not finished yet</p>
                ) : (
                  <Value value={run.status === "completed" ? run.output : undefined} label="Output of the run" />
                )}
              </>
            )}
          </div>
        </div>
        {(isLarge(run.input) || isLarge(run.output)) && (
          <button type="button" onClick={loadLarge}>
            Load large values
          </button>
        )}
      </details>
    </div>
  );
}
