// The operations of a run as a tree of rows: units hold operations, and scopes (join, race, loop …) hold units.
// Owns: the tree, its rows, and the names of rows. Pure.

import { nameOfStatus } from "../base/statuses.ts";
import { plural } from "../base/times.ts";
import { isScope, type Loop, lastSegment, type Operation, scopeOf, type Timeline, titleOf, type Unit } from "./model.ts";

export interface Row {
  /** `o:` and a number, or `u:` and a path. */
  readonly key: string;
  readonly operation: Operation | undefined;
  readonly unit: Unit | undefined;
  readonly loop: Loop | undefined;
  readonly children: readonly Row[];
  readonly parent: Row | undefined;
  readonly label: string;
  readonly status: string;
}
export interface VisibleRow {
  readonly row: Row;
  /** From 1. */
  readonly level: number;
  readonly isExpanded: boolean | undefined;
}
interface Draft extends Row {
  children: Draft[];
  parent: Draft | undefined;
}
export interface Tree {
  readonly roots: readonly Row[];
  readonly byKey: ReadonlyMap<string, Row>;
  readonly byLocation: ReadonlyMap<string, Row>;
}

/** Loops and receives with more units than this begin folded. */
const FOLDED_FROM = 8;

export function treeOf(timeline: Timeline): Tree {
  const loops = new Map(timeline.loops.map((loop) => [loop.location, loop]));
  const byKey = new Map<string, Draft>();
  const byLocation = new Map<string, Draft>();
  const units = new Map(timeline.units.map((unit) => [unit.path, unit]));
  for (const operation of timeline.operations) {
    const row = draft(`o:${operation.seq}`, titleOf(operation), operation.status, { operation, loop: loops.get(operation.location) });
    byKey.set(row.key, row);
    byLocation.set(operation.location, row);
  }
  const roots: Draft[] = [];
  const homes = new Map<string, Draft | undefined>();
  /** The row that the operations of a unit are under; undefined: they are at the top. */
  const homeOf = (path: string): Draft | undefined => {
    if (path === "") return undefined;
    if (homes.has(path)) return homes.get(path);
    const unit = units.get(path);
    const scope = scopeOf(path);
    const above = byLocation.get(scope) ?? (scope === "" ? undefined : homeOf(scope));
    // The body of a `try` or `shield` is the only unit of its scope: its operations are directly under it.
    if (unit?.role === "body" && above !== undefined) {
      homes.set(path, above);
      return above;
    }
    const row = draft(`u:${path}`, unitLabel(path, unit), unit?.status ?? "completed", { unit });
    byKey.set(row.key, row);
    adopt(above, row, roots);
    homes.set(path, row);
    return row;
  };
  for (const operation of timeline.operations) {
    const row = byLocation.get(operation.location);
    // A location has one row: an operation that a resumed run repeats replaces the earlier one.
    if (row !== undefined && row.operation === operation) adopt(homeOf(operation.unit), row, roots);
  }
  // Units without an operation of their own, so that a branch that only waits is not missing.
  for (const unit of timeline.units) if (unit.role === "branch") homeOf(unit.path);
  return { roots, byKey, byLocation };
}

function draft(
  key: string,
  label: string,
  status: string,
  of: { operation?: Operation; unit?: Unit | undefined; loop?: Loop | undefined },
): Draft {
  return { key, label, status, operation: of.operation, unit: of.unit, loop: of.loop, children: [], parent: undefined };
}
function adopt(parent: Draft | undefined, child: Draft, roots: Draft[]): void {
  child.parent = parent;
  (parent?.children ?? roots).push(child);
}

function unitLabel(path: string, unit: Unit | undefined): string {
  const last = lastSegment(path);
  const number = /^~(\D*)(\d+)$/.exec(last)?.[2];
  switch (unit?.role) {
    case "iteration":
      return `iteration ${number ?? last}`;
    case "handler":
      return `message ${number ?? last}`;
    case "async":
      return "async handler";
    case "branch":
      return number === undefined ? `branch ${last}` : `branch ${number}`;
    case "body":
    case "root":
    case undefined:
      return last === "~rollback" ? "rollback" : last;
  }
}

/** The keys of rows that begin folded. */
export function initiallyFolded(tree: Tree): Set<string> {
  const folded = new Set<string>();
  for (const { key, operation, children, loop } of tree.byKey.values()) {
    const isLong = children.length > FOLDED_FROM || (loop?.iterations ?? 0) > FOLDED_FROM;
    if (operation !== undefined && isLong && (operation.kind === "loop" || operation.kind === "receive")) folded.add(key);
  }
  return folded;
}

/** The rows that are to be seen, in order. */
export function visibleRows(tree: Tree, folded: ReadonlySet<string>, matches?: (row: Row) => boolean): VisibleRow[] {
  const rows: VisibleRow[] = [];
  const visit = (row: Row, level: number): void => {
    const isExpanded = row.children.length === 0 ? undefined : !folded.has(row.key) || matches !== undefined;
    if (matches === undefined || matches(row))
      rows.push({ row, level: matches === undefined ? level : 1, isExpanded: matches === undefined ? isExpanded : undefined });
    if (isExpanded === true) for (const child of row.children) visit(child, level + 1);
  };
  for (const root of tree.roots) visit(root, 1);
  return rows;
}

/** The accessible name: `step charge, failed, 3 attempts`. */
export function rowName({ label, status, operation, loop }: Row): string {
  const parts = [label, nameOfStatus(status)];
  if (operation !== undefined && operation.attempts.length > 0) parts.push(plural(operation.attempts.length, "attempt"));
  if (loop !== undefined) parts.push(loopName(loop, operation));
  return parts.join(", ");
}
export function loopName(loop: Loop, operation: Operation | undefined): string {
  const count = operation?.kind === "receive" ? plural(loop.iterations, "message") : plural(loop.iterations, "iteration");
  return loop.failed === 0 ? count : `${count}, ${loop.failed.toLocaleString("en-US")} failed`;
}

/** Rows above it that are folded, the nearest first. */
export function foldedAbove(row: Row, folded: ReadonlySet<string>): string[] {
  const found: string[] = [];
  for (let one = row.parent; one !== undefined; one = one.parent) if (folded.has(one.key)) found.push(one.key);
  return found;
}

/** From `from` on in the order of rows, folded ones included: the next or previous row that passes. */
export function nextRow(tree: Tree, from: Row | undefined, step: 1 | -1, passes: (row: Row) => boolean): Row | undefined {
  const all = allRows(tree);
  let at = from === undefined ? (step === 1 ? -1 : all.length) : all.indexOf(from);
  for (at += step; at >= 0 && at < all.length; at += step) {
    const row = all[at];
    if (row !== undefined && passes(row)) return row;
  }
  return undefined;
}
const orders = new WeakMap<Tree, Row[]>();
function allRows(tree: Tree): Row[] {
  let rows = orders.get(tree);
  if (rows === undefined) {
    rows = [];
    const visit = (row: Row): void => {
      rows?.push(row);
      for (const child of row.children) visit(child);
    };
    for (const root of tree.roots) visit(root);
    orders.set(tree, rows);
  }
  return rows;
}

export const isOperationRow = (row: Row): boolean => row.operation !== undefined;
export const isFailure = ({ operation }: Row): boolean =>
  operation !== undefined &&
  !isScope(operation) &&
  (operation.status === "failed" || operation.attempts.some(({ status }) => status === "failed" || status === "lost"));
