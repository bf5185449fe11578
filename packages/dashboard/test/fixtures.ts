// Timelines for the tests of pure code: as the API gives them, with times in seconds after the beginning.

import type { Timeline as TimelineJson } from "../src/api/types.ts";
import { readTimeline, type Timeline } from "../src/timeline/model.ts";

export const BEGIN = Date.parse("2026-01-01T00:00:00.000Z");
export const at = (seconds: number): string => new Date(BEGIN + seconds * 1_000).toISOString();

type OperationJson = TimelineJson["operations"][number];
type AttemptJson = OperationJson["attempts"][number];

let seq = 0;
export function attempt(number: number, from: number, to: number | undefined, status: AttemptJson["status"] = "completed"): AttemptJson {
  return { number, status, startedAt: at(from), endedAt: to === undefined ? null : at(to), workerId: "w-1" };
}
export function operation(location: string, from: number, to: number | undefined, more: Partial<OperationJson> = {}): OperationJson {
  const slash = location.lastIndexOf("/");
  return {
    seq: seq++,
    turn: 0,
    location,
    unit: slash < 0 ? "" : location.slice(0, slash),
    kind: "step",
    name: location.slice(slash + 1),
    status: to === undefined ? "running" : "completed",
    scheduledAt: at(from),
    endedAt: to === undefined ? null : at(to),
    wakeAt: null,
    retryAt: null,
    childId: null,
    error: null,
    attempts: [],
    ...more,
  };
}
export function unit(path: string, role: TimelineJson["units"][number]["role"], parent: string | null = ""): TimelineJson["units"][number] {
  return { path, role, parent, startedAt: at(0), endedAt: null, status: "running" };
}
export function timelineJson(more: Partial<TimelineJson>): TimelineJson {
  return {
    execution: 1,
    lastTurn: 0,
    complete: true,
    turns: [],
    units: [unit("", "root", null)],
    operations: [],
    loops: [],
    messages: [],
    ...more,
  };
}
export const timeline = (more: Partial<TimelineJson>): Timeline => readTimeline(timelineJson(more));
