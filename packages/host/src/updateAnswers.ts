// The replies to updates that a turn produces.
// Owns: nothing.
// Invariants: M8 M10 (each update has one outcome, stored with the turn that produced it).

import type { Completion, Payload, SerializedError } from "@holdfast/core";

/** The end of an update, for its callers (M10). */
export type UpdateOutcome =
  | {
      readonly status: "completed";
      /** The reply, encoded. */
      readonly value: Payload;
    }
  | {
      /** Whether its handler failed, or no receive accepted it. */
      readonly status: "failed" | "rejected";
      /** Why. */
      readonly error: SerializedError;
    };
/** The outcome of an update, for its sender. */
export interface UpdateAnswer {
  /** The id of the update. */
  readonly id: string;
  /** Its outcome. */
  readonly outcome: UpdateOutcome;
}

const NO_ANSWERS: readonly UpdateAnswer[] = [];

/** The outcomes of updates that a turn has decided. */
export function updateAnswers({ commands, replies }: Completion & { status: "ok" }): readonly UpdateAnswer[] {
  let answers: UpdateAnswer[] | undefined;
  for (const reply of replies) {
    if (reply.type !== "rejectUpdate") continue;
    answers ??= [];
    answers.push({ id: reply.id, outcome: { status: "rejected", error: reply.error } });
  }
  for (const command of commands) {
    if (command.type !== "completeUpdate") continue;
    const { id, value, error } = command;
    answers ??= [];
    answers.push({ id, outcome: replyOf(value, error) });
  }
  return answers ?? NO_ANSWERS;
}
function replyOf(value: Payload | undefined, error: SerializedError | undefined): UpdateOutcome {
  if (error === undefined && value !== undefined) return { status: "completed", value };
  return { status: "failed", error: error ?? { name: "Error", message: "The update has no reply." } };
}
