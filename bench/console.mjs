// npm run bench:console [-- --only list,dev …] [-- --quick]: what the console costs and how quick it is, beside the goals of its design.
// Every figure is taken from the outside: commands as processes, the HTTP API over a socket, the page in a real Chromium.
// Ends with 1 if a figure is three times worse than its goal. `--quick` has a hundredth of the runs: it shows that the measurement works, not how quick the console is.

import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { withProgress } from "../scripts/progress.mjs";
import { costOfOpenPage } from "./console/cost.mjs";
import { crowdFigures } from "./console/crowd.mjs";
import { devFigures } from "./console/dev.mjs";
import { operationsFigures } from "./console/operations.mjs";
import { replayFigures } from "./console/replay.mjs";
import { sizeFigures } from "./console/size.mjs";

/** @typedef {{ name: string, value: number, unit: string, goal?: number, isLeast?: boolean, note?: string }} Figure */

const PARTS = {
  size: ["The size of the page", sizeFigures],
  dev: ["holdfast dev", devFigures],
  replay: ["holdfast replay", replayFigures],
  operations: ["A run of 10,000 operations", operationsFigures],
  crowd: ["A million runs", crowdFigures],
  cost: ["W1 beside an open page", costOfOpenPage],
};

const { values } = parseArgs({
  options: { only: { type: "string" }, quick: { type: "boolean", default: false }, json: { type: "boolean", default: false } },
});
const names = values.only?.split(",") ?? Object.keys(PARTS);
const unknown = names.filter((name) => !(name in PARTS));
if (unknown.length > 0) {
  console.error(`There is no part ${unknown.join(", ")}. Parts: ${Object.keys(PARTS).join(", ")}.`);
  process.exit(2);
}

/** @param {Figure} figure */
function line({ name, value, unit, goal, isLeast = false, note }) {
  // A goal is compared as it is printed: frames at 60 Hz take 16.67 ms, which is the goal of 16.7 ms.
  const rounded = (/** @type {number} */ figure) => (figure >= 100 ? Math.round(figure) : Number(figure.toPrecision(3)));
  const shown = (/** @type {number} */ figure) => `${rounded(figure).toLocaleString("en")} ${unit}`;
  const isMet = goal === undefined || (isLeast ? rounded(value) >= rounded(goal) : rounded(value) <= rounded(goal));
  const aim = goal === undefined ? "" : `${isLeast ? "at least" : "at most"} ${shown(goal)}${isMet ? "" : "  (missed)"}`;
  return `| ${name}${note === undefined ? "" : `, ${note}`} | ${shown(value)} | ${aim} |`;
}

/** @type {Figure[]} */
const figures = [];
for (const name of names) {
  const [what, measure] = PARTS[/** @type {keyof typeof PARTS} */ (name)];
  figures.push(...(await withProgress(what, () => measure({ isQuick: values.quick }))));
}
if (values.json) console.log(JSON.stringify(figures, null, 2));
else
  console.log(
    [
      `Node ${process.versions.node}, ${availableParallelism()} cores`,
      "",
      "| | measured | goal |",
      "|---|---|---|",
      ...figures.map(line),
    ].join("\n"),
  );
const isFar = (/** @type {Figure} */ { value, goal, isLeast = false }) =>
  goal !== undefined && (isLeast ? value * 3 < goal : value > goal * 3);
process.exitCode = !values.quick && figures.some(isFar) ? 1 : 0;
