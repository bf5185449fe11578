// What everything on the canvas shares: the part of the timeline that is in view, colours, and text that fits.
// Owns: the palettes of both themes, and the room for the names of lanes and for the ruler. Pure.

import type { Theme } from "../base/statuses.ts";

export interface Viewport {
  /** In CSS pixels, ruler and labels of lanes included. */
  readonly width: number;
  readonly height: number;
  readonly scale: number;
  /** What of the layout is at the left edge, in pixels at this scale. */
  readonly scrollX: number;
  readonly scrollY: number;
}
export interface Palette {
  readonly background: string;
  readonly stripe: string;
  readonly line: string;
  readonly text: string;
  readonly muted: string;
  readonly accent: string;
  readonly workers: readonly string[];
}

export const PALETTES: Readonly<Record<Theme, Palette>> = {
  light: {
    background: "#ffffff",
    stripe: "#f7f8fa",
    line: "#e3e6eb",
    text: "#1d2430",
    muted: "#5b6472",
    accent: "#3557d6",
    workers: ["#cfdcf7", "#d9efdf", "#f3e2c7", "#e7dbf5", "#d3edf0", "#f5d9dd"],
  },
  dark: {
    background: "#15181d",
    stripe: "#1a1e24",
    line: "#2a3038",
    text: "#e6e9ee",
    muted: "#9aa4b2",
    accent: "#8fb0ff",
    workers: ["#2b3c5e", "#24493a", "#4f4226", "#40335c", "#20474d", "#532f36"],
  },
};

export const RULER = 24;

/** The width of the names of lanes at the left. */
export const gutterOf = (width: number): number => (width < 480 ? 64 : 116);
export const placeOf = (x: number, { scale, scrollX, width }: Viewport): number => gutterOf(width) + x * scale - scrollX;

/** The text, or as much of it as there is room for. */
export function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (width < 8) return "";
  if (context.measureText(text).width <= width) return text;
  let length = Math.floor((text.length * width) / context.measureText(text).width);
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, Math.max(1, length))}…`;
}
