// Turns on their way to the server: a batch becomes one call.
// Owns: which turns are usual ones and go together, and what each is handed over as.
// Invariants: D2 D3 (one call a batch, whatever is in it; each turn stands alone), D9.

import type { CommitResult, SendResult, TurnCommit, Wakeup } from "holdfast";
import { compareAsBytes, numberArray, payload, text, textArray } from "./columns.ts";
import { isDamage } from "./failures.ts";
import {
  commitFields,
  endFields,
  firstOfEach,
  isUsual,
  lastOfEach,
  type Reach,
  type TurnFields,
  turnFields,
  updateFields,
} from "./fields.ts";
import { placesOf, type RecordPlace } from "./history.ts";
import type { Names } from "./names.ts";
import type { Birth } from "./recordCodec.ts";
import { attemptFields, type InboxColumns, inboxMessage } from "./runs.ts";
import { DIRECTIONS, TURN_KINDS } from "./schema/turns.ts";

/** Of a run that begins with this turn, if it is known. */
export type BirthOf = (commit: TurnCommit) => Birth | undefined;

// ── a batch ──

/** The parameters of `commit_turns_1`, and how to read its answer. */
export interface CommitBatch {
  readonly parameters: readonly (string | null)[];
  /** Which of the batch go one by one. */
  readonly others: readonly number[];
  readonly usual: readonly number[];
}

export function commitBatch(commits: readonly TurnCommit[], names: Names, birthOf: BirthOf): CommitBatch {
  const usual: number[] = [];
  const others: number[] = [];
  const rest: object[] = [];
  const reach: Reach = { touched: [], ending: [] };
  const runs = new Set<string>();
  const twice = new Set<string>();
  for (const { runId } of commits) (runs.has(runId) ? twice : runs).add(runId);
  for (const [at, commit] of commits.entries()) {
    // Turns of one run are applied in order, so one by one.
    if (isUsual(commit) && !twice.has(commit.runId)) usual.push(at);
    else {
      others.push(at);
      rest.push(commitFields(commit, names, birthOf(commit), reach));
    }
  }
  const inOrder = (usual.map((at) => [at, commits[at]]) as [number, TurnCommit][]).sort(([, a], [, b]) =>
    compareAsBytes(text(a.runId), text(b.runId)),
  );
  const ids: string[] = [];
  const numbers: number[] = [];
  const turns: object[] = [];
  const records = new RecordColumns();
  const consumed: object[] = [];
  const states: object[] = [];
  const attempts: object[] = [];
  const updates: object[] = [];
  for (const [, commit] of inOrder) {
    const { execution: x, turn, close, state } = commit;
    const fields = turnFields(commit);
    const i = ids.push(fields.id);
    numbers.push(...turnNumbers(commit, fields, names));
    turns.push({
      i,
      ...fields,
      ...(turn !== undefined && { ti: turn.index, hl: turn.historyLength }),
      ...(close !== undefined && endFields(close)),
    });
    if (close !== undefined) reach.ending.push(fields.id);
    if (turn !== undefined) for (const place of placesOf(turn, birthOf(commit))) records.add(i, place);
    for (const id of commit.consumed ?? []) consumed.push({ i, id });
    if (state !== undefined) states.push({ i, state: payload(state) });
    for (const update of firstOfEach(commit.updates ?? [])) updates.push({ i, ...updateFields(update) });
    for (const row of lastOfEach(commit.attempts ?? [], ({ seq, number }) => `${seq}.${number}`))
      attempts.push({ i, x, ...attemptFields(row) });
  }
  const hasMore = consumed.length + states.length + attempts.length + updates.length > 0;
  const more = hasMore ? JSON.stringify({ consumed, states, attempts, updates }) : null;
  return {
    parameters: [
      textArray(ids),
      numberArray(numbers),
      JSON.stringify(turns),
      ...records.parameters,
      more,
      rest.length === 0 ? null : JSON.stringify(rest),
      reach.touched.length === 0 ? null : JSON.stringify(reach.touched),
      reach.ending.length === 0 ? null : JSON.stringify(reach.ending),
    ],
    others,
    usual: inOrder.map(([at]) => at),
  };
}

/** In the order of `TURN_NUMBERS`. */
function turnNumbers({ turn, close, workerId }: TurnCommit, { x, e, n, s, k, seen, wf, rb, er, bc }: TurnFields, names: Names): number[] {
  const runsOn = k && n > 0 && s === "running" && wf === undefined && er === undefined && bc === undefined;
  const kind = close !== undefined ? TURN_KINDS.ends : runsOn ? TURN_KINDS.runsOn : TURN_KINDS.changes;
  const whole = turn === undefined ? [0, 0, 0, 0] : [turn.index, turn.time, turn.historyLength, names.worker(workerId)];
  return [x, e, seen, kind, rb ?? -1, ...whole];
}

/** Records of a batch, column by column. */
class RecordColumns {
  readonly #places: number[] = [];
  readonly #columns: Record<"y" | "u" | "m" | "f" | "d" | "v" | "s", (string | undefined)[]> = {
    y: [],
    u: [],
    m: [],
    f: [],
    d: [],
    v: [],
    s: [],
  };

  /** `turn`: the number of its turn in the batch. */
  add(turn: number, { p, k, y, q = -1, n = -1, u, m, f, d, v, s }: RecordPlace): void {
    this.#places.push(turn, p, DIRECTIONS.indexOf(k) + 1, q, n);
    const columns = this.#columns;
    columns.y.push(y);
    columns.u.push(u);
    columns.m.push(m);
    columns.f.push(f === undefined ? undefined : (textArray(f) ?? "{}"));
    columns.d.push(d);
    columns.v.push(v);
    columns.s.push(s);
  }
  get parameters(): (string | null)[] {
    return [numberArray(this.#places), ...Object.values(this.#columns).map(textArray)];
  }
}

interface CommitAnswer {
  readonly stale?: readonly number[] | null;
  readonly inbox?: readonly (readonly [number, ...InboxColumns])[] | null;
  readonly others?: readonly OtherAnswer[] | null;
  readonly due?: boolean | null;
  /** The end of one of them reached others. */
  readonly family?: boolean;
}
interface OtherAnswer {
  readonly stale?: boolean;
  readonly inbox?: readonly InboxColumns[];
  readonly sent?: readonly SentAnswer[] | null;
  readonly length?: number;
}
export interface SentAnswer {
  readonly s: "sent" | "duplicate" | "not-found" | "closed";
  readonly i?: number;
  readonly r?: string;
}

export function sendResult({ s, i = 0, r }: SentAnswer): SendResult {
  if (s === "not-found") return { status: s };
  return s === "closed" ? { status: s, runStatus: r as Extract<SendResult, { status: "closed" }>["runStatus"] } : { status: s, inboxId: i };
}

export function commitResults(
  commits: readonly TurnCommit[],
  { usual, others }: CommitBatch,
  json: string,
): { results: CommitResult[]; due: boolean; family: boolean } {
  const answer = JSON.parse(json) as CommitAnswer;
  const results: CommitResult[] = new Array(commits.length);
  for (const at of usual) results[at] = { status: "committed", inbox: [] };
  for (const i of answer.stale ?? []) results[usual[i - 1] as number] = { status: "stale" };
  for (const [i, ...columns] of answer.inbox ?? []) {
    const at = usual[i - 1] as number;
    const result = results[at];
    if (result?.status === "committed") results[at] = readable(() => ({ ...result, inbox: [...result.inbox, inboxMessage(columns)] }));
  }
  for (const [n, at] of others.entries()) results[at] = readable(() => otherResult(answer.others?.[n] ?? { stale: true }));
  return { results, due: answer.due === true, family: answer.family === true };
}
/** A run whose messages can't be read is let go, though its turn was written: the next claim blocks it. Others of its batch go on. */
function readable(read: () => CommitResult): CommitResult {
  try {
    return read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { status: "stale" };
  }
}
function otherResult({ stale, inbox = [], sent, length }: OtherAnswer): CommitResult {
  if (stale === true) return { status: "stale" };
  return {
    status: "committed",
    inbox: inbox.map(inboxMessage),
    ...(sent !== null && sent !== undefined && { sent: sent.map(sendResult) }),
    ...(length !== undefined && { historyLength: length }),
  };
}

/** What others may care about, of what was committed. */
export function changesOf(
  commits: readonly TurnCommit[],
  results: readonly CommitResult[],
  due: boolean,
  family: boolean,
): { here: Wakeup; elsewhere: Wakeup } {
  const changes = { work: due || family, messages: family, tasks: false, results: false };
  let alarms = false;
  for (const [i, commit] of commits.entries()) {
    if (results[i]?.status !== "committed") continue;
    const { children, sends, cancelChildren, tasks, updates, close, status, lease, wakeAt } = commit;
    if (children !== undefined || sends !== undefined || cancelChildren !== undefined) changes.work = changes.messages = true;
    if (close !== undefined && (close.status === "continued" || children !== undefined)) changes.work = true;
    // Of those that go one by one it is not known whether their end has reached others.
    if (close !== undefined && !isUsual(commit)) changes.work = changes.messages = true;
    if (tasks !== undefined) changes.tasks = true;
    if (updates !== undefined || (close !== undefined && close.status !== "continued") || status === "blocked") changes.results = true;
    if (lease === "park" && wakeAt !== undefined) alarms = true;
  }
  // A wake-up that is to come is for this process to wait for; others find it when they look next.
  return { here: { ...changes, work: changes.work || alarms }, elsewhere: changes };
}
