// The messages of an execution: when each arrived, and which operation consumed it.
// Owns: nothing.
// Invariants: M7 (a message is consumed once). Messages that still wait in the inbox are not in the history.

import { formatLocation, type Turn } from "@holdfast/core";
import type { TimelineMessage } from "../types.ts";

type Draft = { -readonly [K in keyof TimelineMessage]: TimelineMessage[K] };

export function messagesOf(turns: readonly Turn[]): TimelineMessage[] {
  const all: Draft[] = [];
  const waiting = new Map<string, Draft>();
  const locations = new Map<number, string>();
  const add = (message: Omit<Draft, "takenTurn" | "takenBy">): Draft => {
    const draft = { ...message, takenTurn: null, takenBy: null };
    all.push(draft);
    waiting.set(draft.id, draft);
    return draft;
  };
  const take = (id: string, turn: number, seq: number): void => {
    const draft = waiting.get(id);
    if (draft === undefined || draft.takenTurn !== null) return;
    draft.takenTurn = turn;
    draft.takenBy = locations.get(seq) ?? null;
  };
  for (const { index, jobs, commands } of turns) {
    jobs.forEach((job, position) => {
      if (job.type === "signal" || job.type === "update") add({ id: job.id, kind: job.type, name: job.name, arrivedTurn: index });
      // The run itself takes note of it, in the turn that it comes with. Cancellations have no id: the place in the history is one.
      else if (job.type === "cancel")
        add({ id: `cancel-${index}-${position}`, kind: "cancel", name: null, arrivedTurn: index }).takenTurn = index;
    });
    for (const command of commands) {
      if ("n" in command) locations.set(command.seq, formatLocation(command.unit, command.name, command.n));
      else if (command.type === "settle") for (const id of command.messages ?? []) take(id, index, command.seq);
      else if (command.type === "dispatch") take(command.message, index, command.seq);
      else if (command.type === "acceptUpdate") take(command.id, index, command.seq);
    }
  }
  return all;
}
