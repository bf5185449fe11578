// The Temporal server of a soak, and what differs from the other stores.
// Owns: the server, unless --url names one; what is left out on Temporal, and why; how histories of events are read.
// Invariants: runs of other programs on a server that --url names are not touched: the soak has a queue of its own.

import { isDeepStrictEqual } from "node:util";
import { needTemporalServer } from "@holdfast/temporal-server";

/** Workflows that can't run on Temporal, and why. */
export const LEFT_OUT = new Map([
  ["ledger", "a transaction on Temporal has no database to write to"],
  ["resumed", "a failed run on Temporal can't be resumed"],
]);
/** Checks that do not hold on Temporal, and why. */
export const NOT_CHECKED = [
  "attempts before the last one of each operation, and those of abandoned ones: Temporal does not list them",
  "attempts that a worker gives back when it stops: they don't count, and their numbers are used again",
  "bodies of stubborn: Temporal retries a run from its beginning, and its completed steps run again",
];
/** Events after which the server suggests to continue as new: few, so that entities and loops do. */
const SUGGESTED_AT = 60;

/** Starts a server, or uses the one that `url` names. @param {string | undefined} url @param {string} queue */
export async function startTemporal(url, queue) {
  if (url !== undefined) {
    const own = new URL(url);
    own.searchParams.set("queue", queue);
    return { url: own.href, close: async () => {} };
  }
  const server = await needTemporalServer({ own: true, settings: { "limit.historyCount.suggestContinueAsNew": SUGGESTED_AT } });
  return { url: server.url(queue), close: () => server.stop() };
}

/** @param {any} history */
export const isTemporal = (history) => history.format === "temporal-history/1";

/** @param {any} history */
const startOf = (history) => history.turns[0]?.workflowExecutionStartedEventAttributes;

/** The number of the execution that a history belongs to, which Temporal knows from a header. @param {any} history */
export function temporalExecutionOf(history) {
  const data = startOf(history)?.header?.fields?.holdfast?.data;
  return data === undefined ? 1 : (JSON.parse(Buffer.from(data, "base64").toString()).execution ?? 1);
}

/** D2: a later history of the same execution begins with the events of the earlier one. @param {any} before @param {any} after @param {import("./checks.mjs").Report} report */
export function checkEvents(before, after, report) {
  if (startOf(before)?.originalExecutionRunId !== startOf(after)?.originalExecutionRunId) return;
  const { id, workflow } = after.run;
  if (after.turns.length < before.turns.length) report(`${workflow} ${id}: its history lost its end`);
  const changed = before.turns.findIndex((/** @type {any} */ event, /** @type {number} */ i) => !isDeepStrictEqual(event, after.turns[i]));
  if (changed >= 0 && changed < after.turns.length)
    report(`${workflow} ${id}: event ${changed + 1} of its history changed`, {
      before: before.turns[changed],
      after: after.turns[changed],
    });
}

/**
 * The traces without the attempts that workers gave back when they were stopped.
 * @template {{ executions: { pid: number, end: { aborted: boolean } | undefined }[] }} T
 * @param {Map<string, T>} traces @param {readonly import("./effects.mjs").Effect[]} effects
 */
export function withoutGivenBack(traces, effects) {
  const stopped = new Set(effects.flatMap((effect) => (effect.e === "fault" && effect.what === "stop" ? [effect.pid] : [])));
  for (const trace of traces.values())
    trace.executions = trace.executions.filter(({ pid, end }) => !(stopped.has(pid) && (end === undefined || end.aborted)));
  return traces;
}
