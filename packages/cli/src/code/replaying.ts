// Replays histories with the code of this process.
// Owns: nothing between calls.
// Invariants: nothing is written; no code is "skipped"; code that breaks, or ends the process, is "failed", and the next run is replayed.

import {
  type AnyWorkflow,
  type Codec,
  Executor,
  errorCatalog,
  type History,
  jsonCodec,
  NondeterminismError,
  payloadToJson,
  replayView,
  type Turn,
  UnsupportedError,
} from "@holdfast/core";
import type { RunStatus, TemporalEvents } from "holdfast";
import { type Inspection, replayWithSource, type SourcePosition, sourceOfOperation } from "holdfast/inspect";
import { endsDuring, type SourcePlace, shownPath } from "../hook/index.ts";
import type { LoadedCode } from "./load.ts";
import type { Divergence, OpenRunsRequest, OpenRunsResult, ReplayItem, ReplayOutcome } from "./protocol.ts";

export interface ReplaySettings {
  readonly codec: Codec | undefined;
  readonly strict: boolean;
  /** Paths are shown relative to it. */
  readonly cwd: string;
}

export const OPEN_STATUSES: readonly RunStatus[] = ["pending", "running", "sleeping", "blocked", "rolling_back"];
/** What a replay needs of an inspection. */
type Reading = Pick<Inspection, "turns" | "get" | "history">;

/** `read`: what the store has for the item; undefined if the history was given. */
export async function replayItem(
  code: LoadedCode,
  item: ReplayItem,
  read: { readonly inspection: Reading; readonly turns: Promise<readonly Turn[]> } | undefined,
  settings: ReplaySettings,
): Promise<ReplayOutcome> {
  const { runId, workflow, version } = item;
  const definition = code.workflows.find(workflow, version);
  if (definition === undefined) {
    const which = version === undefined ? `"${workflow}"` : `"${workflow}" in version "${version}"`;
    return { runId, workflow, status: "skipped", reason: `The code has no workflow ${which}.` };
  }
  if (read !== undefined) {
    const turns = await read.turns.catch(ifUnsupported);
    if (turns?.length === 0 && (await read.inspection.get(runId)) === undefined) return { runId, workflow, status: "gone" };
    const { value: fits, ended, thrown } = await endsDuring(async () => turns && fitsTurns(definition, turns, settings));
    if (fits === true) return { runId, workflow, status: "passed" };
    if (ended !== undefined || thrown !== undefined) return brokenBy(item, ended, thrown);
  }
  const history = item.history ?? (await read?.inspection.history(runId));
  return history === undefined ? { runId, workflow, status: "gone" } : withSource(definition, item, history, settings);
}

/** Hosts that keep no turns have histories. */
function ifUnsupported(error: unknown): undefined {
  if (error instanceof UnsupportedError) return undefined;
  throw error;
}

/** Without making a `History` first, which takes as long as the replay. False: the code diverges, which `withSource` says more about. */
async function fitsTurns(workflow: AnyWorkflow, turns: readonly Turn[], { codec = jsonCodec, strict }: ReplaySettings): Promise<boolean> {
  const executor = new Executor({ workflow, codec, strictReplay: strict });
  const completion = await executor.replay(replayView(turns));
  if (completion.status !== "failed") {
    await executor.activate({ time: 0, jobs: [{ type: "evict", reason: "replay is over" }] });
    return true;
  }
  if (completion.error instanceof NondeterminismError) return false;
  throw completion.error;
}

async function withSource(
  definition: AnyWorkflow,
  item: ReplayItem,
  history: History | TemporalEvents,
  { codec, strict, cwd }: ReplaySettings,
): Promise<ReplayOutcome> {
  const { runId, workflow } = item;
  const options = { strict, ...(codec !== undefined && { codec }) };
  const { value, ended, thrown } = await endsDuring(() => replayWithSource(definition, history, options));
  if (ended !== undefined || value === undefined) return brokenBy(item, ended, thrown);
  if (value.status === "passed") return { runId, workflow, status: "passed" };
  const { location, field, expected, actual } = value.error;
  const divergence: Divergence = {
    location,
    field,
    expected: shown(expected),
    actual: shown(actual),
    source: placeIn(value.source, cwd),
    advice: adviceFor(expected, actual),
  };
  return { runId, workflow, status: "diverged", divergence };
}
function brokenBy({ runId, workflow }: ReplayItem, ended: string | undefined, thrown: unknown): ReplayOutcome {
  const reason = ended === undefined ? textOf(thrown) : `The code ends the process: it calls ${ended}.`;
  return { runId, workflow, status: "failed", reason };
}

/** Where the code asks for an operation of a run, or where it diverges from its history if no operation is named. */
export async function sourceIn(
  definition: AnyWorkflow,
  history: History | TemporalEvents,
  location: string | undefined,
  { codec, cwd }: Omit<ReplaySettings, "strict">,
): Promise<SourcePlace | null> {
  const options = codec === undefined ? {} : { codec };
  const { value } = await endsDuring(async () => {
    if (location !== undefined) return { source: await sourceOfOperation(definition, history, location, options) };
    const result = await replayWithSource(definition, history, options);
    return { source: result.status === "diverged" ? result.source : undefined };
  });
  return placeIn(value?.source, cwd);
}

/** Histories of a store that are read ahead: the store reads while the code is replayed. */
const AHEAD = 8;

/** The outcomes, in order. A history that can't be read is an error of the store. */
export async function* replayItems(
  code: LoadedCode,
  items: readonly ReplayItem[],
  inspection: () => Promise<Reading>,
  settings: ReplaySettings,
): AsyncGenerator<ReplayOutcome> {
  const reading = new Map<ReplayItem, Promise<readonly Turn[]>>();
  for (const [i, item] of items.entries()) {
    if (item.history !== undefined) {
      yield await replayItem(code, item, undefined, settings);
      continue;
    }
    const store = await inspection();
    for (const next of items.slice(i, i + AHEAD)) {
      if (next.history !== undefined || reading.has(next)) continue;
      const turns = store.turns(next.runId);
      turns.catch(() => {}); // it is thrown where it is needed
      reading.set(next, turns);
    }
    yield await replayItem(code, item, { inspection: store, turns: reading.get(item) ?? store.turns(item.runId) }, settings);
    reading.delete(item);
  }
}

function textOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
}
function placeIn(source: SourcePosition | undefined, cwd: string): SourcePlace | null {
  return source === undefined ? null : { ...source, file: shownPath(source.file, cwd) };
}
/** A value that JSON can hold: what it can't is written as the default codec writes it, or named. */
function shown(value: unknown): unknown {
  if (value === undefined) return null;
  try {
    return payloadToJson(jsonCodec.encode(value));
  } catch {
    return String(value);
  }
}
function adviceFor(expected: unknown, actual: unknown): string {
  if (expected === undefined)
    return "History has no such operation. Put the new code behind ctx.patched(id), or give the workflow a new version.";
  if (actual === undefined)
    return "The code no longer has this operation. Put ctx.removed(name, kind) where it was, or give the workflow a new version.";
  return OTHERWISE;
}
const OTHERWISE = errorCatalog.find(({ code }) => code === "HF_NONDETERMINISM")?.whatToDo ?? "";

/** The open runs of this code's workflows, newest first, until the time is over. */
export async function replayOpenRuns(
  code: LoadedCode,
  inspection: Inspection,
  { most, within }: OpenRunsRequest,
  settings: ReplaySettings,
): Promise<OpenRunsResult> {
  const until = performance.now() + within;
  const names = [...new Set(code.workflows.all.map(({ name }) => name))];
  if (names.length === 0) return { checked: 0, isPartial: false, diverged: [], failed: [] };
  const { runs, cursor } = await inspection.list({ status: OPEN_STATUSES, workflow: names, limit: most });
  const items = runs.map(({ id, workflow, version }) => ({ runId: id, workflow, version }));
  const outcomes: ReplayOutcome[] = [];
  for await (const outcome of replayItems(code, items, async () => inspection, settings)) {
    outcomes.push(outcome);
    if (performance.now() >= until) break;
  }
  const of = (status: ReplayOutcome["status"]) => outcomes.filter((outcome) => outcome.status === status);
  const checked = outcomes.length - of("gone").length - of("skipped").length;
  return { checked, isPartial: outcomes.length < runs.length || cursor !== undefined, diverged: of("diverged"), failed: of("failed") };
}
