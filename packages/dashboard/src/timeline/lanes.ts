// The lanes of a timeline: which unit is drawn where.
// Owns: the grouping of units into lanes, and their order. Pure.
// Invariants: the number of lanes follows from the code, not from how often it ran: iterations of a loop follow one another and share a lane,
// so do the messages of a receive, and the body of a `try` or `shield` is drawn in the lane around it. Branches have lanes of their own.

import { lastSegment, type Operation, scopeOf, type Timeline, type Unit } from "./model.ts";

export interface LaneGroup {
  readonly key: string;
  readonly label: string;
  readonly depth: number;
  readonly operations: Operation[];
  readonly children: LaneGroup[];
}

export function lanesOf(timeline: Timeline): { readonly root: LaneGroup; readonly others: readonly LaneGroup[] } {
  const units = new Map(timeline.units.map((unit) => [unit.path, unit]));
  const root: LaneGroup = { key: "", label: "root", depth: 0, operations: [], children: [] };
  const others: LaneGroup[] = [];
  const byKey = new Map<string, LaneGroup>([["", root]]);
  const byUnit = new Map<string, LaneGroup>([["", root]]);

  const laneOf = (path: string): LaneGroup => {
    const known = byUnit.get(path);
    if (known !== undefined) return known;
    const unit = units.get(path);
    const found = unit?.role === "body" && scopeOf(path) !== "" ? laneOf(parentOf(path, unit)) : ownLane(path, unit);
    byUnit.set(path, found);
    return found;
  };
  const ownLane = (path: string, unit: Unit | undefined): LaneGroup => {
    const scope = scopeOf(path);
    if (scope === "") return laneAt(path, undefined, labelOf(path));
    const above = laneOf(parentOf(path, unit));
    const name = lastSegment(scope);
    switch (unit?.role) {
      case "iteration":
      case "handler":
        return laneAt(`${above.key}/${name}/*`, above, name);
      case "async":
        return laneAt(`${above.key}/*async`, above, `${above.label} async`);
      case "branch":
      case "body":
      case "root":
      case undefined:
        return laneAt(path, above, `${name}/${lastSegment(path).replace(/^~/, "")}`);
    }
  };
  const laneAt = (key: string, above: LaneGroup | undefined, label: string): LaneGroup => {
    const known = byKey.get(key);
    if (known !== undefined) return known;
    const lane: LaneGroup = { key, label, depth: above === undefined ? 0 : above.depth + 1, operations: [], children: [] };
    byKey.set(key, lane);
    (above?.children ?? others).push(lane);
    return lane;
  };
  for (const operation of timeline.operations) laneOf(operation.unit).operations.push(operation);
  return { root, others };
}

function parentOf(path: string, unit: Unit | undefined): string {
  return unit?.parent ?? scopeOf(scopeOf(path));
}
function labelOf(path: string): string {
  return path === "~rollback" ? "rollback" : lastSegment(path);
}
