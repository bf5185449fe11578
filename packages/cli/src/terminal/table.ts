// Tables that fit the terminal.
// Owns: the widths of columns, and which of them give way when there is not enough room.
// Invariants: a line is never wider than the terminal; every cell is one line, and safe to show; the first column goes last.

import type { Colours } from "./colours.ts";
import { printable } from "./escape.ts";
import { cut, pad, widthOf } from "./width.ts";

export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => string | number | null | undefined;
  /** Those with a higher number become narrower first, and are left out first. Default 1. */
  readonly yields?: number;
  /** Narrower than this it is left out. Default: 8, or its natural width if that is less. */
  readonly least?: number;
  readonly align?: "left" | "right";
  /** Colours the cell, after it was cut and padded. */
  readonly paint?: (text: string, row: Row) => string;
}

const GAP = 2;
const LEAST = 8;

interface Placed<Row> {
  readonly column: Column<Row>;
  readonly cells: readonly string[];
  readonly natural: number;
  width: number;
}

/** The lines, with a heading. */
export function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { width, colours }: { readonly width: number | undefined; readonly colours: Colours },
): string[] {
  const placed = columns.map((column): Placed<Row> => {
    const cells = rows.map((row) => printable(String(column.value(row) ?? "")));
    const natural = Math.max(widthOf(column.title), ...cells.map(widthOf));
    return { column, cells, natural, width: natural };
  });
  const shown = width === undefined ? placed : fitted(placed, width);
  const line = (cell: (one: Placed<Row>, isLast: boolean) => string): string =>
    shown
      .map((one, i) => cell(one, i === shown.length - 1))
      .join(" ".repeat(GAP))
      .trimEnd();
  const heading = line(({ column, width: room }, isLast) =>
    colours.dim(isLast && column.align !== "right" ? cut(column.title, room) : pad(cut(column.title, room), room, sideOf(column))),
  );
  return [
    heading,
    ...rows.map((row, i) =>
      line(({ column, cells, width: room }, isLast) => {
        const text = cut(cells[i] ?? "", room);
        const cell = isLast && column.align !== "right" ? text : pad(text, room, sideOf(column));
        return column.paint === undefined || text === "" ? cell : cell.replace(text, () => column.paint?.(text, row) ?? text);
      }),
    ),
  ];
}

function sideOf<Row>({ align }: Column<Row>): "left" | "right" {
  return align === "right" ? "left" : "right";
}

function fitted<Row>(placed: readonly Placed<Row>[], width: number): Placed<Row>[] {
  const kept = [...placed];
  for (;;) {
    const excess = totalOf(kept) - width;
    if (excess <= 0) return kept;
    // By how readily they yield; of equals the widest first.
    const order = kept.slice(1).toSorted((a, b) => yieldsOf(b) - yieldsOf(a) || b.width - a.width);
    const narrower = order.find((one) => one.width > leastOf(one));
    const dropped = order[0];
    if (narrower !== undefined) narrower.width = Math.max(leastOf(narrower), narrower.width - excess);
    else if (dropped !== undefined) {
      kept.splice(kept.indexOf(dropped), 1);
      for (const one of kept) one.width = one.natural; // they share the room that it leaves
    } else {
      const [first] = kept;
      if (first !== undefined) first.width = Math.max(1, width);
      return kept;
    }
  }
}

const totalOf = <Row>(placed: readonly Placed<Row>[]): number => placed.reduce((sum, { width }) => sum + width + GAP, -GAP);
const yieldsOf = <Row>({ column }: Placed<Row>): number => column.yields ?? 1;
const leastOf = <Row>({ column, natural }: Placed<Row>): number => Math.min(natural, column.least ?? LEAST);

/** Names and values below each other. A value of several lines is indented. */
export function fields(pairs: readonly (readonly [name: string, value: string | undefined])[], colours: Colours): string[] {
  const present = pairs.flatMap(([name, value]) => (value === undefined || value === "" ? [] : [[name, value] as const]));
  const width = Math.max(0, ...present.map(([name]) => widthOf(name)));
  return present.map(([name, value]) => `${colours.dim(pad(name, width))}  ${value.replaceAll("\n", `\n${" ".repeat(width + GAP)}`)}`);
}
