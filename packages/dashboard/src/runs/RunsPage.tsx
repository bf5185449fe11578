// The list of runs: filter, statuses with counts, rows that never jump, selection.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { call, now } from "../api/call.ts";
import { answerTo } from "../api/live.ts";
import { useResource } from "../api/resource.ts";
import { may } from "../api/session.ts";
import type { RunCounts, RunInfo, RunPage } from "../api/types.ts";
import { encodeSegment, queryText } from "../base/paths.ts";
import { isOpen, nameOfStatus, OPEN_STATUSES, RUN_STATUSES } from "../base/statuses.ts";
import { duration, plural, toMs } from "../base/times.ts";
import { preview } from "../base/values.ts";
import { ErrorText } from "../ui/Dialog.tsx";
import { useKeys } from "../ui/keys.ts";
import { isNarrow } from "../ui/narrow.ts";
import { Ago, Status, Text, WorkflowName } from "../ui/parts.tsx";
import { Link, param, RunLink, setParams } from "../ui/router.tsx";
import { tick } from "../ui/tick.ts";
import { BulkMenu, type Selection } from "./Bulk.tsx";
import { attributeWord, FILTER_WORDS, type Filter, filterOf, statusWords, textOf, toggleStatus } from "./filter.ts";
import { firstRows, missingFrom, PAGE_SIZE, type Rows, showNewer, withLatest, withRuns } from "./rows.ts";

/** Rows that are read one by one after a change, at most. */
const MOST_SINGLE = 20;

const NONE: readonly RunInfo[] = [];

export function RunsPage() {
  const text = param("q") ?? "";
  const cursor = param("cursor");
  const filter = filterOf(text, now());
  const selection = useSignal<Selection>({ kind: "ids", ids: [] });
  const rows = useRows(filter, text, cursor);
  const shown = rows.data.value?.shown ?? NONE;
  useEffect(() => {
    selection.value = { kind: "ids", ids: [] };
  }, [text, cursor]);
  const canSelect = may("admin");
  // While runs come and go elsewhere, the rows stay as they are.
  const table = useMemo(() => <RunTable runs={shown} selection={selection} canSelect={canSelect} />, [shown, canSelect]);
  const newer = cursor === undefined ? (rows.data.value?.newer.length ?? 0) : 0;
  return (
    <>
      <div class="page-head">
        <h1>Runs</h1>
        <FilterBox text={text} />
        {may("operate") && (
          <Link to="start" class="button primary">
            Start a run
          </Link>
        )}
      </div>
      {filter.problems.map((problem) => (
        <p class="problem" role="status" key={problem}>
          {problem}
        </p>
      ))}
      <StatusToggles text={text} filter={filter} />
      <div class="toolbar">
        {canSelect && <BulkMenu selection={selection} filter={filter} onDone={rows.refresh} />}
        {canSelect && (
          <button
            type="button"
            onClick={() => {
              selection.value = { kind: "all" };
            }}
          >
            Select all matching
          </button>
        )}
        <span class="muted" aria-live="polite">
          {selection.value.kind === "all"
            ? "All matching runs are selected"
            : selection.value.ids.length > 0 && `${plural(selection.value.ids.length, "run")} selected`}
        </span>
        <span class="grow" />
        {newer > 0 && (
          <button
            type="button"
            class="primary"
            onClick={() => {
              if (rows.data.value !== undefined) rows.data.value = showNewer(rows.data.value);
            }}
          >
            {newer >= PAGE_SIZE ? `Show ${PAGE_SIZE}+ new runs` : `Show ${newer} new ${newer === 1 ? "run" : "runs"}`}
          </button>
        )}
      </div>
      <ErrorText error={rows.error.value} />
      {table}
      {rows.data.value !== undefined && shown.length === 0 && (
        <p class="empty">{text === "" ? "No runs yet." : "No runs match this filter."}</p>
      )}
      <nav class="paging" aria-label="Pages">
        {cursor !== undefined && <Link to={`runs${queryText({ q: text })}`}>First page</Link>}
        {rows.data.value?.cursor != null && <Link to={`runs${queryText({ q: text, cursor: rows.data.value.cursor })}`}>Next page</Link>}
      </nav>
    </>
  );
}

function useRows(filter: Filter, text: string, cursor: string | undefined) {
  const query = { ...filter.query, status: filter.statuses, limit: PAGE_SIZE, cursor };
  return useResource<Rows>(
    JSON.stringify([text, cursor]),
    async (before, hint) => {
      const { runs, cursor: next } = await call<RunPage>("GET", "runs", { query, headers: answerTo(hint) });
      if (before === undefined) return firstRows(runs, next);
      const missing = missingFrom(before, runs).slice(0, MOST_SINGLE);
      const single = await Promise.all(missing.map((id) => call<RunInfo>("GET", `runs/${encodeSegment(id)}`).catch(() => undefined)));
      return withRuns(
        withLatest(before, runs, next),
        single.filter((run) => run !== undefined),
      );
    },
    ["runs"],
  );
}

function FilterBox({ text }: { text: string }) {
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (input.current !== null && input.current !== document.activeElement) input.current.value = text;
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);
  useKeys((event) => {
    if (event.key !== "/") return false;
    input.current?.focus();
    input.current?.select();
    return true;
  });
  const apply = (): void => {
    clearTimeout(timer.current);
    setParams({ q: input.current?.value.trim(), cursor: undefined });
  };
  return (
    <form
      class="filter"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        apply();
      }}
    >
      <input
        ref={input}
        type="search"
        aria-label="Filter runs"
        placeholder="workflow:order attr.tenant:42 since:24h"
        title={`Words: ${FILTER_WORDS}`}
        autocomplete="off"
        spellcheck={false}
        defaultValue={text}
        onInput={() => {
          clearTimeout(timer.current);
          timer.current = setTimeout(apply, 250);
        }}
      />
    </form>
  );
}

/** Always there, also without a run. */
const ALWAYS: ReadonlySet<string> = new Set(["running", "blocked", "failed", "completed"]);

interface Counted {
  readonly counts: RunCounts;
}

function StatusToggles({ text, filter }: { text: string; filter: Filter }) {
  const { query } = filter;
  // Events have the counts of all runs. Those of some may change while the others stay.
  const isAll = queryText(query) === "";
  const counts = useResource<RunCounts>(
    JSON.stringify(query),
    async (_, hint) => {
      if (isAll && hint?.event === "counts") return (hint.data as Counted).counts;
      return (await call<Counted>("GET", "runs/count", { query, headers: answerTo(hint) })).counts;
    },
    isAll ? ["counts"] : ["runs"],
  );
  const known = counts.data.value;
  const countOf = (statuses: readonly (typeof RUN_STATUSES)[number][]): string => {
    if (known === undefined) return "";
    const all = statuses.map((status) => known[status] ?? { n: 0, capped: false });
    const sum = all.reduce((total, { n }) => total + n, 0);
    return all.some(({ capped }) => capped) ? `${sum.toLocaleString("en-US")}+` : sum.toLocaleString("en-US");
  };
  const pressed = statusWords(text);
  const toggle = (status: string): void => setParams({ q: toggleStatus(text, status), cursor: undefined }, { replace: false });
  const shown = RUN_STATUSES.filter((status) => ALWAYS.has(status) || pressed.includes(status) || (known?.[status]?.n ?? 0) > 0);
  return (
    <div class="toggles" role="group" aria-label="Status">
      <button type="button" aria-pressed={pressed.includes("open")} onClick={() => toggle("open")}>
        open <b>{countOf(OPEN_STATUSES)}</b>
      </button>
      {shown.map((status) => (
        <button key={status} type="button" data-status={status} aria-pressed={pressed.includes(status)} onClick={() => toggle(status)}>
          {nameOfStatus(status)} <b>{countOf([status])}</b>
        </button>
      ))}
    </div>
  );
}

function RunTable({ runs, selection, canSelect }: { runs: readonly RunInfo[]; selection: Signal<Selection>; canSelect: boolean }) {
  const chosen = selection.value;
  const isChosen = (id: string): boolean => chosen.kind === "all" || chosen.ids.includes(id);
  const areAll = runs.length > 0 && runs.every(({ id }) => isChosen(id));
  const choose = (ids: readonly string[], isOn: boolean): void => {
    // To take one out of "all matching" leaves the others on this page.
    const before = chosen.kind === "all" ? runs.map(({ id }) => id) : chosen.ids;
    const rest = before.filter((id) => !ids.includes(id));
    selection.value = { kind: "ids", ids: isOn ? [...rest, ...ids] : rest };
  };
  return (
    <table class="runs" aria-label="Runs">
      <thead>
        <tr>
          {canSelect && (
            <th class="check">
              <input
                type="checkbox"
                aria-label="Select this page"
                checked={areAll}
                onChange={({ currentTarget }) =>
                  choose(
                    runs.map(({ id }) => id),
                    currentTarget.checked,
                  )
                }
              />
            </th>
          )}
          <th>Status</th>
          {!isNarrow.value && <th>Workflow</th>}
          <th>Run</th>
          <th class="wide-only">Summary</th>
          <th class="wide-only">Took</th>
          <th>Created</th>
          <th class="wide-only">Attributes</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <tr key={run.id} class={isChosen(run.id) ? "chosen" : ""}>
            {canSelect && (
              <td class="check">
                <input
                  type="checkbox"
                  aria-label={`Select ${run.id}`}
                  checked={isChosen(run.id)}
                  onChange={({ currentTarget }) => choose([run.id], currentTarget.checked)}
                />
              </td>
            )}
            <td class="short">
              <Status status={run.status} />
            </td>
            {!isNarrow.value && (
              <td>
                <WorkflowName run={run} />
              </td>
            )}
            <td>
              <RunLink id={run.id} />
              {isNarrow.value && (
                <span class="below">
                  <WorkflowName run={run} />
                </span>
              )}
            </td>
            <td class="wide-only summary">
              <Summary run={run} />
            </td>
            <td class="wide-only short time">
              <Took run={run} />
            </td>
            <td class="short time">
              <Ago time={run.createdAt} />
            </td>
            <td class="wide-only attributes">
              {Object.entries(run.attributes).map(([name, value]) => (
                <Link key={name} class="tag" to={`runs${queryText({ q: textOf([attributeWord(name, value)]) })}`}>
                  {preview(name, 40)}={preview(value, 40)}
                </Link>
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** How long it took, or has taken so far. */
function Took({ run: { startedAt, finishedAt } }: { run: RunInfo }) {
  const started = toMs(startedAt);
  if (started === undefined) return null;
  if (finishedAt === null) tick.value;
  return <>{duration((toMs(finishedAt) ?? now()) - started)}</>;
}

function Summary({ run }: { run: RunInfo }) {
  const { error, status, waitingFor } = run;
  if (error !== null && (status === "blocked" || !isOpen(status))) {
    return (
      <>
        {error.name}: <Text text={typeof error.message === "string" ? error.message.split("\n")[0] : error.message} />
      </>
    );
  }
  if (!isOpen(status)) return null;
  return (
    <>
      {waitingFor.slice(0, 3).map((text, i) => (
        <span key={preview(text)}>
          {i > 0 && ", "}
          <Text text={text} />
        </span>
      ))}
      {waitingFor.length > 3 && ` and ${waitingFor.length - 3} more`}
    </>
  );
}
