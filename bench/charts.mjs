// Bar charts as SVG, one per store: a panel for each workload, a bar for each contender. No dependency; the colours follow the reader's
// light or dark scheme.

import { figureOf, isOurs, oursFor, ratioOf, shown, workloadOf } from "./figures.mjs";
import { contenders, stores, workloads } from "./plan.mjs";

const WIDTH = 760;
const LABELS = 170;
const FIGURES = 190;
const BARS = WIDTH - LABELS - FIGURES;
const BAR = 18;
const GAP = 6;
const PANEL_HEAD = 34;
const PANEL_FOOT = 14;
const LEGEND = 24;
/** From this ratio on the scale is logarithmic, because linear bars would hide the smaller values. */
const LOG_FROM = 20;

export const STYLE = `
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; font-size: 13px; }
  .quiet { fill: #57606a; }
  .ours { fill: #0969da; } .raw { fill: #8c959f; } .peer { fill: #d4772c; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet { fill: #9198a1; }
    .ours { fill: #4493f8; } .raw { fill: #6e7681; } .peer { fill: #db8a45; }
  }`;

export const escaped = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
const kindOf = (contender) => (isOurs(contender) ? "ours" : contender === "raw" ? "raw" : "peer");

/** The length of bars: linear from zero, or, if the values differ a lot, logarithmic from a tenth of the smallest. */
function scaleOf(values) {
  const high = Math.max(...values);
  const low = Math.min(...values);
  const log = high / low >= LOG_FROM;
  const from = low / 10;
  const length = (value) => (log ? Math.log(value / from) / Math.log(high / from) : value / high);
  return { log, length: (value) => Math.max(2, length(value) * BARS) };
}

function bar({ result, figure, ours }, y, { scale, metric, size }) {
  const times = kindOf(result.contender) === "ours" ? undefined : ratioOf(ours, figure, metric, result.contender);
  const smaller = result.size === size ? "" : `, of ${result.size.toLocaleString("en")}`;
  const note = `${shown(figure.median)} ${metric.unit}${smaller}${times === undefined ? "" : ` · ${shown(times)} ×`}`;
  const length = scale.length(figure.median);
  const middle = y + BAR - 5;
  return [
    `<text x="${LABELS - 8}" y="${middle}" text-anchor="end">${escaped(contenders[result.contender].label)}</text>`,
    `<rect class="${kindOf(result.contender)}" x="${LABELS}" y="${y}" width="${length.toFixed(1)}" height="${BAR}" rx="2"/>`,
    `<text x="${(LABELS + length + 6).toFixed(1)}" y="${middle}">${escaped(note)}</text>`,
  ].join("\n");
}

/** The title and the bars of one figure of a workload; undefined if there is nothing to draw. */
function panel(metric, results, top) {
  const figures = results.map((result) => ({ result, figure: figureOf(result, metric) })).filter(({ figure }) => figure?.median > 0);
  const [first] = figures;
  if (first === undefined) return undefined;
  const scale = scaleOf(figures.map(({ figure }) => figure.median));
  const remark = `${metric.better} is better${scale.log ? "; logarithmic" : ""}`;
  const context = { scale, metric, size: first.result.size };
  const drawn = figures.map(({ result }) => result);
  const oursOf = ({ result }) => {
    const rival = oursFor(result, drawn);
    return rival && figureOf(rival, metric);
  };
  const bars = figures.map((each, i) => bar({ ...each, ours: oursOf(each) }, top + PANEL_HEAD + i * (BAR + GAP), context));
  const title = `<text class="title" x="0" y="${top + 18}">${escaped(metric.label)} <tspan class="quiet" font-weight="400">${escaped(`(${remark})`)}</tspan></text>`;
  return { svg: [title, ...bars].join("\n"), height: PANEL_HEAD + figures.length * (BAR + GAP) + PANEL_FOOT };
}

function chart(store, results) {
  const panels = [];
  let top = 0;
  for (const workload of workloads) {
    const here = results.filter((result) => workloadOf(result) === workload);
    for (const metric of workload.metrics.filter(({ charted }, i) => i === 0 || charted)) {
      const drawn = panel(metric, here, top);
      if (drawn === undefined) continue;
      panels.push(drawn.svg);
      top += drawn.height;
    }
  }
  const title = `Holdfast and its peers: ${stores[store]}`;
  const height = top + LEGEND;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">
<title>${escaped(title)}</title>
<style>${STYLE}</style>
${panels.join("\n")}
<text class="quiet" x="0" y="${top + 14}">× for a peer: how many times better Holdfast is; for raw: how many times more Holdfast takes.</text>
</svg>
`;
}

/** A chart for each store with results. */
export function charts({ results }) {
  return Object.keys(stores)
    .map((store) => ({ name: store, here: results.filter((result) => result.store === store) }))
    .filter(({ here }) => here.length > 0)
    .map(({ name, here }) => ({ name, svg: chart(name, here) }));
}
