// A report for the machines of others: JUnit and GitHub annotations.
// Owns: these two formats.
// Invariants: user text is escaped; what XML can't hold is replaced.

import type { ReplayOutcome } from "./protocol.ts";
import type { ReplayGroup } from "./report.ts";

// ── JUnit ──

export function junitOf(outcomes: readonly ReplayOutcome[]): string {
  const counted = outcomes.filter(({ status }) => status !== "gone");
  const workflows = [...new Set(counted.map(({ workflow }) => workflow))].sort();
  const suites = workflows.map((workflow) =>
    suite(
      workflow,
      counted.filter((outcome) => outcome.workflow === workflow),
    ),
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="holdfast replay"${totals(counted)}>\n${suites.join("")}</testsuites>\n`;
}
function totals(outcomes: readonly ReplayOutcome[]): string {
  const count = (status: ReplayOutcome["status"]) => outcomes.filter((outcome) => outcome.status === status).length;
  return ` tests="${outcomes.length}" failures="${count("diverged")}" errors="${count("failed")}" skipped="${count("skipped")}"`;
}
function suite(workflow: string, outcomes: readonly ReplayOutcome[]): string {
  return `  <testsuite name="${xml(workflow)}"${totals(outcomes)}>\n${outcomes.map(testCase).join("")}  </testsuite>\n`;
}
function testCase({ runId, workflow, status, divergence, reason = "" }: ReplayOutcome): string {
  const source = divergence?.source ?? undefined;
  const file = source === undefined ? "" : ` file="${xml(source.file)}" line="${source.line}"`;
  const opening = `    <testcase classname="${xml(workflow)}" name="${xml(runId)}"${file}`;
  if (status === "skipped") return `${opening}><skipped message="${xml(reason)}"/></testcase>\n`;
  if (status === "failed") return `${opening}><error message="${xml(reason)}"/></testcase>\n`;
  if (divergence === undefined) return `${opening}/>\n`;
  const message = `code and history diverge at ${divergence.location || "the root"}, in ${divergence.field}`;
  const detail = [`history: ${text(divergence.expected)}`, `code: ${text(divergence.actual)}`, divergence.advice].join("\n");
  return `${opening}><failure type="HF_NONDETERMINISM" message="${xml(message)}">${xml(detail)}</failure></testcase>\n`;
}
/** Characters that XML 1.0 does not allow, not even escaped. */
const FORBIDDEN = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;
const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;" };
function xml(value: string): string {
  return value.replace(FORBIDDEN, "\uFFFD").replace(/[&<>"\n\r]/g, (character) => ENTITIES[character] ?? character);
}

/** One side of a divergence, for people. */
export function text(side: unknown): string {
  if (side === null || side === undefined) return "(none)";
  const full = typeof side === "string" ? side : JSON.stringify(side);
  return full.length > 200 ? `${full.slice(0, 200)}…` : full;
}

// ── GitHub ──

export function annotationsOf(groups: readonly ReplayGroup[], failed: readonly ReplayOutcome[]): string[] {
  const diverged = groups.map(({ workflow, location, field, expected, actual, source, count, example, advice }) => {
    const what = `${count} open ${count === 1 ? "run" : "runs"} of ${workflow} would block at ${location || "the root"} (${field}), for example ${example}.`;
    const message = [what, `History: ${text(expected)}`, `Code: ${text(actual)}`, advice].join("\n");
    const place = source === null ? {} : { file: source.file, line: source.line, col: source.column };
    return annotation({ ...place, title: "holdfast replay" }, message);
  });
  const broken = failed.map(({ workflow, runId, reason = "" }) =>
    annotation({ title: "holdfast replay" }, `Run ${runId} of ${workflow} can't be replayed: ${reason}`),
  );
  return [...diverged, ...broken];
}
function annotation(properties: Readonly<Record<string, string | number>>, message: string): string {
  const escaped = (value: string) => value.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
  const given = Object.entries(properties).map(
    ([name, value]) => `${name}=${escaped(String(value)).replaceAll(":", "%3A").replaceAll(",", "%2C")}`,
  );
  return `::error ${given.join(",")}::${escaped(message)}`;
}
