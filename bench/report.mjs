// Tables of medians, spreads and ratios. `node bench/report.mjs --markdown results.json` prints them for docs/performance.md,
// `--charts folder` draws what the same file holds.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { charts } from "./charts.mjs";
import { figureOf, isOurs, oursFor, ratioOf, shown, workloadOf } from "./figures.mjs";
import { contenders, stores, workloads } from "./plan.mjs";

function cellOf(result, metric, { size, ours }) {
  if (result === undefined) return "";
  const figure = figureOf(result, metric);
  if (figure === undefined) return "–";
  if (figure.median === undefined) return "failed";
  const spread = figure.high > figure.low ? ` (${shown(figure.low)} – ${shown(figure.high)})` : "";
  const smaller = result.size === size ? "" : `, of ${result.size.toLocaleString("en")}`;
  const ratio = ratioOf(ours, figure, metric, result.contender);
  const times = ratio === undefined || isOurs(result.contender) ? "" : ` · ${shown(ratio)} ×`;
  const failures = figure.failed === 0 ? "" : `, ${figure.failed} of ${result.rounds.length} failed`;
  return `${shown(figure.median)}${spread}${smaller}${failures}${times}`;
}

/** One table per store: a row for each metric, a column for each contender. */
export function tables({ results }) {
  return Object.entries(stores).flatMap(([store, title]) => {
    const here = results.filter((result) => result.store === store);
    const columns = Object.keys(contenders).filter((name) => here.some(({ contender }) => contender === name));
    if (columns.length === 0) return [];
    const rows = workloads.flatMap((workload) => {
      const group = here.filter((result) => workloadOf(result) === workload);
      const first = group.find(({ contender }) => isOurs(contender)) ?? group[0];
      if (first === undefined) return [];
      return workload.metrics
        .filter((metric) => group.some((result) => figureOf(result, metric) !== undefined))
        .map((metric) => {
          const cells = columns.map((name) => {
            const result = group.find(({ contender }) => contender === name);
            const rival = result && oursFor(result, group);
            return cellOf(result, metric, { size: first.size, ours: rival && figureOf(rival, metric) });
          });
          return [`${metric.label}${metric.unit === "" ? "" : `, ${metric.unit}`}`, ...cells];
        });
    });
    return [{ store, title, head: ["", ...columns.map((name) => contenders[name].label)], rows }];
  });
}

/** For a terminal: columns aligned. */
export function text(all) {
  return all
    .map(({ title, head, rows }) => {
      const lines = [head, ...rows];
      const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column].length)));
      const line = (cells) =>
        cells
          .map((cell, i) => cell.padEnd(widths[i]))
          .join("  ")
          .trimEnd();
      return [title, ...lines.map(line), ""].join("\n");
    })
    .join("\n");
}

/** For the docs: the table of each store under its chart. */
function markdown(all) {
  return all
    .map(({ store, title, head, rows }) => {
      const line = (cells) => `| ${cells.join(" | ")} |`.replace(/ {2,}/g, " ");
      const chart = `![${title}: Holdfast and its peers](performance/${store}.svg)`;
      return [
        `### ${title[0].toUpperCase()}${title.slice(1)}`,
        "",
        chart,
        "",
        line(head),
        `|${head.map(() => "---").join("|")}|`,
        ...rows.map(line),
        "",
      ].join("\n");
    })
    .join("\n");
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { markdown: { type: "boolean", default: false }, charts: { type: "string" } },
  });
  if (positionals.length !== 1) {
    console.error("Name the file that `npm run bench -- --json <file>` wrote: node bench/report.mjs [--markdown] [--charts folder] <file>");
    process.exit(2);
  }
  const report = JSON.parse(readFileSync(positionals[0], "utf8"));
  if (values.markdown && report.machine.quick) {
    console.error(
      "These results were measured with --quick, once and at a tenth of each size. Measure without --quick for figures to publish.",
    );
    process.exit(1);
  }
  console.log((values.markdown ? markdown : text)(tables(report)));
  if (values.charts === undefined) return;
  mkdirSync(values.charts, { recursive: true });
  for (const { name, svg } of charts(report)) writeFileSync(join(values.charts, `${name}.svg`), svg);
}

if (process.argv[1] === import.meta.filename) await main();
