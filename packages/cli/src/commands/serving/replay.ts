// `holdfast replay`: the check before a deploy.
// Owns: which histories are checked, and what makes exit code 6.
// Invariants: read-only; checked = passed + diverged + skipped + failed; with JSON, standard output has the report and nothing else.

import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { fromHistory, type History } from "@holdfast/core";
import type { TemporalEvents } from "holdfast";
import { loadRequest } from "../../code/codeHost.ts";
import { Entries } from "../../code/entries.ts";
import { annotationsOf, junitOf, text } from "../../code/formats.ts";
import type { ReplayItem, ReplayOutcome } from "../../code/protocol.ts";
import { OPEN_STATUSES } from "../../code/replaying.ts";
import { replayAll } from "../../code/replayPool.ts";
import { type ReplayReport, reportOf } from "../../code/report.ts";
import { printable, printableLines } from "../../terminal/escape.ts";
import { bar } from "../../terminal/progress.ts";
import { numberOption } from "../arguments.ts";
import { CommandFailure, EXIT, usage } from "../failures.ts";
import type { Session } from "../session.ts";

interface ReplayOptions {
  readonly workflow?: string;
  readonly sample?: string;
  readonly min?: string;
  readonly strict?: boolean;
  readonly junit?: string;
  readonly github?: boolean;
}

export async function replayRuns(session: Session, [files]: readonly [readonly string[]], options: ReplayOptions): Promise<number> {
  const least = options.min === undefined ? 0 : numberOption("--min", options.min, { least: 0 });
  const sample = options.sample === undefined ? undefined : numberOption("--sample", options.sample, { least: 1 });
  const { io } = session;
  const settings = await session.settings();
  const given = files.map((file) => historyFile(file, io.cwd));
  const load = loadRequest(settings, new Entries(settings).required(), io.cwd);
  const isRemote = /^https?:/.test(settings.url);

  const outcomes: ReplayOutcome[] = [];
  const places = new Map<string, number>();
  const run = async (items: readonly ReplayItem[] | AsyncIterable<ReplayItem>, ids: readonly string[]): Promise<void> => {
    for (const [i, id] of ids.entries()) places.set(id, i);
    const total = ids.length;
    const onOutcome = (outcome: ReplayOutcome) => {
      outcomes.push(outcome);
      if (outcomes.length % 50 === 0 || outcomes.length === total) session.progress.say(`Replaying ${bar(outcomes.length, total)}`);
    };
    await replayAll(items, { load, strict: options.strict === true, expected: total, onOutcome, signal: io.signal });
  };
  if (files.length > 0) {
    const matching = given.filter(({ workflow }) => options.workflow === undefined || workflow === options.workflow);
    const wanted = sampled(matching, sample);
    await run(
      wanted,
      wanted.map(({ runId }) => runId),
    );
  } else {
    session.progress.say("Looking for open runs …");
    const found = sampled(await openRuns(session, options.workflow), sample);
    await run(
      isRemote ? fetched(session, found) : found,
      found.map(({ runId }) => runId),
    );
  }
  session.progress.end();

  // As they were listed, whichever process was faster.
  outcomes.sort((a, b) => (places.get(a.runId) ?? 0) - (places.get(b.runId) ?? 0));
  const report = reportOf(outcomes);
  if (options.junit !== undefined) writeReport(resolve(io.cwd, options.junit), junitOf(outcomes), options.junit);
  show(session, report, outcomes, { least, isStrict: options.strict === true, isGithub: options.github === true });
  return problemsOf(report, least, options.strict === true).length > 0 ? EXIT.found : EXIT.ok;
}

// ── which histories ──

/** Workflows of the engine itself: every worker has their code. */
function isBuiltIn(workflow: string): boolean {
  return workflow.startsWith("holdfast.");
}

/** Newest first. */
async function openRuns(session: Session, workflow: string | undefined): Promise<ReplayItem[]> {
  const client = await session.reader();
  const found: ReplayItem[] = [];
  let cursor: string | null | undefined;
  do {
    const page = await client.call("runs.list", {
      query: {
        status: [...OPEN_STATUSES],
        limit: 200,
        ...(workflow !== undefined && { workflow: [workflow] }),
        ...(cursor != null && { cursor }),
      },
      signal: session.io.signal,
    });
    for (const run of page.runs)
      if (!isBuiltIn(run.workflow)) found.push({ runId: run.id, workflow: run.workflow, version: run.version ?? undefined });
    ({ cursor } = page);
  } while (cursor != null);
  return found;
}
/** Histories of another server come one by one, as they are needed. */
async function* fetched(session: Session, found: readonly ReplayItem[]): AsyncGenerator<ReplayItem> {
  const client = await session.reader();
  for (const { runId: id } of found) {
    const history = (await client.call("runs.history", { params: { id }, query: { full: true } })) as History;
    if (JSON.stringify(history).includes('"$redacted":')) throw valuesNeeded();
    yield { runId: id, workflow: history.run.workflow, version: history.run.version ?? undefined, history };
  }
}
function valuesNeeded(): CommandFailure {
  return new CommandFailure({
    code: "HF_FORBIDDEN",
    status: 403,
    title: "Forbidden",
    detail: "The token may not see values, and a replay needs what steps have returned.",
    advice: "Use a token that was made with `holdfast token --values`.",
    exitCode: EXIT.refused,
  });
}
/** Evenly over the list. */
function sampled<T>(items: readonly T[], most: number | undefined): readonly T[] {
  if (most === undefined || items.length <= most) return items;
  return Array.from({ length: most }, (_, i) => items[Math.floor((i * items.length) / most)] as T);
}

type GivenHistory = ReplayItem & { readonly history: History | TemporalEvents };

function historyFile(file: string, cwd: string): GivenHistory {
  const content = contentOf(file, cwd);
  const history = typeof content === "object" && content !== null ? (content as Partial<History> & Partial<TemporalEvents>) : {};
  if (history.format === undefined && Array.isArray(history.events)) return temporalHistory(file, { events: history.events });
  if (history.format === "temporal-history/1" && Array.isArray(history.turns) && history.run !== undefined)
    return { runId: history.run.id, workflow: history.run.workflow, version: history.run.version, history: history as History };
  try {
    fromHistory(content as History);
  } catch (cause) {
    throw usage(`${printable(file)} is not a history: ${firstLine(cause)}`);
  }
  const { run } = history as History;
  return { runId: run.id, workflow: run.workflow, version: run.version ?? undefined, history: history as History };
}
function contentOf(file: string, cwd: string): unknown {
  let content: string;
  try {
    content = readFileSync(resolve(cwd, file), "utf8");
  } catch (error) {
    throw usage(`${printable(file)} can't be read: ${firstLine(error)}`);
  }
  try {
    return JSON.parse(content);
  } catch {
    // biome-ignore lint/style/useErrorCause: the message says all that the cause does
    throw usage(`${printable(file)} is not a history: it is not JSON.`);
  }
}
function temporalHistory(file: string, history: TemporalEvents): GivenHistory {
  const [first] = history.events as readonly { readonly workflowExecutionStartedEventAttributes?: Record<string, unknown> }[];
  const { workflowType, workflowId } = (first?.workflowExecutionStartedEventAttributes ?? {}) as {
    workflowType?: { name?: unknown };
    workflowId?: unknown;
  };
  if (typeof workflowType?.name !== "string")
    throw usage(`${printable(file)} is not a history: its first event does not start a workflow.`);
  return {
    runId: typeof workflowId === "string" && workflowId !== "" ? workflowId : file,
    workflow: workflowType.name,
    version: undefined,
    history,
  };
}
function firstLine(error: unknown): string {
  return printable(((error as Error).message ?? String(error)).split("\n")[0] ?? "");
}

// ── what was found ──

/** Why the check fails, in words. */
function problemsOf({ checked, diverged, skipped, failed }: ReplayReport, least: number, isStrict: boolean): string[] {
  const problems: string[] = [];
  if (diverged > 0) problems.push(`${runs(diverged)} would block with this code`);
  if (failed > 0) problems.push(`${runs(failed)} could not be replayed`);
  if (isStrict && skipped > 0) problems.push(`${runs(skipped)} ${skipped === 1 ? "has" : "have"} no code (--strict)`);
  if (checked < least) problems.push(`Fewer than ${runs(least)} ${least === 1 ? "was" : "were"} checked (--min)`);
  return problems;
}
const runs = (count: number): string => `${count} ${count === 1 ? "run" : "runs"}`;

function show(
  session: Session,
  report: ReplayReport,
  outcomes: readonly ReplayOutcome[],
  { least, isStrict, isGithub }: { readonly least: number; readonly isStrict: boolean; readonly isGithub: boolean },
): void {
  const broken = outcomes.filter(({ status }) => status === "failed");
  if (isGithub) {
    // Runners of GitHub read both streams: standard output belongs to JSON if that was asked for.
    const isForPrograms = session.globals.output === "json" || session.globals.output === "jsonl";
    const stream = isForPrograms ? session.io.stderr : session.io.stdout;
    for (const line of annotationsOf(report.groups, broken)) stream.write(`${printable(line)}\n`);
  }
  session.show({
    json: report,
    lines: report.results,
    ids: report.results.filter(({ status }) => status === "diverged" || status === "failed").map(({ runId }) => runId),
    human: () => humanReport(session, report, outcomes, problemsOf(report, least, isStrict)),
  });
}

function humanReport(session: Session, report: ReplayReport, outcomes: readonly ReplayOutcome[], problems: readonly string[]): string[] {
  const { bold, red, green, dim } = session.colours;
  const { checked, passed, diverged, skipped, failed, groups } = report;
  const lines: string[] = [];
  for (const { workflow, location, field, expected, actual, source, count, example, advice } of groups) {
    const where = source === null ? "" : `, ${printable(source.file)}:${source.line}:${source.column}`;
    lines.push(
      red(bold(`${runs(count)} of ${printable(workflow)} would block at ${printable(location) || "the root"}${where}`)),
      `  ${printable(field)} differs, for example in ${printable(example)}`,
      `  - history: ${printable(text(expected))}`,
      `  + code:    ${printable(text(actual))}`,
      dim(`  ${printableLines(advice)}`),
      "",
    );
  }
  lines.push(...reasonsOf(outcomes, "failed", red), ...reasonsOf(outcomes, "skipped", dim));
  const summary = `${runs(checked)} checked: ${passed} passed, ${diverged} diverged, ${skipped} skipped, ${failed} failed.`;
  lines.push(problems.length === 0 ? green(summary) : `${red(summary)} ${problems.map((one) => `${one}.`).join(" ")}`);
  return lines;
}
/** Runs with the same reason together. */
function reasonsOf(outcomes: readonly ReplayOutcome[], status: "failed" | "skipped", paint: (text: string) => string): string[] {
  const reasons = new Map<string, { count: number; example: string }>();
  for (const { runId, reason = "", status: own } of outcomes) {
    if (own !== status) continue;
    const known = reasons.get(reason);
    if (known === undefined) reasons.set(reason, { count: 1, example: runId });
    else known.count++;
  }
  return [...reasons].flatMap(([reason, { count, example }]) => [
    paint(`${runs(count)} ${status}, for example ${printable(example)}: ${printable(reason.split("\n")[0] ?? "")}`),
    "",
  ]);
}

function writeReport(path: string, content: string, shown: string): void {
  try {
    writeFileSync(path, content);
  } catch (error) {
    throw usage(`--junit: ${printable(shown)} can't be written: ${firstLine(error)}`);
  }
}
