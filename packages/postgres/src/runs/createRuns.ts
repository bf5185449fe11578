// New runs on their way to the server: a batch becomes one call.
// Owns: which of them go together, and what each is handed over as.
// Invariants: P10 M3 (ids and keys), M8 (messages that come with the start), D2 (the first turn is there with the run, or neither is).

import type { RunStatus } from "@holdfast/core";
import type { Answer, CreateResult, NewRun, Wakeup } from "holdfast/store";
import { payload, readText, text, time } from "../columns.ts";
import type { NameIds } from "../nameIds.ts";
import { changesOf } from "./commitTurns.ts";
import { type RecordRow, rowsOf } from "./history.ts";
import { commonFields, executionStartOf, isUsual, newRunFields, type Reach, turnFields } from "./rowFields.ts";

/** It comes alone, or with a usual first turn that keeps its lease. */
export function isPlain(run: NewRun): boolean {
  const { idempotencyKey, parent, messages, first, onConflict } = run;
  return (
    !hasOrigin(run) &&
    idempotencyKey === undefined &&
    parent === undefined &&
    (messages === undefined || messages.length === 0) &&
    (onConflict === "reject" || onConflict === "use-existing") &&
    (first === undefined || isPlainFirst(first))
  );
}
function hasOrigin({ key, schedule, tick, forkedFrom, after, retention }: NewRun): boolean {
  return [key, schedule, tick, forkedFrom, after, retention].some((one) => one !== undefined);
}
function isPlainFirst({ commit }: NonNullable<NewRun["first"]>): boolean {
  const { lease, close, blocked, attempts, consumed, updates } = commit;
  return isUsual(commit) && lease === "keep" && [close, blocked, attempts, consumed, updates].every((more) => more === undefined);
}

/** s status, w worker, l lease, t turns, n records, rb rollbacks, wf waits. */
export function firstFields(first: NonNullable<NewRun["first"]>): object {
  const { s, t, n, rb, wf } = turnFields(first.commit);
  return { s, t, n, rb, wf, w: text(first.workerId), l: time(first.lease) };
}

// ── a batch ──

export interface CreateBatch {
  readonly parameters: readonly (string | null)[];
  readonly plain: readonly number[];
  readonly others: readonly number[];
}

export function createBatch(runs: readonly NewRun[], names: NameIds, goesPlain: (run: NewRun) => boolean = isPlain): CreateBatch {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const { id } of runs) (seen.has(id) ? twice : seen).add(id);
  const plain: number[] = [];
  const others: number[] = [];
  const rows: object[] = [];
  const records: (RecordRow & { i: number; x: number })[] = [];
  const states: object[] = [];
  const rest: object[] = [];
  const reach: Reach = { touched: [], ending: [] };
  for (const [at, run] of runs.entries()) {
    if (!goesPlain(run) || twice.has(run.id)) {
      others.push(at);
      rest.push(newRunFields(run, names, reach));
      continue;
    }
    plain.push(at);
    const i = plain.length;
    const { first } = run;
    rows.push({ i, ...commonFields(run, names), ...(first !== undefined && firstFields(first)) });
    if (first === undefined) continue;
    const { turn, state, workerId } = first.commit;
    if (turn !== undefined)
      for (const row of rowsOf(turn, names.worker(workerId), executionStartOf(run))) records.push(Object.assign(row, { i, x: 1 }));
    if (state !== undefined) states.push({ i, state: payload(state) });
  }
  const list = (items: readonly unknown[]): string | null => (items.length === 0 ? null : JSON.stringify(items));
  return { parameters: [list(rows), list(records), list(states), list(rest), list(reach.touched), list(reach.ending)], plain, others };
}

/** Q2: one of the runs may not begin with its first turn. Nothing was written. */
export function isFiled(json: string): boolean {
  return json === '{"filed":true}';
}

interface CreateAnswer {
  /** Those that were there: number, onConflict, execution, status, workflow. */
  readonly met?: readonly (readonly [number, NewRun["onConflict"], number, RunStatus, string])[] | null;
  readonly others?: /** Null: an open transaction uses the same key, nothing was done. */
    | readonly ({
        readonly s: CreateResult["status"];
        readonly id?: string;
        readonly x?: number;
        readonly b?: number[];
        readonly r?: RunStatus;
        readonly w?: string;
      } | null)[]
    | null;
}

export function createResults(runs: readonly NewRun[], batchOf: () => CreateBatch, json: string): Answer<CreateResult>[] {
  // All of them are new.
  if (json === "{}") return runs.map(({ id }) => ({ status: "created", id, execution: 1, inboxIds: [] }));
  const { plain, others } = batchOf();
  const answer = JSON.parse(json) as CreateAnswer;
  const results: Answer<CreateResult>[] = runs.map(() => "busy");
  const idOf = (at: number): string => runs[at]?.id ?? "";
  for (const at of plain) results[at] = { status: "created", id: idOf(at), execution: 1, inboxIds: [] };
  for (const [i, conflict, execution, runStatus, found] of answer.met ?? []) {
    const at = plain[i - 1] as number;
    const workflow = readText(found);
    results[at] =
      conflict === "reject" || workflow !== runs[at]?.workflow
        ? { status: "conflict", id: idOf(at), runStatus, workflow }
        : { status: "existing", id: idOf(at), execution, inboxIds: [] };
  }
  for (const [n, at] of others.entries()) {
    const other = answer.others?.[n];
    if (other === null) continue;
    const { s = "conflict", id = text(idOf(at)), x = 1, b = [], r = "pending", w = "" } = other ?? {};
    results[at] =
      s === "conflict"
        ? { status: s, id: readText(id), runStatus: r, workflow: readText(w) }
        : { status: s, id: readText(id), execution: x, inboxIds: b };
  }
  return results;
}

/** What watchers have to look at. */
export function createdChanges(runs: readonly NewRun[], results: readonly Answer<CreateResult>[]): { here: Wakeup; elsewhere?: Wakeup } {
  // Q9: a run that is there may have been taken over, canceled, or begun again.
  if (runs.some(({ onConflict }) => onConflict === "replace" || onConflict === "debounce"))
    return { here: { work: true, messages: true, results: true } };
  const isNew = results.map((result) => result !== "busy" && result.status === "created");
  const first = runs.flatMap((run, i) => (run.first !== undefined && isNew[i] === true ? [run.first.commit] : []));
  const { here, elsewhere } = changesOf(first, first.map(() => ({ status: "committed", inbox: [] })), false, false); // biome-ignore format: one call
  const work = runs.some((run, i) => (run.first === undefined && isNew[i] === true) || (run.messages?.length ?? 0) > 0);
  const family = runs.some(({ parent, messages }) => parent !== undefined || (messages?.length ?? 0) > 0);
  const parked = first.some(({ lease, close }) => lease === "park" && close === undefined);
  const more = { work: here.work === true || work || family || parked, messages: here.messages === true || family };
  return { here: { ...here, ...more }, elsewhere: { ...elsewhere, ...more } };
}
