import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { STATUS_COLOURS, type Theme } from "../src/base/statuses.ts";

const css = readFileSync(new URL("../src/styles/base.css", import.meta.url), "utf8");
const [light = "", dark = ""] = css.split(':root[data-theme="dark"]');
const variable = (theme: Theme, name: string): string =>
  new RegExp(`--${name}: (#[0-9a-f]{6})`).exec(theme === "light" ? light : dark)?.[1] ?? "";

/** The contrast of WCAG 2. */
function contrast(a: string, b: string): number {
  const luminance = (colour: string): number => {
    const [r = 0, g = 0, blue = 0] = [1, 3, 5]
      .map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * blue;
  };
  const [low = 0, high = 0] = [luminance(a), luminance(b)].toSorted((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

test.each(["light", "dark"] as const)("in the %s theme a status can be read on every background, also in a selected row", (theme) => {
  for (const background of ["background", "panel", "hover", "accent-soft", "warning-soft"])
    for (const [status, colours] of Object.entries(STATUS_COLOURS)) {
      const found = contrast(colours[theme], variable(theme, background));
      expect({ status, background, isReadable: found >= 4.5 }).toEqual({ status, background, isReadable: true });
    }
});
