// Idempotency keys of starts and messages in memory (M3, M10).
// Owns: how they are written, so that no two kinds of them are ever the same.
// Invariants: M3 (once for each key).

import type { NewMessage } from "../port.ts";
import type { KeptRun, UsedKey } from "./state.ts";

/** No two pairs of texts have the same: the length of the first is part of it. */
export const startKey = (workflow: string, key: string): string => `${workflow.length} ${workflow} ${key}`;

export const signalKey = (key: string): string => `key ${key}`;
export const updateKey = (id: string): string => `update ${id}`;

/** For updates the key is the update's id (M10): no other message's key is the same. */
export function keyOf({ job, idempotencyKey }: NewMessage): string | undefined {
  if (job.type === "update") return updateKey(job.id);
  return idempotencyKey === undefined ? undefined : signalKey(idempotencyKey);
}

export function usedKey(run: KeptRun, message: NewMessage): UsedKey | undefined {
  const key = keyOf(message);
  return key === undefined ? undefined : run.keys?.get(key);
}
