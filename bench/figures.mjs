// Summarizes the rounds of a measurement: medians, ranges and ratios.

import { contenders, workloads } from "./plan.mjs";
import { median } from "./statistics.mjs";

export const workloadOf = ({ workload, part }) => workloads.find(({ id, part: own }) => id === workload && own === part);
/** The first metric of a workload that the result contains. */
export function mainMetric(measurement, result) {
  const { metrics } = workloadOf(measurement);
  return metrics.find(({ key }) => typeof result[key] === "number") ?? metrics[0];
}
export const isOurs = (contender) => contender.startsWith("holdfast");

/** The result of Holdfast that a result is compared with: that of the variant it names, or the first. Undefined if there is none. */
export function oursFor({ contender }, results) {
  const { against } = contenders[contender];
  return results.find((result) => result.contender === against) ?? results.find((result) => isOurs(result.contender));
}

export function shown(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** The median and the range of one metric over the rounds of a measurement, and how many rounds failed. */
export function figureOf({ rounds }, { key }) {
  const values = rounds.map((round) => round[key]).filter((value) => typeof value === "number");
  const failed = rounds.filter((round) => round.failed !== undefined).length;
  if (values.length > 0) return { median: median(values), low: Math.min(...values), high: Math.max(...values), failed };
  return failed === 0 ? undefined : { failed };
}

/** For a peer, how many times better Holdfast is; for the raw limit, how many times more Holdfast takes. */
export function ratioOf(ours, theirs, { better }, contender) {
  if (better === undefined || ours?.median === undefined || theirs?.median === undefined) return undefined;
  const asGood = better === "more" ? ours.median / theirs.median : theirs.median / ours.median;
  return contender === "raw" ? 1 / asGood : asGood;
}
