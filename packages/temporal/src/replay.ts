// Replays histories of Temporal: those that `run.history()` returns, and those that Temporal's own tools download.
// Owns: one replay worker of Core, kept for a moment after its last use.
// Invariants: Y1 (no effects, and no server), Y5 (needs only the code and the history).

import { type AnyWorkflow, type Codec, DEFAULT_LIMITS, InvalidInputError, jsonCodec, type Logger, messageOf } from "@holdfast/core";
import { realEnvironment, TurnQueue, tolerateRejections, WorkflowTable } from "@holdfast/host";
import common from "@temporalio/common/lib/proto-utils.js";
import type { TemporalHistory, WorkflowActivation } from "./bridge.ts";
import { Payloads } from "./payloads.ts";
import { TIMING } from "./timing.ts";
import { HistoryReplay } from "./worker/historyReplay.ts";
import { HostedRun } from "./worker/run.ts";
import type { RunWorker } from "./worker/runWorker.ts";

/** Options of `replayHistory`. */
export interface TemporalReplayOptions {
  /**
   * The codec that the run was recorded with.
   * @defaultValue `jsonCodec`
   */
  readonly codec?: Codec | undefined;
  /** Changed options of operations count too. */
  readonly strict?: boolean | undefined;
}

interface TemporalEvents {
  readonly events: readonly unknown[];
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };
/** Milliseconds after which Core's replay worker ends if it is not used. */
const KEPT = 500;

let shared: HistoryReplay | undefined;
let users = 0;

/**
 * Runs the code against a history that Temporal's tools downloaded, without effects.
 * @throws `NondeterminismError` where they diverge.
 * @throws `InvalidInputError` if the history is malformed or belongs to another workflow.
 */
export function replayHistory(workflow: AnyWorkflow, given: TemporalEvents, options: TemporalReplayOptions = {}): Promise<void> {
  return spiedReplay(workflow, given, undefined, options);
}

/** The same, for tests: `see` gets every activation with its answer. */
export async function spiedReplay(
  workflow: AnyWorkflow,
  given: TemporalEvents,
  see: ((activation: WorkflowActivation, status: Awaited<ReturnType<HostedRun["activate"]>>) => void) | undefined,
  options: TemporalReplayOptions = {},
): Promise<void> {
  const history = parsed(given);
  const started = history.events?.[0]?.workflowExecutionStartedEventAttributes;
  const name = started?.workflowType?.name ?? "";
  if (name !== workflow.name) throw refused(`The history belongs to workflow "${name}", the code to "${workflow.name}".`);
  // Nothing was computed yet. Core would wait for its first task without end: an execution that continues another begins without one.
  if (history.events?.some((event) => event.workflowTaskScheduledEventAttributes) !== true) return;
  const worker = replayWorker(workflow, options);
  const endTolerance = tolerateRejections();
  users++;
  shared ??= new HistoryReplay({ namespace: "default", queue: "replay", logger: SILENT });
  try {
    const { run, problem } = await shared.replay(started?.workflowId || "replay", history, (activation, own) =>
      begin(worker, workflow, activation, own, see),
    );
    void run?.executor.activate({ time: 0, jobs: [{ type: "evict" }] });
    if (problem !== undefined) throw problem;
  } finally {
    endTolerance();
    users--;
    realEnvironment.after(KEPT, endIfIdle);
  }
}
function endIfIdle(): void {
  if (users > 0) return;
  const idle = shared;
  shared = undefined;
  void idle?.stop();
}

function begin(
  worker: RunWorker,
  workflow: AnyWorkflow,
  activation: WorkflowActivation,
  history: TemporalHistory,
  see: Parameters<typeof spiedReplay>[2],
): HostedRun | undefined {
  const init = activation.jobs?.find((job) => job.initializeWorkflow)?.initializeWorkflow;
  if (!init) return undefined;
  const run = new HostedRun(worker, activation, init, workflow, async () => history);
  if (see === undefined) return run;
  const activate = run.activate.bind(run);
  run.activate = async (next) => {
    const status = await activate(next);
    see(next, status);
    return status;
  };
  return run;
}
function replayWorker(workflow: AnyWorkflow, { codec = jsonCodec, strict = false }: TemporalReplayOptions): RunWorker {
  const settings: RunWorker["settings"] = {
    id: "replay",
    queue: "replay",
    workflows: new WorkflowTable("replay", [workflow]),
    activities: new Map(),
    concurrency: 1,
    activityConcurrency: 1,
    cachedRuns: 1,
    lease: 30_000,
    gracePeriod: 0,
    turnTimeout: 0,
    determinism: "off",
  };
  return {
    settings,
    namespace: "default",
    queue: "replay",
    ownQueue: undefined,
    stepQueue: "replay",
    timing: TIMING,
    codec,
    payloads: new Payloads(codec),
    logger: SILENT,
    limits: DEFAULT_LIMITS,
    environment: realEnvironment,
    turns: new TurnQueue(realEnvironment, { isShared: true }),
    watch: undefined,
    freezeStates: false,
    isStrict: strict,
    executionOf: async () => 0,
    searchAttributes: () => undefined,
  };
}

function parsed(given: TemporalEvents): TemporalHistory {
  if (!Array.isArray(given.events) || given.events.length === 0) throw refused("The list of events is missing or empty.");
  try {
    return common.historyFromJSON({ events: given.events });
  } catch (cause) {
    throw refused(`It is not a history of Temporal: ${messageOf(cause)}`, cause);
  }
}
function refused(message: string, cause?: unknown): InvalidInputError {
  return new InvalidInputError({ what: "replay", issues: [{ message }], cause });
}
