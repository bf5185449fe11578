// Checks what `engine.bulk` is given.
// Owns: the texts of these errors.
// Invariants: B3: an empty filter is refused, so that a forgotten field never reaches every run; nothing is written before all is checked.

import type { Payload } from "@holdfast/core";
import type { BulkAction as BackendAction, RunSelection } from "../backend/port.ts";
import { queryOf } from "./filters.ts";
import type { BulkAction } from "./operatingTypes.ts";
import { checkedName, checkedOptions, checkedReason, FILTER, invalid } from "./options.ts";
import type { RunFilter } from "./types.ts";

const ACTIONS = ["cancel", "terminate", "resume", "delete", "signal"] as const;

export function checkedBulkFilter(filter: RunFilter): RunSelection {
  const given = checkedOptions("bulk", filter, FILTER);
  for (const key of ["limit", "cursor"] as const)
    if (given[key] !== undefined) throw invalid("bulk", `${key} is for lists: a bulk action takes every run that matches.`, key);
  const selection = queryOf(given);
  const isEmpty = Object.values(selection).every((value) => value === undefined || isEmptyObject(value));
  if (isEmpty) throw invalid("bulk", "The filter is empty, so it would take every run. Name at least a status or a workflow.", "filter");
  return selection;
}
function isEmptyObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
}

export function checkedBulkAction(action: BulkAction, encode: (payload: unknown) => Payload): BackendAction {
  const given = checkedOptions<{ do?: unknown; reason?: unknown; name?: unknown; payload?: unknown }>("bulk", action);
  if (!ACTIONS.includes(given.do as BulkAction["do"]))
    throw invalid("bulk", `The action must be one of { do: ${ACTIONS.map((one) => `"${one}"`).join(" | ")} }.`, "do");
  const known = given.do === "signal" ? ["do", "name", "payload"] : ["do", "reason"];
  const unknown = Object.keys(given).find((key) => !known.includes(key));
  if (unknown !== undefined) throw invalid("bulk", `"${unknown}" is not an option of "${String(given.do)}".`, unknown);
  if (action.do === "signal") return { do: "signal", name: checkedName("bulk", action.name), payload: encode(action.payload) };
  return { do: action.do, reason: checkedReason("bulk", action.reason) };
}
