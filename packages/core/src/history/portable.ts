// `History`: the turns of an execution as readable JSON, the input of `replay`.
// Owns: writing and reading the format `holdfast-history/1`.
// Invariants: P8 (plain values are plain JSON in it), Y5 (a history needs only the code to be replayed; any other value is rejected).

import { preview } from "../base/text.ts";
import { payloadFromJson, payloadToJson } from "../codec/index.ts";
import type { History, RunStatus } from "../model/index.ts";
import { type ForkJob, PAYLOAD_FIELDS, type Payload, type StartJob, type Turn } from "../protocol/index.ts";
import { checkTurn, malformed } from "./checkHistory.ts";
import { checkOrder } from "./order.ts";

/** The format of histories that this version writes. */
export const HISTORY_FORMAT = "holdfast-history/1";

/** Far deeper than records are nested, and far from overflowing the stack. */
const MAX_DEPTH = 1_000;

/** What a host knows about the run besides its turns, of which there may be none yet (Y5). */
export interface HistoryOf {
  /** The id of the run. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that it was started with. */
  readonly version?: string | undefined;
  /** The input, encoded. */
  readonly input: Payload;
  /** Its status. */
  readonly status: RunStatus;
}

/** The portable history of a run. */
export function toHistory(turns: readonly Turn[], run: HistoryOf): History {
  const start = turns[0]?.jobs.find((job): job is StartJob => job.type === "start");
  const fork = turns.flatMap(({ jobs }) => jobs).findLast((job): job is ForkJob => job.type === "fork");
  // The start job takes precedence: the host may have read `run` after the run moved on to its next execution. That of a fork is its source's.
  const { workflow, input } = start ?? run;
  const { version } = fork ?? start ?? run;
  return {
    format: HISTORY_FORMAT,
    run: { id: run.id, workflow, version, input: payloadToJson(input), status: run.status },
    turns: turns.map((turn) => mapPayloads(turn, (value) => payloadToJson(value as Payload))),
  };
}

/**
 * The turns of a portable history.
 * @throws `InvalidInputError` if it is malformed.
 */
export function fromHistory(history: History): Turn[] {
  if (typeof history !== "object" || history === null || history.format !== HISTORY_FORMAT) {
    throw malformed(`The format is ${preview((history as { format?: unknown } | null)?.format)}, not "${HISTORY_FORMAT}".`);
  }
  if (typeof history.run !== "object" || history.run === null) throw malformed("The run is missing.", "run");
  if (typeof history.run.workflow !== "string") throw malformed("The name of the workflow is missing.", "run.workflow");
  if (!Array.isArray(history.turns)) throw malformed("The list of turns is missing.", "turns");
  const turns = Array.from(history.turns, (turn, i) =>
    checkTurn(
      mapPayloads(turn, (value) => payloadFromJson(value)),
      i,
    ),
  );
  checkOrder(turns);
  return turns;
}

/** Copies a tree of records and converts its payload fields. Errors are not visited: the names in their `data` belong to the user. */
function mapPayloads(tree: unknown, convert: (value: unknown) => unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) throw malformed(`A turn is nested more than ${MAX_DEPTH} levels deep.`, "turns");
  if (Array.isArray(tree)) return Array.from(tree, (item) => mapPayloads(item, convert, depth + 1)); // Array.from also visits holes
  if (typeof tree !== "object" || tree === null || tree instanceof Uint8Array) return tree;
  const copy: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(tree)) {
    if (value === undefined) continue;
    if (PAYLOAD_FIELDS.has(key)) copy[key] = convert(value);
    else if (key === "error" || key === "rollbackError" || key === "attributes") copy[key] = value;
    else copy[key] = mapPayloads(value, convert, depth + 1);
  }
  return copy;
}
