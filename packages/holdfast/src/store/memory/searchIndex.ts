// Finds runs in memory: by creation, and by the values of their attributes.
// Owns: the order of lists, and one sorted list for each attribute and type.
// Invariants: B1: a page for one test of equality costs what it shows, otherwise what the narrowest test matches; B2: counts are capped.

import type { RunStatus } from "@holdfast/core";
import { beginsWith, compareTexts, type Meaning, meaningOf, passes } from "../search/attributeTests.ts";
import { formatCursor, type Place, parseCursor } from "../search/cursors.ts";
import type { RunCounts, RunFilter, RunQuery, Scalar } from "../searchPort.ts";
import { SortedList } from "./sortedList.ts";
import type { KeptRun } from "./state.ts";

export const MOST_COUNTED = 10_000;

interface Entry {
  readonly value: Scalar;
  readonly run: KeptRun;
}
type Attributes = Readonly<Record<string, Scalar>>;

const comparePlaces = (a: Place, b: Place): number => a.createdAt - b.createdAt || compareTexts(a.id, b.id);
const always = (): boolean => true;
const never = (): boolean => false;

export class SearchIndex {
  readonly #all = new SortedList<KeptRun>(comparePlaces);
  /** By type and name. */
  readonly #values = new Map<string, SortedList<Entry>>();

  add(run: KeptRun): void {
    this.#all.add(run);
    this.#enter(run, run.attributes);
  }
  delete(run: KeptRun): void {
    this.#all.delete(run);
    this.#leave(run, run.attributes);
  }
  changed(run: KeptRun, before: Attributes): void {
    this.#leave(run, before);
    this.#enter(run, run.attributes);
  }
  #enter(run: KeptRun, attributes: Attributes): void {
    for (const [name, value] of Object.entries(attributes)) {
      const key = keyOf(name, typeof value);
      let list = this.#values.get(key);
      if (list === undefined) {
        list = new SortedList<Entry>((a, b) => compareValues(a.value, b.value) || comparePlaces(a.run, b.run));
        this.#values.set(key, list);
      }
      list.add({ value, run });
    }
  }
  #leave(run: KeptRun, attributes: Attributes): void {
    for (const [name, value] of Object.entries(attributes)) this.#values.get(keyOf(name, typeof value))?.delete({ value, run });
  }

  list(query: RunQuery): { readonly runs: readonly KeptRun[]; readonly cursor: string | undefined } {
    const cursor = query.cursor === undefined ? undefined : parseCursor(query.cursor);
    const isAfter = (run: KeptRun): boolean => cursor === undefined || comparePlaces(run, cursor) < 0;
    const matches = matcher(query);
    const found: KeptRun[] = [];
    for (const { runs, isOrdered } of this.#streams(query, isAfter)) {
      let left = query.limit + 1;
      for (const run of runs) {
        if (isOrdered && left === 0) break;
        if (!isAfter(run) || !matches(run)) continue;
        found.push(run);
        left--;
      }
    }
    found.sort((a, b) => comparePlaces(b, a));
    const page = found.slice(0, query.limit);
    const last = page.at(-1);
    return { runs: page, cursor: found.length > page.length && last !== undefined ? formatCursor(last) : undefined };
  }
  count(filter: RunFilter): RunCounts {
    const counts: Record<RunStatus, number> = {
      ...{ pending: 0, running: 0, sleeping: 0, blocked: 0, rolling_back: 0 },
      ...{ completed: 0, failed: 0, canceled: 0, terminated: 0, continued: 0 },
    };
    const matches = matcher(filter);
    for (const { runs } of this.#streams(filter, always)) for (const run of runs) if (matches(run)) counts[run.status]++;
    const capped = (Object.keys(counts) as RunStatus[]).filter((status) => counts[status] > MOST_COUNTED);
    for (const status of capped) counts[status] = MOST_COUNTED;
    return { ...counts, capped };
  }

  /** Among these are all runs that match. `isOrdered`: the newest first. */
  #streams(filter: RunFilter, isAfter: (run: KeptRun) => boolean): readonly Stream[] {
    const tests = Object.entries(filter.attributes ?? {}).map(([name, test]) => this.#matching(name, meaningOf(test)));
    const [narrowest] = tests.toSorted((a, b) => a.count - b.count);
    return narrowest?.streams ?? [{ runs: this.#all.reversed(never, isAfter), isOrdered: true }];
  }
  #matching(name: string, meaning: Meaning): { readonly count: number; readonly streams: readonly Stream[] } {
    const isOrdered = meaning.kind === "values";
    const parts = partsOf(meaning).flatMap(({ type, isBelow, isWithin }) => {
      const list = this.#values.get(keyOf(name, type));
      return list === undefined ? [] : [{ count: list.count(isBelow, isWithin), runs: runsOf(list.reversed(isBelow, isWithin)) }];
    });
    return { count: parts.reduce((sum, { count }) => sum + count, 0), streams: parts.map(({ runs }) => ({ runs, isOrdered })) };
  }
}

interface Stream {
  readonly runs: Iterable<KeptRun>;
  readonly isOrdered: boolean;
}
function* runsOf(entries: Iterable<Entry>): Generator<KeptRun> {
  for (const { run } of entries) yield run;
}

const keyOf = (name: string, type: string): string => `${type} ${name}`;

/** Of one type. */
function compareValues(a: Scalar, b: Scalar): number {
  if (typeof a === "string" && typeof b === "string") return compareTexts(a, b);
  return a < b ? -1 : a > b ? 1 : 0;
}

interface Part {
  readonly type: string;
  readonly isBelow: (entry: Entry) => boolean;
  readonly isWithin: (entry: Entry) => boolean;
}
/** The parts of the index that have the values of a test, each from one place to another. */
function partsOf(meaning: Meaning): Part[] {
  if (meaning.kind === "values")
    return meaning.values.map((value) => ({
      type: typeof value,
      isBelow: (entry) => compareValues(entry.value, value) < 0,
      isWithin: (entry) => compareValues(entry.value, value) <= 0,
    }));
  if (meaning.kind === "prefix") {
    const { prefix } = meaning;
    const isBelow = ({ value }: Entry): boolean => compareValues(value, prefix) < 0;
    return [{ type: "string", isBelow, isWithin: (entry) => isBelow(entry) || beginsWith(String(entry.value), prefix) }];
  }
  const { type, low, high } = meaning;
  const isBelow = ({ value }: Entry): boolean => {
    const difference = low === undefined ? 1 : compareValues(value, low.value);
    return difference < 0 || (difference === 0 && low?.isInclusive === false);
  };
  const isWithin = ({ value }: Entry): boolean => {
    const difference = high === undefined ? -1 : compareValues(value, high.value);
    return difference < 0 || (difference === 0 && high?.isInclusive === true);
  };
  return [{ type, isBelow, isWithin }];
}

function matcher(filter: RunFilter): (run: KeptRun) => boolean {
  const { status, queue, key, schedule, version, parentId, idPrefix, since, until, finishedSince, finishedUntil } = filter;
  const workflows = typeof filter.workflow === "string" ? [filter.workflow] : filter.workflow;
  const tests = Object.entries(filter.attributes ?? {}).map(([name, test]) => [name, meaningOf(test)] as const);
  return (run) =>
    (status === undefined || status.includes(run.status)) &&
    (workflows === undefined || workflows.includes(run.workflow)) &&
    (version === undefined || version === run.version) &&
    (queue === undefined || queue === run.queue) &&
    (key === undefined || key === run.key) &&
    (schedule === undefined || schedule === run.schedule) &&
    (parentId === undefined || parentId === run.parent?.runId) &&
    (idPrefix === undefined || beginsWith(run.id, idPrefix)) &&
    (since === undefined || run.createdAt >= since) &&
    (until === undefined || run.createdAt < until) &&
    (finishedSince === undefined || (run.finishedAt !== undefined && run.finishedAt >= finishedSince)) &&
    (finishedUntil === undefined || (run.finishedAt !== undefined && run.finishedAt < finishedUntil)) &&
    tests.every(([name, meaning]) => passes(meaning, Object.hasOwn(run.attributes, name) ? run.attributes[name] : undefined));
}
