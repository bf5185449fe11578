// Turns on their way to the server: a batch becomes one call.
// Owns: which turns are usual ones and go together, and what each is handed over as.
// Invariants: D2 D3 (one call per batch, whatever is in it; each turn is independent), D9.

import type { Turn } from "@holdfast/core";
import type { Answer, CommitResult, ExecutionStart, SendResult, TurnCommit, Wakeup } from "holdfast/store";
import { compareAsBytes, numberArray, optionalPayload, payload, readText, TextArray, text, textArray } from "../columns.ts";
import { isDamage } from "../connection/serverErrors.ts";
import type { NameIds } from "../nameIds.ts";
import { DIRECTIONS, TURN_KINDS } from "../sql/fragments.ts";
import { NO_RECORD, recordsOf } from "./history.ts";
import { type RecordFields, toFields } from "./recordCodec.ts";
import { commitFields, endFields, firstOfEach, isHearing, isUsual, lastOfEach, type Reach, rowFields, updateFields } from "./rowFields.ts";
import { attemptFields, type InboxColumns, inboxMessage } from "./runRow.ts";

/** Of a run that begins with this turn, if it is known. */
export type ExecutionStartOf = (commit: TurnCommit) => ExecutionStart | undefined;

// ── a batch ──

/** The parameters of `commit_turns_1`, and how to read its answer. */
export interface CommitBatch {
  readonly parameters: readonly (string | null)[];
  /** Which of the batch go one by one. */
  readonly others: readonly number[];
  readonly usual: readonly number[];
}

export function commitBatch(
  commits: readonly TurnCommit[],
  names: NameIds,
  executionStartOf: ExecutionStartOf,
  goesUsual: (commit: TurnCommit) => boolean = isUsual,
): CommitBatch {
  const usual: { readonly at: number; readonly id: string; readonly commit: TurnCommit }[] = [];
  const others: number[] = [];
  const rest: object[] = [];
  const reach: Reach = { touched: [], ending: [] };
  const runs = new Set<string>();
  const twice = new Set<string>();
  for (const { runId } of commits) (runs.has(runId) ? twice : runs).add(runId);
  for (const [at, commit] of commits.entries()) {
    // Turns of one run are applied in order, so one by one.
    if (goesUsual(commit) && !twice.has(commit.runId)) usual.push({ at, id: text(commit.runId), commit });
    else {
      others.push(at);
      rest.push(commitFields(commit, names, executionStartOf(commit), reach));
    }
  }
  usual.sort((a, b) => compareAsBytes(a.id, b.id));
  const ids = new TextArray();
  const numbers: number[] = [];
  const turns: object[] = [];
  const records = new RecordColumns();
  const consumed: object[] = [];
  const states: object[] = [];
  const attempts: object[] = [];
  const updates: object[] = [];
  let i = 0;
  for (const { id, commit } of usual) {
    i++;
    ids.add(id);
    const { turn, close } = commit;
    const kind = kindOf(commit);
    addNumbers(numbers, commit, kind, names);
    if (kind !== TURN_KINDS.runsOn) turns.push(close === undefined ? rowFields(i, commit) : endFields(i, close, commit.lateIf));
    if (close !== undefined) reach.ending.push(id);
    if (turn !== undefined) records.addAll(i, turn, executionStartOf(commit));
    if (commit.consumed !== undefined) for (const one of commit.consumed) consumed.push({ i, id: one });
    if (commit.state !== undefined) states.push({ i, state: payload(commit.state) });
    if (commit.updates !== undefined) for (const update of firstOfEach(commit.updates)) updates.push({ i, ...updateFields(update) });
    if (commit.attempts !== undefined)
      for (const row of lastOfEach(commit.attempts, ({ seq, number }) => `${seq}.${number}`))
        attempts.push({ i, x: commit.execution, ...attemptFields(row) });
  }
  const hasMore = consumed.length + states.length + attempts.length + updates.length > 0;
  return {
    parameters: [
      ids.parameter,
      numberArray(numbers),
      jsonArray(turns),
      ...records.parameters,
      hasMore ? JSON.stringify({ consumed, states, attempts, updates }) : null,
      jsonArray(rest),
      jsonArray(reach.touched),
      jsonArray(reach.ending),
    ],
    others,
    usual: usual.map(({ at }) => at),
  };
}
function jsonArray(items: readonly unknown[]): string | null {
  return items.length === 0 ? null : JSON.stringify(items);
}

type TurnKind = (typeof TURN_KINDS)[keyof typeof TURN_KINDS];

function kindOf(commit: TurnCommit): TurnKind {
  const { turn, close, lease, status, waitingFor, blocked } = commit;
  if (close !== undefined) return isHearing(commit) ? TURN_KINDS.endsHearing : TURN_KINDS.ends;
  if (lease !== "keep") return TURN_KINDS.parks;
  const runsOn = turn !== undefined && recordsOf(turn) > 0 && status === "running" && waitingFor === undefined && blocked === undefined;
  return runsOn ? TURN_KINDS.runsOn : TURN_KINDS.keeps;
}
/** In the order of `TURN_NUMBERS`. */
function addNumbers(to: number[], commit: TurnCommit, kind: TurnKind, names: NameIds): void {
  const { execution, epoch, seen = 0, rollbacks = -1, turn, workerId } = commit;
  if (turn === undefined) to.push(execution, epoch, seen, kind, rollbacks, -1, 0, 0, 0, 0);
  else to.push(execution, epoch, seen, kind, rollbacks, turn.index, turn.time, turn.historyLength, recordsOf(turn), names.worker(workerId));
}

/** Records of a batch, column by column. */
class RecordColumns {
  readonly #places: number[] = [];
  readonly #types = new TextArray();
  readonly #units = new TextArray();
  readonly #names = new TextArray();
  readonly #refs = new TextArray();
  readonly #data = new TextArray();
  readonly #values = new TextArray();
  readonly #states = new TextArray();

  /** `i`: the number of their turn in the batch. */
  addAll(i: number, turn: Turn, executionStart: ExecutionStart | undefined): void {
    let position = 0;
    for (const job of turn.jobs) this.#add(i, position++, JOB, toFields(job, executionStart));
    for (const command of turn.commands) this.#add(i, position++, COMMAND, toFields(command));
    if (position === 0) this.#add(i, position++, WHOLE_TURN, NO_RECORD);
    this.#states.add(optionalPayload(turn.state));
    for (; position > 1; position--) this.#states.add(undefined);
  }
  #add(i: number, position: number, direction: number, { y, q = -1, n = -1, u, m, f, d, v }: RecordFields): void {
    this.#places.push(i, position, direction, q, n);
    this.#types.add(y);
    this.#units.add(u);
    this.#names.add(m);
    this.#refs.add(f === undefined ? undefined : textArray(f));
    this.#data.add(d);
    this.#values.add(v);
  }
  /** In the order of the function's. */
  get parameters(): (string | null)[] {
    const texts = [this.#types, this.#units, this.#names, this.#refs, this.#data, this.#values, this.#states];
    return [numberArray(this.#places), ...texts.map(({ parameter }) => parameter)];
  }
}
const direction = (name: (typeof DIRECTIONS)[number]): number => DIRECTIONS.indexOf(name) + 1;
const [JOB, COMMAND, WHOLE_TURN] = [direction("job"), direction("command"), direction("turn")];

interface CommitAnswer {
  readonly stale?: readonly number[] | null;
  /** Of these, those whose end is late (D9): their claims hold. */
  readonly late?: readonly number[] | null;
  /** Runs that can't end yet, since a caller's transaction with a signal for them is open. */
  readonly busy?: readonly number[] | null;
  readonly inbox?: readonly (readonly [number, ...InboxColumns])[] | null;
  readonly others?: readonly OtherAnswer[] | null;
  readonly due?: boolean | null;
  /** The end of one of them reached others. */
  readonly family?: boolean;
  /** Those whose runs go on with their next start (Q9). */
  readonly next?: readonly number[] | null;
}
interface OtherAnswer {
  readonly stale?: boolean;
  readonly busy?: boolean;
  readonly late?: boolean;
  readonly next?: boolean;
  readonly inbox?: readonly InboxColumns[];
  readonly sent?: readonly SentAnswer[] | null;
  readonly length?: number;
}
export interface SentAnswer {
  readonly s: SendResult["status"];
  readonly i?: number;
  readonly r?: string;
  readonly w?: string;
}

export function sendResult({ s, i = 0, r, w = "" }: SentAnswer): SendResult {
  if (s === "not-found") return { status: s };
  if (s === "other-workflow") return { status: s, workflow: readText(w) };
  return s === "closed" ? { status: s, runStatus: r as Extract<SendResult, { status: "closed" }>["runStatus"] } : { status: s, inboxId: i };
}

export function commitResults(
  commits: readonly TurnCommit[],
  batchOf: () => CommitBatch,
  json: string,
): { results: Answer<CommitResult>[]; due: boolean; family: boolean } {
  // All is written, and there are no messages.
  if (json === "{}") return { results: commits.map(() => ({ status: "committed", inbox: [] })), due: false, family: false };
  const { usual, others } = batchOf();
  const answer = JSON.parse(json) as CommitAnswer;
  const results: Answer<CommitResult>[] = new Array(commits.length);
  for (const at of usual) results[at] = { status: "committed", inbox: [] };
  for (const i of answer.next ?? []) results[usual[i - 1] as number] = { status: "committed", inbox: [], goesOn: true };
  for (const i of answer.stale ?? []) results[usual[i - 1] as number] = { status: "stale" };
  for (const i of answer.busy ?? []) results[usual[i - 1] as number] = "busy";
  for (const i of answer.late ?? []) results[usual[i - 1] as number] = { status: "late", inbox: [] };
  for (const [i, ...columns] of answer.inbox ?? []) {
    const at = usual[i - 1] as number;
    const result = results[at];
    if (result !== undefined && result !== "busy" && result.status !== "stale")
      results[at] = readable(() => ({ ...result, inbox: [...result.inbox, inboxMessage(columns)] }));
  }
  for (const [n, at] of others.entries()) {
    const other = answer.others?.[n] ?? { stale: true };
    results[at] = other.busy === true ? "busy" : readable(() => otherResult(other));
  }
  return { results, due: answer.due === true, family: answer.family === true };
}
/** A run whose messages can't be read counts as lost, though its turn was written: the next claim blocks it. Others of its batch go on. */
function readable(read: () => CommitResult): CommitResult {
  try {
    return read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { status: "stale" };
  }
}
function otherResult({ stale, late, next, inbox = [], sent, length }: OtherAnswer): CommitResult {
  if (stale === true) return { status: "stale" };
  if (late === true) return { status: "late", inbox: inbox.map(inboxMessage) };
  return {
    status: "committed",
    inbox: inbox.map(inboxMessage),
    ...(next === true && { goesOn: true }),
    ...(sent !== null && sent !== undefined && { sent: sent.map(sendResult) }),
    ...(length !== undefined && { historyLength: length }),
  };
}

/** What others may care about, of what was committed. */
export function changesOf(
  commits: readonly TurnCommit[],
  results: readonly Answer<CommitResult>[],
  due: boolean,
  family: boolean,
): { here: Wakeup; elsewhere: Wakeup } {
  const changes = { work: due || family, messages: family, tasks: family, results: false };
  const ended: string[] = [];
  let alarms = false;
  const goTogether = new Set(commits.map(({ runId }) => runId)).size === commits.length;
  for (const [i, commit] of commits.entries()) {
    const result = results[i];
    if (result === undefined || result === "busy" || result.status !== "committed") continue;
    const { children, sends, cancelChildren, tasks, cancelTasks, updates, close, status, lease, wakeAt } = commit;
    if (children !== undefined || sends !== undefined || cancelChildren !== undefined) changes.work = changes.messages = true;
    if (close !== undefined && (close.status === "continued" || children !== undefined)) changes.work = true;
    // Of those that go one by one it is not known whether their end has reached others.
    if (close !== undefined && !(goTogether && isUsual(commit))) changes.work = changes.messages = true;
    // K9: a run that has not begun is canceled at once.
    if (cancelChildren !== undefined || sends?.some(({ message }) => message.job.type === "cancel") === true) changes.results = true;
    // Workers that run an abandoned activity are notified.
    if (tasks !== undefined || cancelTasks !== undefined || close?.status === "continued") changes.tasks = true;
    if (updates !== undefined || (close !== undefined && close.status !== "continued") || status === "blocked") {
      changes.results = true;
      ended.push(commit.runId);
    }
    if (lease === "park" && wakeAt !== undefined) alarms = true;
  }
  // A wake-up that is to come is for this process to wait for; others find it when they look next.
  const isKnown = changes.results && !changes.messages; // no other run has ended: a family ends together
  return { here: { ...changes, work: changes.work || alarms }, elsewhere: isKnown ? { ...changes, ended } : changes };
}
