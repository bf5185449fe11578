import { expect, test } from "vitest";
import type { RunInfo } from "../src/api/types.ts";
import { firstRows, missingFrom, PAGE_SIZE, showNewer, withLatest, withRuns } from "../src/runs/rows.ts";
import { at } from "./fixtures.ts";

const run = (number: number, status: RunInfo["status"] = "running"): RunInfo =>
  ({ id: `r-${number}`, status, createdAt: at(number) }) as unknown as RunInfo;
const ids = (runs: readonly RunInfo[]): string[] => runs.map(({ id }) => id);

test("rows keep their places and get new data; new runs are counted until they are asked for", () => {
  const first = firstRows([run(3), run(2), run(1)], null);
  const next = withLatest(first, [run(5), run(4), run(3, "completed"), run(2), run(1)], "c");
  expect(ids(next.shown)).toEqual(["r-3", "r-2", "r-1"]);
  expect(next.shown[0]?.status).toBe("completed");
  expect(ids(next.newer)).toEqual(["r-5", "r-4"]);
  const shown = showNewer(next);
  expect(ids(shown.shown)).toEqual(["r-5", "r-4", "r-3", "r-2", "r-1"]);
  expect(shown.cursor).toBe("c");
  expect(shown.newer).toEqual([]);
});

test("rows that have not changed are the same ones, so that they are not drawn again", () => {
  const first = firstRows([run(3), run(2), run(1)], null);
  const same = withLatest(first, [run(4), run(3), run(2)], null);
  expect(same.shown).toBe(first.shown);
  const next = withLatest(first, [run(3, "completed"), run(2)], null);
  expect(next.shown).not.toBe(first.shown);
  expect([next.shown[0] === first.shown[0], next.shown[1] === first.shown[1]]).toEqual([false, true]);
});

test("older runs that move up on a full page are not new", () => {
  const page = Array.from({ length: PAGE_SIZE }, (_, i) => run(1_000 - i));
  const rows = firstRows(page, "next");
  const latest = [...page.slice(1), run(1_000 - PAGE_SIZE)];
  expect(withLatest(rows, latest, "next").newer).toEqual([]);
});

test("open rows that no longer match are read one by one", () => {
  const rows = firstRows([run(3), run(2, "completed"), run(1)], null);
  expect(missingFrom(rows, [run(3)])).toEqual(["r-1"]);
  expect(withRuns(rows, [run(1, "failed")]).shown[2]?.status).toBe("failed");
});
