// The required fields of each record, for stores that keep fields in separate columns, where one may have been lost.
// Owns: the fields that each kind of job and command requires. `checkHistory.ts` checks all fields of a history from a file.
// Invariants: every kind is listed (the compiler checks it); a missing field is a TypeError, never a wrong value.

import type { Command, Job } from "../protocol/index.ts";

/** The type of each field. Payload fields may also be bytes (see `isBytes`). */
const KINDS = {
  seq: "number",
  unit: "string",
  name: "string",
  n: "number",
  id: "string",
  message: "string",
  input: "string",
  payload: "string",
  value: "string",
  voids: "object",
  runId: "string",
  from: "string",
  seed: "string",
  startedAt: "number",
} as const;
type Needed = readonly (keyof typeof KINDS)[];

const NEEDED_BY_JOBS: { readonly [T in Exclude<Job["type"], "resolve">]: Needed } = {
  start: ["input"],
  fire: ["seq"],
  childStarted: ["seq"],
  signal: ["id", "name", "payload"],
  update: ["id", "name", "input"],
  query: ["id", "name"],
  cancel: [],
  patch: ["id", "unit"],
  seed: [],
  expire: [],
  resume: ["voids"],
  fork: ["runId", "from", "seed", "startedAt"],
  evict: [],
};

const LOCATION: Needed = ["seq", "unit", "name", "n"];
const NEEDED_BY_COMMANDS: { readonly [T in Command["type"]]: Needed } = {
  step: LOCATION,
  transaction: LOCATION,
  activity: [...LOCATION, "input"],
  child: [...LOCATION, "input", "id"],
  sleep: LOCATION,
  signalRun: [...LOCATION, "payload"],
  cancelRun: LOCATION,
  rollback: LOCATION,
  sideEffect: LOCATION,
  signal: LOCATION,
  childResult: LOCATION,
  condition: LOCATION,
  ivar: LOCATION,
  updateState: LOCATION,
  parallel: LOCATION,
  join: LOCATION,
  race: LOCATION,
  try: LOCATION,
  shield: LOCATION,
  loop: LOCATION,
  receive: LOCATION,
  refuse: LOCATION,
  reuse: LOCATION,
  patch: LOCATION,
  rollbackCheckpoint: LOCATION,
  attributes: LOCATION,
  settle: ["seq"],
  winner: ["seq"],
  cancel: ["seq"],
  dispatch: ["seq", "unit", "message"],
  acceptUpdate: ["seq", "id"],
  completeUpdate: ["seq", "id"],
  handlerFailed: ["seq", "unit"],
  commit: ["seq", "unit", "value"],
  rollBack: [],
  complete: ["value"],
  fail: [],
  canceled: [],
  continueAsNew: ["input"],
};

/**
 * Checks a job that was read from a history.
 * @throws `InvalidInputError` if a field is missing.
 */
export function checkJob(job: Job): void {
  if (job.type !== "resolve") check(job, NEEDED_BY_JOBS[job.type]);
}
/**
 * Checks a command that was read from a history.
 * @throws `InvalidInputError` if a field is missing.
 */
export function checkCommand(command: Command): void {
  check(command, NEEDED_BY_COMMANDS[command.type]);
}
/** Records of an unknown kind (from a newer version) are not checked. */
function check(record: Job | Command, needed: Needed | undefined): void {
  if (needed === undefined) return;
  const fields = record as unknown as Readonly<Record<string, unknown>>;
  for (const field of needed) {
    const value = fields[field];
    if (typeof value === KINDS[field] ? KINDS[field] !== "object" || Array.isArray(value) : isBytes(field, value)) continue;
    throw new TypeError(`A ${record.type} has no valid ${field}.`);
  }
}
function isBytes(field: keyof typeof KINDS, value: unknown): boolean {
  return (field === "value" || field === "input" || field === "payload") && value instanceof Uint8Array;
}
