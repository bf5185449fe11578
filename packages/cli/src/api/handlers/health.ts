// Routes about the engine as a whole: health, metrics, the OpenAPI document.
// Owns: the names of metrics.
// Invariants: metrics begin with `holdfast_`; a store that can't be read is an error, not a bad health.

import type { WorkerInfo } from "holdfast";
import type { Inspection } from "holdfast/inspect";
import type { ConsoleContext } from "../context.ts";
import { iso } from "../json.ts";
import { openapi } from "../openapi.ts";
import { printable } from "../printable.ts";
import type { Handlers } from "./handler.ts";

export const health: Handlers<"health" | "metrics" | "openapi"> = {
  health: async (_request, context, caller) => {
    const inspection = await context.inspection();
    const { features } = inspection;
    // Every page reads this first: it reads nothing that takes longer with more runs.
    const [{ host, exists, schema, now }, blocked, workers] = await Promise.all([
      inspection.store(),
      inspection.counts({ status: "blocked" }),
      features.workers ? inspection.workers() : undefined,
    ]);
    const problems = schemaProblems(exists, schema);
    return {
      ok: problems.length === 0,
      problems,
      store: { host, exists, now: iso(now) },
      schema: schema ?? null,
      blocked: blocked.blocked,
      workers: workers?.length ?? null,
      now: iso(new Date(context.now())),
      caller: { name: caller.name, role: caller.role, values: caller.values },
      readOnly: context.readOnly,
      features: { ...features, code: context.code !== undefined },
    };
  },
  metrics: async (_request, context) => metrics(context),
  openapi: async () => openapi(),
};

function schemaProblems(exists: boolean, schema: { readonly found: number; readonly known: number } | undefined): string[] {
  if (!exists) return ["There is no store yet: it is created by the first worker or the first start."];
  if (schema === undefined || schema.found === schema.known) return [];
  if (schema.found > schema.known)
    return [`The schema has version ${schema.found}, and this server knows version ${schema.known}: update its packages.`];
  return [`The schema has version ${schema.found} and should have ${schema.known}: run \`holdfast migrate\`.`];
}

// ── metrics ──

type Labels = Readonly<Record<string, string>>;
class Metrics {
  readonly #lines: string[] = [];

  gauge(name: string, help: string, samples: readonly { readonly labels?: Labels; readonly value: number }[]): void {
    this.#lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} gauge`);
    for (const { labels = {}, value } of samples) this.#lines.push(`${name}${labelText(labels)} ${value}`);
  }
  toString(): string {
    return `${this.#lines.join("\n")}\n`;
  }
}
function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, text]) => `${name}="${escaped(text)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
function escaped(text: string): string {
  return printable(text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"'));
}

async function metrics(context: ConsoleContext): Promise<string> {
  const inspection = await context.inspection();
  const found = new Metrics();
  found.gauge("holdfast_up", "1: the store can be read.", [{ value: 1 }]);
  const counts = Object.entries(await inspection.counts());
  found.gauge(
    "holdfast_runs",
    "Runs by status, at most 10000 each.",
    counts.map(([status, { n }]) => ({ labels: { status }, value: n })),
  );
  found.gauge(
    "holdfast_runs_capped",
    "1: there are more runs of this status than were counted.",
    counts.map(([status, { capped }]) => ({ labels: { status }, value: capped ? 1 : 0 })),
  );
  // Moments in a store are by its clock.
  const now = (await inspection.store()).now?.getTime() ?? context.now();
  await addQueues(found, inspection, now);
  await addWorkers(found, inspection, now);
  return found.toString();
}
async function addQueues(found: Metrics, inspection: Inspection, now: number): Promise<void> {
  if (!inspection.features.queues) return;
  const queues = await inspection.queueStats();
  const loads = queues.flatMap(({ name, runs, activities }) => [
    { labels: { queue: name, kind: "runs" }, ...runs },
    { labels: { queue: name, kind: "activities" }, ...activities },
  ]);
  const each = (read: (load: (typeof loads)[number]) => number) => loads.map((load) => ({ labels: load.labels, value: read(load) }));
  found.gauge(
    "holdfast_queue_waiting",
    "Available, and not claimed by a worker, at most 10000.",
    each(({ waiting }) => waiting),
  );
  found.gauge(
    "holdfast_queue_held",
    "Claimed by a worker, or counted by the limits of the queue.",
    each(({ held }) => held),
  );
  found.gauge(
    "holdfast_queue_oldest_seconds",
    "How long the first has been available.",
    each(({ oldest }) => (oldest === undefined ? 0 : Math.max(0, (now - oldest.getTime()) / 1_000))),
  );
  found.gauge(
    "holdfast_queue_paused",
    "1: the queue is paused.",
    queues.map(({ name, paused }) => ({ labels: { queue: name }, value: paused ? 1 : 0 })),
  );
}
async function addWorkers(found: Metrics, inspection: Inspection, now: number): Promise<void> {
  if (!inspection.features.workers) return;
  const workers = await inspection.workers();
  found.gauge("holdfast_workers", "Workers that are alive.", [{ value: workers.length }]);
  const each = (read: (worker: WorkerInfo) => number) =>
    workers.map((worker) => ({ labels: { worker: worker.id, queue: worker.queue }, value: read(worker) }));
  found.gauge(
    "holdfast_worker_active_runs",
    "Runs in progress.",
    each(({ active }) => active),
  );
  found.gauge(
    "holdfast_worker_run_slots",
    "Runs that it may have in progress.",
    each(({ concurrency }) => concurrency),
  );
  found.gauge(
    "holdfast_worker_active_activities",
    "Activities in progress.",
    each(({ activeActivities }) => activeActivities),
  );
  found.gauge(
    "holdfast_worker_activity_slots",
    "Activities that it may have in progress.",
    each(({ activityConcurrency }) => activityConcurrency),
  );
  found.gauge(
    "holdfast_worker_seen_seconds",
    "How long ago it was last seen.",
    each(({ seenAt }) => Math.max(0, (now - seenAt.getTime()) / 1_000)),
  );
}
