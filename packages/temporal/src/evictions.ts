// Why Core drops a run from the memory of a worker.
// Owns: which reasons are harmless.
// Invariants: a replayed run whose eviction is harmless fits its history.

import type { WorkflowActivation } from "./bridge.ts";
import { core } from "./proto.ts";

const { EvictionReason } = core.workflow_activation.RemoveFromCache;
/** Reasons that mean that Core has found no fault with the run. */
const HARMLESS: ReadonlySet<number> = new Set([
  EvictionReason.CACHE_FULL,
  EvictionReason.LANG_REQUESTED,
  EvictionReason.WORKFLOW_EXECUTION_ENDING,
]);
export interface Eviction {
  /** Core's name of the reason: "NONDETERMINISM". */
  readonly reason: string;
  readonly message: string;
  readonly isHarmless: boolean;
}
/** Undefined unless the activation asks to drop the run. */
export function evictionOf({ jobs }: WorkflowActivation): Eviction | undefined {
  const eviction = jobs?.find((job) => job.removeFromCache)?.removeFromCache;
  if (eviction === null || eviction === undefined) return undefined;
  const reason = eviction.reason ?? EvictionReason.UNSPECIFIED;
  return { reason: EvictionReason[reason] ?? String(reason), message: eviction.message ?? "", isHarmless: HARMLESS.has(reason) };
}
