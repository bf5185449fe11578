// Code changes under running workflows: patched, deprecatePatch, removed.
// Owns: nothing between calls; the unit stores the answers, the matcher the removals.
// Invariants: V1 (true if recorded or live; the first call in a unit fixes the answer), V3 (matches the old record, or nothing).

import { UnsupportedError } from "../../errors/index.ts";
import type { OperationKind } from "../../protocol/index.ts";
import type { Unit } from "../unit.ts";

export function patched(unit: Unit, id: string): boolean {
  const known = unit.patches.get(id);
  if (known !== undefined) return known;
  const execution = unit.execution;
  const answer = isOn(unit, id);
  unit.patches.set(id, answer);
  if (answer) whenDue(unit, () => execution.note(unit, "patch", id));
  return answer;
}

/** Whether the patch is recorded, or the unit is live. Hosts that match commands themselves report recorded patches as jobs. */
function isOn(unit: Unit, id: string): boolean {
  const { matcher, replaying, notifiedPatches } = unit.execution;
  return matcher === undefined ? !replaying || notifiedPatches.has(patchKey(unit.path, id)) : matcher.hasPatch(unit, id);
}
export function patchKey(unit: string, id: string): string {
  return `${unit}\n${id}`;
}

export function deprecatePatch(unit: Unit, id: string): void {
  if (unit.patches.has(id)) return;
  const execution = unit.execution;
  const answer = isOn(unit, id);
  unit.patches.set(id, true);
  if (answer) whenDue(unit, () => execution.note(unit, "patch", id, { deprecated: true }));
}

/** Runs the call now, or once the removed operations before it have settled in history (V3). */
export function whenDue(unit: Unit, call: () => void): void {
  if (unit.mustWait) unit.postponed?.push(call);
  else call();
}

export function removed(unit: Unit, name: string, kind: OperationKind): void {
  const { matchedBy } = unit.execution.options;
  if (matchedBy !== undefined) {
    const instead = "Use ctx.patched, and keep the old operation for runs that have it.";
    unit.execution.violate(new UnsupportedError({ feature: "ctx.removed", host: matchedBy, instead }));
  }
  unit.execution.matcher?.remove(unit, name, kind);
}
