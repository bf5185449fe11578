// Checks that a value from a file is a history, before it is used.
// Owns: the shape of each job and command, as far as replay relies on it.
// Invariants: Y5 (a value that is not a history is an InvalidInputError that names the place, never a crash).

import { preview, shorten } from "../base/text.ts";
import { InvalidInputError } from "../errors/index.ts";
import type { Command, Job, Turn } from "../protocol/index.ts";

type Check = (value: unknown) => boolean;
type Fields = Readonly<Record<string, Check>>;

const text: Check = (value) => typeof value === "string";
const number: Check = (value) => typeof value === "number" && Number.isFinite(value);
const count: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const payload: Check = (value) => typeof value === "string" || value instanceof Uint8Array;
const list =
  (item: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(item);
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const record: Check = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const has =
  (fields: Fields): Check =>
  (value) =>
    record(value) && wrongField(value as object, fields) === undefined;
const error = has({ name: text, message: text });
const OUTCOMES: Readonly<Record<string, Check>> = {
  completed: has({ value: payload }),
  failed: has({ error, attempts: optional(count) }),
  canceled: has({ reason: optional(text) }),
};
const outcome: Check = (value) => {
  const status = (value as { status?: unknown } | null)?.status;
  return typeof status === "string" && Object.hasOwn(OUTCOMES, status) && OUTCOMES[status]?.(value) === true;
};
const MESSAGES: Readonly<Record<string, Check>> = {
  signal: has({ id: text, name: text, payload }),
  update: has({ id: text, name: text, input: payload }),
  fire: has({ seq: number }),
};
const message: Check = (value) => {
  const type = (value as { type?: unknown } | null)?.type;
  return typeof type === "string" && Object.hasOwn(MESSAGES, type) && MESSAGES[type]?.(value) === true;
};

const JOBS: { readonly [T in Exclude<Job["type"], "query" | "evict">]: Fields } = {
  start: { runId: text, workflow: text, input: payload, seed: text, startedAt: number },
  resolve: { seq: number, outcome },
  fire: { seq: number },
  childStarted: { seq: number, runId: text, standsFor: optional(list(text)) },
  signal: { id: text, name: text, payload, refused: optional(text) },
  update: { id: text, name: text, input: payload, refused: optional(text) },
  cancel: { reason: optional(text) },
  patch: { id: text },
  seed: { seed: text },
  expire: { error },
  resume: { attempt: number, voids: list(number) },
  fork: { runId: text, from: text, version: optional(text), seed: text, startedAt: number },
};

const OPENING: Fields = { seq: number, unit: text, name: text, n: number };
const COMMANDS: { readonly [T in Command["type"]]: Fields } = {
  step: OPENING,
  transaction: OPENING,
  activity: { ...OPENING, input: payload },
  child: { ...OPENING, input: payload, id: text },
  sleep: OPENING,
  signalRun: { ...OPENING, payload },
  cancelRun: OPENING,
  rollback: { ...OPENING, of: number },
  sideEffect: { ...OPENING, value: optional(payload), error: optional(error) },
  signal: { ...OPENING, names: list(text) },
  childResult: { ...OPENING, child: number },
  condition: OPENING,
  ivar: OPENING,
  updateState: OPENING,
  parallel: { ...OPENING, branches: number },
  join: { ...OPENING, keys: list(text) },
  race: { ...OPENING, keys: list(text) },
  try: OPENING,
  shield: OPENING,
  loop: OPENING,
  receive: OPENING,
  refuse: { ...OPENING, kind: text, error },
  reuse: { ...OPENING, kind: text },
  patch: OPENING,
  rollbackCheckpoint: OPENING,
  attributes: { ...OPENING, attributes: record },
  settle: { seq: number, status: text, messages: optional(list(text)) },
  winner: { seq: number, key: text },
  cancel: { seq: number },
  dispatch: { seq: number, unit: text, message: text },
  acceptUpdate: { seq: number, id: text },
  completeUpdate: { seq: number, id: text, status: text, value: optional(payload), error: optional(error) },
  handlerFailed: { seq: number, unit: text, error },
  commit: {
    seq: number,
    unit: text,
    count: number,
    value: payload,
    state: optional(payload),
    messages: optional(list(message)),
    lastSeq: number,
    rollbacks: optional(list(number)),
  },
  rollBack: { error },
  complete: { value: payload },
  fail: { error },
  canceled: {},
  continueAsNew: { input: payload },
};

const TURN: Fields = { index: number, time: number, historyLength: optional(count), jobs: Array.isArray, commands: Array.isArray };

export function checkTurn(value: unknown, i: number): Turn {
  const path = `turns[${i}]`;
  if (!record(value)) throw malformed("A turn is an object.", path);
  const field = wrongField(value as object, TURN);
  if (field !== undefined) throw malformed("A turn has an index, a time, a historyLength, jobs and commands.", `${path}.${field}`);
  const turn = value as Turn;
  for (const [at, job] of turn.jobs.entries()) checkEntry("job", job, JOBS, `${path}.jobs[${at}]`);
  for (const [at, command] of turn.commands.entries()) checkEntry("command", command, COMMANDS, `${path}.commands[${at}]`);
  return turn;
}

function checkEntry(kind: string, entry: unknown, shapes: Readonly<Record<string, Fields>>, path: string): void {
  const type = (entry as { type?: unknown } | null)?.type;
  if (typeof type !== "string" || !Object.hasOwn(shapes, type)) {
    throw malformed(`Unknown ${kind} ${shorten(preview(entry), 80)}.`, path);
  }
  const field = wrongField(entry as object, shapes[type] ?? {});
  if (field !== undefined) throw malformed(`The ${kind} "${type}" has no valid ${field}.`, `${path}.${field}`);
}

/** The first field that is missing or has the wrong type. */
function wrongField(entry: object, fields: Fields): string | undefined {
  const values = entry as Readonly<Record<string, unknown>>;
  return Object.keys(fields).find((field) => fields[field]?.(values[field]) !== true);
}

export function malformed(message: string, path?: string): InvalidInputError {
  const issue = path === undefined ? { message } : { message, path: [path] };
  return new InvalidInputError({ what: "history", issues: [issue] });
}
