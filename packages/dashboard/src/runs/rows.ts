// The rows of the list while runs come and change: none of them ever moves.
// Owns: what a newer answer of the server changes in the rows on the screen. Pure.

import type { RunInfo } from "../api/types.ts";
import { isOpen } from "../base/statuses.ts";

export interface Rows {
  readonly shown: readonly RunInfo[];
  /** Runs that are not on the screen and would be, if the list were loaded now. */
  readonly newer: readonly RunInfo[];
  /** The page as the server has it now. */
  readonly latest: readonly RunInfo[];
  readonly cursor: string | null;
  /** The cursor of `latest`. */
  readonly latestCursor: string | null;
}

export const PAGE_SIZE = 50;

export function firstRows(runs: readonly RunInfo[], cursor: string | null): Rows {
  return { shown: runs, newer: [], latest: runs, cursor, latestCursor: cursor };
}

/** Rows stay where they are and get their present data; runs that are not among them are counted. */
export function withLatest(before: Rows, latest: readonly RunInfo[], latestCursor: string | null): Rows {
  const found = new Map(latest.map((run) => [run.id, run]));
  const shownIds = new Set(before.shown.map(({ id }) => id));
  const last = before.shown.at(-1);
  // With a full page, older runs move up in the answer when shown ones no longer match: they are not new.
  const isOlder = (run: RunInfo): boolean => before.shown.length >= PAGE_SIZE && last !== undefined && run.createdAt < last.createdAt;
  return {
    shown: updated(before.shown, found),
    newer: latest.filter((run) => !shownIds.has(run.id) && !isOlder(run)),
    latest,
    cursor: before.cursor,
    latestCursor,
  };
}

/** Open runs on the screen that the answer does not have: they have changed so that they no longer match, and are read one by one. */
export function missingFrom({ shown }: Rows, latest: readonly RunInfo[]): string[] {
  const ids = new Set(latest.map(({ id }) => id));
  return shown.filter(({ id, status }) => isOpen(status) && !ids.has(id)).map(({ id }) => id);
}
export function withRuns(rows: Rows, runs: readonly RunInfo[]): Rows {
  const found = new Map(runs.map((run) => [run.id, run]));
  return { ...rows, shown: updated(rows.shown, found) };
}
/** The same array, and the same row, where nothing has changed: what is drawn already is not drawn again. */
function updated(shown: readonly RunInfo[], found: ReadonlyMap<string, RunInfo>): readonly RunInfo[] {
  const rows = shown.map((run) => {
    const present = found.get(run.id) ?? run;
    return present === run || JSON.stringify(present) === JSON.stringify(run) ? run : present;
  });
  return rows.every((run, i) => run === shown[i]) ? shown : rows;
}
export const showNewer = ({ latest, latestCursor }: Rows): Rows => firstRows(latest, latestCursor);
