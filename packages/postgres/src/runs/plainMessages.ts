// Messages that go together.
// Owns: which they are.
// Invariants: M3 M10 (messages with keys, and updates that occur twice, go one by one).

import type { AddressedMessage } from "holdfast/store";

/** Goes with others of its kind, in a few statements for all of them. */
function isPlain({ job, idempotencyKey }: AddressedMessage["message"]): boolean {
  return job.type === "update" || (job.type === "signal" && idempotencyKey === undefined);
}
/** No update occurs twice. */
function areDistinct(messages: readonly AddressedMessage[]): boolean {
  const ids = messages.flatMap(({ runId, message: { job } }) => (job.type === "update" ? [`${job.id} ${runId}`] : []));
  return new Set(ids).size === ids.length;
}
/** Whether all of them go in a few statements. */
export function arePlain(messages: readonly AddressedMessage[]): boolean {
  return messages.every(({ message }) => isPlain(message)) && areDistinct(messages);
}
