// A fork: a new run that shares the history of another one up to an operation.
// Owns: what of the source becomes the fork's. The source is only read.
// Invariants: F1 (the newest execution; steps from attempt 1), F2 (a new seed), F3 (later signals, what it has of the source and what not), F4
// (whose rollbacks they are), F5 (what is refused).

import { type ForkedHistory, forkHistory, isUncheckedSeed, type Payload, type SignalJob, type Turn, uncheckedSeed } from "@holdfast/core";
import type { Environment } from "@holdfast/host";
import { isRollingBack } from "@holdfast/host/attempts";
import type { AttemptRow, CopiedHistory, ForkMessage, InboxMessage, NewMessage, NewRun, RunRow, Store } from "../store/port.ts";

export interface ForkRequest {
  readonly id: string;
  readonly before: string;
  readonly version: string | undefined;
  readonly signals: "keep" | "drop";
}

/** What is read of the source. */
interface Source {
  readonly run: RunRow;
  readonly turns: readonly Turn[];
  readonly inbox: readonly InboxMessage[];
  readonly attempts: readonly (AttemptRow & { readonly task?: boolean })[];
  readonly workers: ReadonlyMap<number, string>;
}

/** The run to be created. Undefined: there is no such source. */
export async function forkedRun(store: Store, environment: Environment, runId: string, request: ForkRequest): Promise<NewRun | undefined> {
  const source = await readSource(store, runId);
  if (source === undefined) return undefined;
  const { run, turns, inbox } = source;
  const forked = turns.length === 0 ? undefined : forkHistory(turns, request.before, request.id);
  const isFresh = forked === undefined || forked.turns.length === 0;
  const seed = environment.uuid();
  const fork: NewRun = {
    id: request.id,
    workflow: run.workflow,
    version: request.version ?? run.version,
    input: run.input,
    queue: run.queue,
    key: run.key,
    priority: run.priority,
    retry: run.retry,
    attributes: run.attributes,
    retention: run.retention,
    // As long as the source's was.
    deadline: run.deadlineAt === undefined ? undefined : Math.max(0, run.deadlineAt - run.createdAt),
    forkedFrom: run.id,
    onConflict: "reject",
    // No worker has validated the input of a run without a turn; a fork that starts from the beginning is validated like its source.
    seed: isFresh && isUncheckedSeed(run.seed) ? uncheckedSeed(seed) : seed,
  };
  const signals = request.signals === "drop" ? [] : laterSignals(forked, inbox);
  const first =
    forked === undefined || (isFresh && forked.jobs.length === 0) ? [] : [{ job: firstMessage(fork, forked, source, environment) }];
  const messages: NewMessage[] = [...first, ...signals];
  return {
    ...fork,
    ...(messages.length > 0 && { messages }),
    ...(first.length > 0 && forked !== undefined && { copied: copyOf(forked, source, environment) }),
  };
}

/** If the run continues as new meanwhile, what was read belongs to two executions, and is read again. */
async function readSource(store: Store, runId: string): Promise<Source | undefined> {
  for (let [before] = await store.get([runId]); before !== undefined; ) {
    // The inbox first: a signal that a turn consumes meanwhile is in both, and never in neither.
    const inbox = await store.inbox(runId);
    const turns = await store.history(runId);
    // After the turns, so that they contain what ended each operation that these turns settle, and who wrote each turn.
    const [attempts, workers] = await Promise.all([store.attempts(runId), store.workers?.(runId)]);
    const [run] = await store.get([runId]);
    if (run !== undefined && run.execution === before.execution) return { run, turns, inbox, attempts, workers: workers ?? new Map() };
    before = run;
  }
  return undefined;
}

/** F3: what the source got after the cut, in order. The key makes a sender's repetition one delivery, as in the source (M3). */
function laterSignals(forked: ForkedHistory | undefined, inbox: readonly InboxMessage[]): NewMessage[] {
  const waiting = inbox.flatMap(({ job }) => (job.type === "fork" ? signalsIn(job) : job.type === "signal" ? [job] : []));
  const signals = new Map([...(forked?.later ?? []), ...waiting].map((job) => [job.id, job]));
  for (const job of forked?.jobs ?? []) if (job.type === "signal") signals.delete(job.id);
  return [...signals.values()].map((job) => ({ job, idempotencyKey: job.id }));
}
/** The source is a fork that has not begun yet: these were to come with its first turn. */
function signalsIn({ jobs }: ForkMessage): SignalJob[] {
  return jobs.flatMap((job) => (job.type === "signal" ? { ...job, checked: true as const } : []));
}

const OPEN: ReadonlySet<string> = new Set(["pending", "running", "sleeping", "blocked", "rolling_back"]);

function firstMessage(fork: NewRun, forked: ForkedHistory, { run, turns }: Source, environment: Environment): ForkMessage {
  const drops = forked.dropsRollbacks || OPEN.has(run.status) || isRollingBack(turns);
  const { id: runId, version, seed } = fork;
  const message: ForkMessage = { type: "fork", runId, from: run.id, version, seed, startedAt: environment.now(), jobs: forked.jobs };
  return drops ? { ...message, dropsRollbacks: true } : message;
}

function copyOf(forked: ForkedHistory, source: Source, environment: Environment): CopiedHistory {
  const { turns, jobs, openSteps, settled, attempt, rollbacks } = forked;
  const { attempts, workers } = source;
  const now = environment.now();
  // As if their worker had stopped before it began them: the next one begins with attempt 1.
  const toBegin = [...openSteps].map(
    (seq): AttemptRow => ({
      ...{ seq, number: 0, status: "failed", workerId: "" },
      ...{ startedAt: now, endedAt: now, retryAt: 0 },
    }),
  );
  const kept = attempts.filter(({ seq, status }) => settled.has(seq) && status !== "running");
  const copiedWorkers = new Map(turns.flatMap(({ index }) => (workers.has(index) ? [[index, workers.get(index) ?? ""] as const] : [])));
  const ids = [...turns.flatMap((turn) => turn.jobs), ...jobs].flatMap((job) => (job.type === "signal" ? job.id : []));
  return {
    turns,
    attempts: [...kept, ...toBegin],
    workers: copiedWorkers,
    attempt,
    rollbacks,
    state: stateOf(forked, source),
    keys: [...new Set(ids)],
  };
}

/** P10: an execution that has published nothing yet still has the state of the one before it. */
function stateOf({ state }: ForkedHistory, { run, turns }: Source): Payload | undefined {
  const hasPublished = turns.some(
    (turn) => turn.state !== undefined || turn.commands.some((one) => one.type === "commit" && one.state !== undefined),
  );
  return hasPublished ? state : run.state;
}
