// The oracles: what must be true of every run, every history and every effect.
// Owns: nothing; each check reads and reports.
// Invariants: D1 D4 D6 D12 (effects against attempts), D2 (records never change), Y5 (replay), M1 M3 M10 (messages), K8, S1.

import { isDeepStrictEqual } from "node:util";
import { replay } from "holdfast";
import { kindOf } from "./mix.mjs";
import { checkEvents, isTemporal, temporalExecutionOf } from "./temporal.mjs";

/**
 * @typedef {import("./effects.mjs").Effect} Effect
 * @typedef {import("./effects.mjs").Begin} Begin
 * @typedef {import("./effects.mjs").End} End
 * @typedef {(what: string, details?: unknown) => void} Report
 * @typedef {{ index: number, jobs: any[], commands: any[] }} Turn
 */

// ── how runs ended ──

/** @param {any} info @param {import("./mix.mjs").Notes | undefined} notes @param {Report} report */
export function checkEnd(info, notes, report) {
  const kind = kindOf.get(info.workflow);
  if (kind === undefined) return;
  const { id, workflow, status, output, error, input } = info;
  const expected = kind.expect(input);
  const where = `${workflow} ${id}`;
  if (status !== expected.status)
    return report(`${where} is ${status}, not ${expected.status}`, { info, notes: notes && [...notes.acknowledged] });
  if (expected.error !== undefined && !expected.error.test(JSON.stringify(error))) report(`${where} failed with the wrong error`, { info });
  if (expected.output !== undefined && !isDeepStrictEqual(output, expected.output))
    report(`${where} returned a wrong output`, { expected, info });
  if (status === "completed" && notes !== undefined) {
    const wrong = kind.judge?.(output, input, notes);
    if (wrong !== undefined) report(`${where}: ${wrong}`, { output, acknowledged: [...notes.acknowledged] });
  }
}

// ── histories ──

/** The number of the execution that a history belongs to. @param {any} history */
export const executionOf = (history) =>
  isTemporal(history)
    ? temporalExecutionOf(history)
    : (history.turns[0]?.jobs.find((/** @type {any} */ job) => job.type === "start")?.execution ?? 1);

/**
 * D2: a later history contains the earlier one unchanged, except for what the workflow has trimmed.
 * @param {any} before @param {any} after @param {boolean} trims @param {Report} report
 */
export function checkGrowth(before, after, trims, report) {
  if (isTemporal(after)) return checkEvents(before, after, report);
  if (executionOf(before) !== executionOf(after)) return;
  const { id, workflow } = after.run;
  /** @type {Map<number, Turn>} */
  const later = new Map(after.turns.map((/** @type {Turn} */ turn) => [turn.index, turn]));
  for (const turn of /** @type {Turn[]} */ (before.turns)) {
    const now = later.get(turn.index);
    const same =
      now === undefined ? trims : trims ? isPart(now.jobs, turn.jobs) && isPart(now.commands, turn.commands) : isDeepStrictEqual(now, turn);
    if (!same) report(`${workflow} ${id}: turn ${turn.index} of its history changed`, { before: turn, after: now });
  }
  const last = before.turns.at(-1)?.index ?? -1;
  const indexes = after.turns.map((/** @type {Turn} */ turn) => turn.index);
  if (indexes.some((/** @type {number} */ index, /** @type {number} */ i) => i > 0 && index <= indexes[i - 1]))
    report(`${workflow} ${id}: its turns are out of order`, { indexes });
  if ((indexes.at(-1) ?? -1) < last) report(`${workflow} ${id}: its history lost its end`, { indexes, last });
  return undefined;
}
/** Whether `some` is a subsequence of `all`. @param {any[]} some @param {any[]} all */
function isPart(some, all) {
  let at = 0;
  for (const one of all) if (at < some.length && isDeepStrictEqual(some[at], one)) at++;
  return at === some.length;
}

/** Milliseconds within which a replay must end. Those that come after one that never ends would wait for it, and are left out. */
const LONGEST_REPLAY = 30_000;
let replayHangs = false;

/** Y5: every history replays. @param {any} history @param {Report} report */
export async function checkReplay(history, report) {
  const kind = kindOf.get(history.run.workflow);
  if (kind === undefined || history.turns.length === 0 || replayHangs) return;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => {
      replayHangs = true;
      reject(new Error(`it did not end within ${LONGEST_REPLAY} ms`));
    }, LONGEST_REPLAY);
  });
  try {
    await Promise.race([replay(kind.workflow, history), late]);
  } catch (error) {
    report(`${history.run.workflow} ${history.run.id}: its history does not replay: ${/** @type {Error} */ (error).message}`, {
      error: String(/** @type {Error} */ (error).stack),
      history,
    });
  } finally {
    clearTimeout(timer);
  }
}

// ── effects ──

/** The idempotency key of a step. @param {string} runId @param {number} execution @param {string} location */
export const keyOf = (runId, execution, location) => `${runId}/${execution === 1 ? "" : `~${execution}/`}${location}`;

/** Everything that is known about the bodies of one step. */
class Trace {
  /** @type {(Begin & { at: number, end: (End & { at: number }) | undefined })[]} */
  executions = [];
  /** The position in the log at which an observer first saw the step completed. @type {number | undefined} */
  seenAt = undefined;
}

/** @param {readonly Effect[]} effects @returns {Map<string, Trace>} */
export function tracesOf(effects) {
  /** @type {Map<string, Trace>} */
  const traces = new Map();
  const of = (/** @type {string} */ key) => {
    const trace = traces.get(key) ?? new Trace();
    traces.set(key, trace);
    return trace;
  };
  for (const [at, effect] of effects.entries()) {
    if (effect.e === "begin") of(effect.key).executions.push({ ...effect, at, end: undefined });
    else if (effect.e === "end") {
      const execution = of(effect.key).executions.find(({ token }) => token === effect.token);
      if (execution !== undefined) execution.end = { ...effect, at };
    } else if (effect.e === "seen") for (const key of effect.keys) of(key).seenAt ??= at;
  }
  return traces;
}

/**
 * Checks the log of effects on its own.
 * @param {readonly Effect[]} effects @param {Map<string, Trace>} traces @param {number} lease @param {Report} report
 */
export function checkEffects(effects, traces, lease, report) {
  const counts = { bodies: 0, repeated: 0, aborted: 0, late: 0 };
  const frozen = freezesOf(effects);
  for (const [key, { executions, seenAt }] of traces) {
    counts.bodies += executions.length;
    counts.repeated += Math.max(0, executions.length - 1);
    const highest = Math.max(...executions.map(({ attempt }) => attempt));
    const numbers = new Set();
    for (const execution of executions) {
      const { attempt, at, end } = execution;
      if (end?.aborted === true) counts.aborted++;
      // D1: the number of an attempt is durable before its body runs, so no worker can use it again.
      if (numbers.has(attempt)) report(`${key}: attempt ${attempt} ran twice`, { executions });
      numbers.add(attempt);
      // D6: a process that was frozen between the commit and the body may begin late, after a newer attempt has begun.
      if (seenAt !== undefined && at > seenAt) {
        if (attempt < highest) counts.late++;
        else report(`${key}: ran again after its outcome was durable`, { executions, seenAt });
      }
    }
    checkAborts(key, executions, frozen, lease, report);
  }
  return counts;
}

/** When each process was frozen, by pid; under 0, when the server could not be reached. @param {readonly Effect[]} effects */
function freezesOf(effects) {
  /** @type {Map<number, { from: number, to: number }[]>} */
  const freezes = new Map();
  for (const effect of effects) {
    if (effect.e !== "fault") continue;
    const list = freezes.get(effect.pid) ?? [];
    freezes.set(effect.pid, list);
    if (effect.what === "freeze" || effect.what === "down") list.push({ from: effect.t, to: Number.POSITIVE_INFINITY });
    const last = list.at(-1);
    if ((effect.what === "thaw" || effect.what === "up") && last !== undefined) last.to = effect.t;
  }
  return freezes;
}

/**
 * D4: a body whose run was taken over by another worker is aborted soon after its process can run.
 * @param {string} key @param {Trace["executions"]} executions @param {ReturnType<typeof freezesOf>} frozen @param {number} lease @param {Report} report
 */
function checkAborts(key, executions, frozen, lease, report) {
  const patience = 2 * lease + 1_000;
  for (const { attempt, pid, end } of executions) {
    const next = executions.find((other) => other.attempt > attempt);
    if (end === undefined || next === undefined || end.aborted || end.at < next.at) continue;
    let awake = end.t - next.t;
    for (const { from, to } of [...(frozen.get(pid) ?? []), ...(frozen.get(0) ?? [])])
      awake -= Math.max(0, Math.min(to, end.t) - Math.max(from, next.t));
    if (awake > patience)
      report(`${key}: attempt ${attempt} continued for ${Math.round(awake)} ms after the next attempt had begun, and was not aborted`, {
        executions,
      });
  }
}

/**
 * Compares the log of effects with the attempts that the engine lists for a run (D12).
 * @param {any} info @param {{ execution: number, operations: any[], lastOnly: boolean }} listed `lastOnly`: only the last attempt of each operation is listed
 * @param {Map<string, Trace>} traces @param {Report} report
 */
export function checkAttempts(info, { execution, operations, lastOnly }, traces, report) {
  for (const operation of operations) {
    if (!["step", "transaction", "activity"].includes(operation.kind)) continue;
    const { attempts, status, location, kind } = operation;
    if (lastOnly && status === "abandoned") continue;
    const key = keyOf(info.id, execution, location);
    const executions = traces.get(key)?.executions ?? [];
    const wrong = (/** @type {string} */ what) => report(`${key}: ${what}`, { operation, executions });
    const known = lastOnly ? (attempts.at(-1)?.number ?? 0) : attempts.length;
    if (executions.length > known) wrong(`${executions.length} bodies ran for ${known} attempts`);
    if (!lastOnly && attempts.some((/** @type {any} */ { number }, /** @type {number} */ i) => number !== i + 1))
      wrong("its attempts are not numbered consecutively");
    for (const { attempt, worker } of executions) {
      const row = attempts.find((/** @type {any} */ { number }) => number === attempt);
      if (row === undefined && lastOnly && attempt < known) continue;
      if (row === undefined) wrong(`attempt ${attempt} ran, but is not listed`);
      else if (worker !== undefined && row.workerId !== worker)
        wrong(`attempt ${attempt} ran on ${worker}, but is listed on ${row.workerId}`);
    }
    for (const [i, { status: how }] of attempts.entries()) {
      if (how === "running" && status !== "abandoned") wrong("one of its attempts is listed as running forever");
      if (how === "completed" && i < attempts.length - 1) wrong("it was retried after an attempt had completed");
    }
    if (status !== "completed") continue;
    const last = attempts.at(-1);
    if (last?.status !== "completed") wrong(`it is completed, but its last attempt is ${last?.status}`);
    const ran = executions.find(({ attempt }) => attempt === last?.number);
    if (ran === undefined && executions.length > 0) wrong("the attempt that completed it never ran");
    if (ran !== undefined && (ran.end === undefined || !ran.end.ok)) wrong("the body of the attempt that completed it did not succeed");
    // D4: the outcome is that of the last attempt, not of one that another worker took over.
    const token = operation.output?.token;
    if (kind === "step" && token !== undefined && ran !== undefined && ran.token !== token) wrong("its outcome is that of another attempt");
  }
}

/**
 * S1: the completed steps of a failed saga are rolled back, last first.
 * @param {any} info @param {Map<string, Trace>} traces @param {Report} report
 */
export function checkSaga(info, traces, report) {
  if (info.workflow !== "saga" || info.status !== "failed") return;
  const undone = [...traces]
    .filter(([key]) => key.startsWith(`${info.id}/~rollback/`))
    .map(([key, { executions }]) => ({ step: Number(/do-(\d+)/.exec(key)?.[1]), at: executions[0]?.at ?? 0 }))
    .sort((a, b) => a.at - b.at)
    .map(({ step }) => step);
  const wanted = Array.from({ length: info.input.failAt }, (_, i) => info.input.failAt - 1 - i);
  if (!isDeepStrictEqual(undone, wanted)) report(`saga ${info.id}: rolled back ${undone.join()}, not ${wanted.join()}`, { info });
}

/**
 * D6: the user's table contains every entry once.
 * @param {readonly any[]} infos @param {readonly { run: string, entry: number, amount: number }[]} rows @param {Report} report
 */
export function checkLedger(infos, rows, report) {
  const counts = new Map();
  for (const { run, entry, amount } of rows) counts.set(`${run} ${entry} ${amount}`, (counts.get(`${run} ${entry} ${amount}`) ?? 0) + 1);
  for (const { id, workflow, input } of infos) {
    if (workflow !== "ledger") continue;
    for (const [i, { value }] of input.entries.entries()) {
      const key = `${id} ${i} ${value}`;
      const count = counts.get(key) ?? 0;
      counts.delete(key);
      if (count !== 1) report(`ledger ${id}: entry ${i} is in the table ${count} times`);
    }
  }
  for (const key of counts.keys()) report(`the table has a row that no run wrote: ${key}`);
}
