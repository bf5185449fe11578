// Blocked runs: when they are retried.
// Owns: nothing.
// Invariants: V4 (retried after a pause only if the cause may go away).

import { type AnyWorkflow, serializeError } from "@holdfast/core";
import { blockedReason, isBrokenRule } from "@holdfast/host";
import type { DriverHost } from "./driverHost.ts";
import type { Draft } from "./journal.ts";

/** What the run waits for, unless the caller is more specific. */
function remedyOf(error: Error): string {
  return isBrokenRule(error) ? "code that follows the rules" : "code that can replay it";
}

/** V4: makes `draft` the commit that blocks its run. The run loses nothing. */
export function block(
  draft: Draft,
  workflow: AnyWorkflow,
  error: Error,
  host: Pick<DriverHost, "blocked" | "blockedLog" | "codeOf" | "now">,
  remedy = remedyOf(error),
): Draft {
  const { blocked, blockedLog } = host;
  const { runId } = draft;
  const code = host.codeOf(workflow);
  const run = { runId, workflow: workflow.name, code, error };
  const reason = blockedReason(run);
  const before = blocked.get(runId);
  const times = before?.times ?? 0;
  blocked.set(runId, { times: times + 1, reason });
  if (before?.reason !== reason) blockedLog.note(run, reason);
  draft.blocked = { error: serializeError(error), code };
  draft.lease = "park";
  if (!isBrokenRule(error)) draft.wakeAt = host.now() + Math.min(1_000 * 2 ** times, 300_000);
  draft.seen = Number.MAX_SAFE_INTEGER;
  draft.waitingFor = [`${remedy} (${error.name})`];
  return draft;
}
