// node bench/overview.mjs: draws docs/performance/overview.svg, the chart of the README, from the tables of docs/performance.md: runs of five
// steps per second (W1), one bar for each engine and store. So the chart can't say anything else than the page does.

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { escaped, STYLE } from "./charts.mjs";

const docs = join(resolve(import.meta.dirname, ".."), "docs");

/** The groups of the chart: the heading of the page that has the table, and what is left out of it. */
const GROUPS = [
  { heading: "SQLite", title: "on a SQLite file", leaves: ["raw", "Holdfast, NORMAL"] },
  { heading: "PostgreSQL", title: "on PostgreSQL (Restate: its own server and log)", leaves: ["raw"] },
  {
    heading: "On Temporal",
    title: "on Temporal's development server, in memory",
    leaves: ["Holdfast, local steps", "SDK, local activities", ""],
  },
];
const WIDTH = 760;
const LABELS = 170;
const NOTES = 150;
const BAR = 18;
const GAP = 6;
const HEAD = 30;
const FOOT = 12;

const cells = (line) =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());

/** What the row W1 of the table under a heading says: the engines, and their runs per second. */
function figuresUnder(page, { heading, leaves }) {
  const section = page.split(/^### /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("|"));
  const figures = rows.find((line) => /^\| W1,? runs of 5 steps/.test(line));
  if (rows[0] === undefined || figures === undefined) throw new Error(`docs/performance.md has no row W1 under "${heading}".`);
  const [, ...values] = cells(figures);
  return cells(rows[0])
    .slice(1)
    .map((name, i) => ({ name, figure: Number(/^[\d,.]+/.exec(values[i] ?? "")?.[0].replaceAll(",", "")) }))
    .filter(({ name, figure }) => !leaves.includes(name) && figure > 0);
}

function drawn(page) {
  const groups = GROUPS.map((group) => ({ ...group, bars: figuresUnder(page, group) }));
  const high = Math.max(...groups.flatMap(({ bars }) => bars.map(({ figure }) => figure)));
  const parts = [];
  let top = 0;
  for (const { title, bars } of groups) {
    parts.push(`<text class="title" x="0" y="${top + 18}">${escaped(title)}</text>`);
    top += HEAD;
    for (const { name, figure } of bars) {
      const length = Math.max(1.5, (figure / high) * (WIDTH - LABELS - NOTES));
      const kind = name === "Holdfast" ? "ours" : "peer";
      parts.push(
        `<text x="${LABELS - 8}" y="${top + BAR - 5}" text-anchor="end">${escaped(name)}</text>`,
        `<rect class="${kind}" x="${LABELS}" y="${top}" width="${length.toFixed(1)}" height="${BAR}" rx="2"/>`,
        `<text x="${(LABELS + length + 6).toFixed(1)}" y="${top + BAR - 5}">${escaped(`${figure.toLocaleString("en")} runs/s`)}</text>`,
      );
      top += BAR + GAP;
    }
    top += FOOT;
  }
  const label = "Runs of five steps per second: Holdfast and its peers";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top}" width="${WIDTH}" height="${top}" role="img" aria-label="${label}">
<title>${label}</title>
<style>${STYLE}</style>
${parts.join("\n")}
</svg>
`;
}

writeFileSync(join(docs, "performance", "overview.svg"), drawn(readFileSync(join(docs, "performance.md"), "utf8")));
