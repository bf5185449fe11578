// The operations of a run as a treegrid of which only the rows in view exist.
// Each row tells, in `data-x` and `data-y`, where the middle of its bar is on the canvas (in CSS pixels from the canvas' corner), if it is
// drawn beside it.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { now } from "../api/call.ts";
import { duration } from "../base/times.ts";
import { endOf, type Operation } from "../timeline/model.ts";
import { loopName, type Row, rowName, type VisibleRow, visibleRows } from "../timeline/tree.ts";
import { Ago, Status } from "../ui/parts.tsx";
import { tick } from "../ui/tick.ts";
import type { RunModel } from "./model.ts";

const ROW_HEIGHT = 26;
const EXTRA_ROWS = 8;

export type PlaceOf = (operation: Operation) => { readonly x: number; readonly y: number; readonly status: string } | undefined;

interface GridProps {
  readonly model: RunModel;
  readonly placeOf?: PlaceOf;
  /** With times, durations and workers. */
  readonly isWide?: boolean;
  readonly search?: string;
}

export function OperationsGrid({ model, placeOf, isWide = false, search = "" }: GridProps) {
  const box = useRef<HTMLDivElement>(null);
  const scrollTop = useSignal(0);
  const height = useSignal(600);
  const tree = model.tree.value;
  const folded = model.folded.value;
  const rows = useMemo(() => {
    if (tree === undefined) return [];
    const words = search.toLowerCase();
    const matches = (row: Row): boolean =>
      row.operation !== undefined && `${rowName(row)} ${row.operation.location}`.toLowerCase().includes(words);
    return visibleRows(tree, folded, words === "" ? undefined : matches);
  }, [tree, folded, search]);
  const selectedKey = model.selectedKey.value;
  const at = rows.findIndex(({ row }) => row.key === selectedKey);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      height.value = element.clientHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (element === null || at < 0) return;
    const top = at * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_HEIGHT > element.scrollTop + element.clientHeight - ROW_HEIGHT)
      element.scrollTop = top - element.clientHeight + 2 * ROW_HEIGHT;
  }, [selectedKey, at]);

  const first = Math.max(0, Math.floor(scrollTop.value / ROW_HEIGHT) - EXTRA_ROWS);
  const last = Math.min(rows.length, Math.ceil((scrollTop.value + height.value) / ROW_HEIGHT) + EXTRA_ROWS);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (move(event.key, rows, at, model, Math.floor(height.value / ROW_HEIGHT))) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return (
    <div
      ref={box}
      class={isWide ? "grid wide-grid" : "grid"}
      role="treegrid"
      aria-label="Operations"
      aria-rowcount={rows.length}
      aria-activedescendant={at >= first && at < last && selectedKey !== undefined ? idOf(selectedKey) : undefined}
      tabIndex={0}
      style={{ height: `${Math.max(3, rows.length) * ROW_HEIGHT + 2}px` }}
      onKeyDown={onKeyDown}
      onScroll={({ currentTarget }) => {
        scrollTop.value = currentTarget.scrollTop;
      }}
    >
      <div class="grid-space" role="rowgroup" style={{ height: `${rows.length * ROW_HEIGHT}px` }}>
        {rows.slice(first, last).map((visible, i) => (
          <GridRow
            key={visible.row.key}
            visible={visible}
            index={first + i}
            isSelected={visible.row.key === selectedKey}
            model={model}
            placeOf={placeOf}
            isWide={isWide}
          />
        ))}
        {rows.length === 0 && search !== "" && (
          <div class="grid-row" role="row">
            <span role="gridcell" class="muted">
              No operation matches.
            </span>
          </div>
        )}
      </div>
    </div>
  );
}

const idOf = (key: string): string => `row-${encodeURIComponent(key)}`;

/** The keys of a treegrid. Whether the key was one of them. */
function move(key: string, rows: readonly VisibleRow[], at: number, model: RunModel, page: number): boolean {
  const current = rows[at];
  const go = (to: number): true => {
    const target = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    if (target !== undefined) model.select(target.row);
    return true;
  };
  switch (key) {
    case "ArrowDown":
      return go(at + 1);
    case "ArrowUp":
      return go(at < 0 ? rows.length - 1 : at - 1);
    case "Home":
      return go(0);
    case "End":
      return go(rows.length - 1);
    case "PageDown":
      return go(at + page);
    case "PageUp":
      return go(at - page);
    case "ArrowRight":
      if (current?.isExpanded === false) model.toggle(current.row.key, false);
      else if (current?.isExpanded === true) go(at + 1);
      return current !== undefined;
    case "ArrowLeft":
      if (current?.isExpanded === true) model.toggle(current.row.key, true);
      else if (current?.row.parent !== undefined) model.select(current.row.parent);
      return current !== undefined;
    default:
      return false;
  }
}

interface RowProps {
  readonly visible: VisibleRow;
  readonly index: number;
  readonly isSelected: boolean;
  readonly model: RunModel;
  readonly placeOf: PlaceOf | undefined;
  readonly isWide: boolean;
}

function GridRow({ visible: { row, level, isExpanded }, index, isSelected, model, placeOf, isWide }: RowProps) {
  const { operation, loop } = row;
  const place = operation === undefined ? undefined : placeOf?.(operation);
  const attempts = operation?.attempts.length ?? 0;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid handles the keys
    <div
      class="grid-row"
      role="row"
      id={idOf(row.key)}
      aria-label={rowName(row)}
      aria-level={level}
      aria-rowindex={index + 1}
      aria-selected={isSelected}
      aria-expanded={isExpanded}
      data-location={operation?.location ?? row.unit?.path}
      data-status={row.status}
      data-x={place?.x}
      data-y={place?.y}
      style={{ transform: `translateY(${index * ROW_HEIGHT}px)` }}
      onClick={() => {
        model.select(row);
        model.openDetails();
      }}
    >
      <span role="gridcell" class="what" style={{ paddingLeft: `${(level - 1) * 14}px` }}>
        <Twist isExpanded={isExpanded} toggle={() => model.toggle(row.key)} />
        <i class="dot" data-status={row.status} />
        <Label row={row} />
        {loop !== undefined && <span class="muted loop">{loopName(loop, operation)}</span>}
      </span>
      <span role="gridcell" class="count">
        {attempts > 1 && `${attempts}×`}
      </span>
      {isWide && operation !== undefined && <WideCells operation={operation} status={row.status} />}
      {!isWide && (
        <span role="gridcell" class="took">
          <Took operation={operation} />
        </span>
      )}
    </div>
  );
}

function Label({ row: { operation, label } }: { row: Row }) {
  if (operation === undefined) return <span class="unit-name">{label}</span>;
  const { kind, name } = operation;
  return (
    <span class="op-name">
      <span class="muted">{kind}</span>
      {name !== kind && ` ${name}`}
    </span>
  );
}

function Twist({ isExpanded, toggle }: { isExpanded: boolean | undefined; toggle: () => void }) {
  if (isExpanded === undefined) return <span class="twist" />;
  return (
    <span
      class="twist"
      aria-hidden="true"
      onClick={(event) => {
        event.stopPropagation();
        toggle();
      }}
    >
      {isExpanded ? "▾" : "▸"}
    </span>
  );
}

function Took({ operation }: { operation: Operation | undefined }) {
  if (operation === undefined) return null;
  if (operation.endedAt === undefined) tick.value;
  const ms = endOf(operation, now()) - operation.scheduledAt;
  return ms < 1 && operation.endedAt !== undefined ? null : duration(ms);
}

function WideCells({ operation, status }: { operation: Operation; status: string }) {
  return (
    <>
      <span role="gridcell" class="cell-status">
        <Status status={status} />
      </span>
      <span role="gridcell" class="cell-time">
        <Ago time={new Date(operation.scheduledAt).toISOString()} />
      </span>
      <span role="gridcell" class="took">
        <Took operation={operation} />
      </span>
      <span role="gridcell" class="cell-worker">
        {operation.attempts.at(-1)?.workerId}
      </span>
      <span role="gridcell" class="cell-error">
        {operation.error !== undefined &&
          `${operation.error.name}: ${typeof operation.error.message === "string" ? operation.error.message : "…"}`}
      </span>
    </>
  );
}
