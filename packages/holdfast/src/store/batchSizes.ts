// About how many bytes an item adds to a call of the store: the values in it that can be large.
// Owns: nothing.
// Invariants: none; limits of bytes are far below what a server can take.

import type { Payload } from "@holdfast/core";
import type { AddressedMessage, NewRun, TaskAnswer, TurnCommit } from "./port.ts";

const sizeOfPayload = (value: Payload | undefined): number => value?.length ?? 0;

export const sizeOfRun = (run: NewRun): number => run.input.length + (run.first === undefined ? 0 : sizeOfTurn(run.first.commit));

/** The bytes that a message adds to a batch. */
export const sizeOfMessage = ({ message: { job } }: AddressedMessage): number =>
  sizeOfPayload(job.type === "signal" ? job.payload : job.type === "update" ? job.input : undefined);

export const sizeOfAnswer = ({ outcome }: TaskAnswer): number => (outcome.status === "completed" ? outcome.value.length : 0);

export function sizeOfTurn({ turn, state, close, children, tasks }: TurnCommit): number {
  let size = sizeOfPayload(state) + sizeOfPayload(close?.output);
  for (const job of turn?.jobs ?? []) if (job.type === "resolve" && job.outcome.status === "completed") size += job.outcome.value.length;
  for (const command of turn?.commands ?? []) if ("value" in command) size += sizeOfPayload(command.value);
  for (const { input } of children ?? []) size += input.length;
  for (const { input } of tasks ?? []) size += input.length;
  return size;
}
