// `History`: the turns of an execution as JSON that a person can read and `replay` can take.
// Owns: the format `holdfast-history/1`, both ways, and the check of what comes in.
// Invariants: P8 (plain values are plain JSON in it), Y5 (replay is possible anywhere the code is).

import { payloadFromJson, payloadToJson } from "../codec/index.ts";
import { InvalidInputError } from "../errors/index.ts";
import type { History, RunStatus } from "../model/index.ts";
import { IDENTITY, PAYLOAD_FIELDS, type Payload, type StartJob, type Turn } from "../protocol/index.ts";

export const HISTORY_FORMAT = "holdfast-history/1";

export function toHistory(turns: readonly Turn[], status: RunStatus): History {
  const start = turns[0]?.jobs.find((job): job is StartJob => job.type === "start");
  return {
    format: HISTORY_FORMAT,
    run: {
      id: start?.runId ?? "",
      workflow: start?.workflow ?? "",
      version: start?.version,
      input: start === undefined ? undefined : payloadToJson(start.input),
      status,
    },
    turns: turns.map((turn) => mapPayloads(turn, (value) => payloadToJson(value as Payload))),
  };
}

export function fromHistory(history: History): Turn[] {
  if (typeof history !== "object" || history === null || history.format !== HISTORY_FORMAT) {
    throw malformed(`Its format is ${JSON.stringify((history as { format?: unknown } | null)?.format)}, not "${HISTORY_FORMAT}".`);
  }
  if (!Array.isArray(history.turns)) throw malformed("It has no list of turns.", "turns");
  return history.turns.map((turn, i) =>
    checkTurn(
      mapPayloads(turn, (value) => payloadFromJson(value)),
      i,
    ),
  );
}

/** Copies a tree of records; payload fields pass through `convert`. Errors are kept as they are: their `data` is their own. */
function mapPayloads(tree: unknown, convert: (value: unknown) => unknown): unknown {
  if (Array.isArray(tree)) return tree.map((item) => mapPayloads(item, convert));
  if (typeof tree !== "object" || tree === null || tree instanceof Uint8Array) return tree;
  const copy: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(tree)) {
    if (value === undefined) continue;
    if (PAYLOAD_FIELDS.has(key)) copy[key] = convert(value);
    else if (key === "error" || key === "rollbackError" || key === "attributes") copy[key] = value;
    else copy[key] = mapPayloads(value, convert);
  }
  return copy;
}

const JOB_TYPES: ReadonlySet<string> = new Set([
  "start", "resolve", "fire", "childStarted", "signal", "update", "cancel", "patch", "seed", "expire", "resume",
]); // biome-ignore format: one line reads best

function checkTurn(value: unknown, i: number): Turn {
  const path = `turns[${i}]`;
  const turn = value as Partial<Turn> | null;
  if (typeof turn !== "object" || turn === null) throw malformed("A turn is an object.", path);
  if (typeof turn.time !== "number" || typeof turn.index !== "number") throw malformed("A turn has an index and a time.", path);
  if (!Array.isArray(turn.jobs) || !Array.isArray(turn.commands)) throw malformed("A turn has jobs and commands.", path);
  for (const job of turn.jobs) {
    if (!JOB_TYPES.has((job as { type?: string } | null)?.type ?? ""))
      throw malformed(`Unknown job ${JSON.stringify(job)?.slice(0, 80)}.`, `${path}.jobs`);
  }
  for (const command of turn.commands) {
    if (!Object.hasOwn(IDENTITY, (command as { type?: string } | null)?.type ?? "")) {
      throw malformed(`Unknown command ${JSON.stringify(command)?.slice(0, 80)}.`, `${path}.commands`);
    }
  }
  return turn as Turn;
}

function malformed(message: string, path?: string): InvalidInputError {
  const issue = path === undefined ? { message } : { message, path: [path] };
  return new InvalidInputError({ what: "history", issues: [issue] });
}
