// The options that choose runs, as a filter of the API.
// Owns: the statuses that --open and --closed mean.
// Invariants: an option that can't be read is a usage error; the same options mean the same runs in lists and in bulk actions.

import type { RequestOf } from "../../api/routes.ts";
import { attributesOption, choiceOption, momentOption } from "../arguments.ts";
import { usage } from "../failures.ts";

export interface FilterOptions {
  readonly status?: string;
  readonly open?: true;
  readonly closed?: true;
  readonly workflow?: readonly string[];
  readonly version?: string;
  readonly queue?: string;
  readonly key?: string;
  readonly schedule?: string;
  readonly parent?: string;
  readonly attr?: readonly string[];
  readonly since?: string;
  readonly until?: string;
  readonly finishedSince?: string;
  readonly finishedUntil?: string;
  readonly idPrefix?: string;
}

const OPEN = ["pending", "running", "sleeping", "blocked", "rolling_back"] as const;
const CLOSED = ["completed", "failed", "canceled", "terminated", "continued"] as const;
export type Status = (typeof OPEN)[number] | (typeof CLOSED)[number];
const STATUSES: readonly Status[] = [...OPEN, ...CLOSED];

export function isClosed(status: Status): boolean {
  return CLOSED.some((one) => one === status);
}

export type Selection = NonNullable<RequestOf<"runs.count">["query"]>;

export function selectionOf(options: FilterOptions, now: number): Selection {
  refuseEmpty(options);
  const { workflow, version, queue, key, schedule, parent, idPrefix } = options;
  const status = statusesOf(options);
  const attr = attributesOption(options.attr);
  return {
    ...(status !== undefined && { status }),
    ...(workflow !== undefined && { workflow: workflow.length === 1 ? (workflow[0] ?? "") : [...workflow] }),
    ...(version !== undefined && { version }),
    ...(queue !== undefined && { queue }),
    ...(key !== undefined && { key }),
    ...(schedule !== undefined && { schedule }),
    ...(parent !== undefined && { parentId: parent }),
    ...(idPrefix !== undefined && { idPrefix }),
    ...(attr !== undefined && { attr }),
    ...momentsOf(options, now),
  };
}

/** `--workflow "$NAME"` of a script whose variable is not set must not mean other runs. */
function refuseEmpty(options: FilterOptions): void {
  const [empty] = Object.entries(options).find(([, value]) => [value].flat().includes("")) ?? [];
  if (empty === undefined) return;
  const flag = empty.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw usage(`--${flag} is empty.`, "Give it a value, or leave it out.");
}

function momentsOf(
  { since, until, finishedSince, finishedUntil }: FilterOptions,
  now: number,
): Partial<Record<"since" | "until" | "finishedSince" | "finishedUntil", Date>> {
  return {
    ...(since !== undefined && { since: momentOption("--since", since, now) }),
    ...(until !== undefined && { until: momentOption("--until", until, now) }),
    ...(finishedSince !== undefined && { finishedSince: momentOption("--finished-since", finishedSince, now) }),
    ...(finishedUntil !== undefined && { finishedUntil: momentOption("--finished-until", finishedUntil, now) }),
  };
}

function statusesOf({ status, open, closed }: FilterOptions): Status[] | undefined {
  if ([status, open, closed].filter((one) => one !== undefined).length > 1)
    throw usage("--status, --open and --closed exclude one another.");
  if (open === true) return [...OPEN];
  if (closed === true) return [...CLOSED];
  if (status === undefined) return undefined;
  return status.split(",").map((one) => choiceOption("--status", one.trim(), STATUSES));
}

/** The same for bulk actions, which get it as JSON. */
export function filterOf(selection: Selection): Extract<NonNullable<RequestOf<"bulk.preview">["body"]>, { filter: unknown }>["filter"] {
  const { attr, since, until, finishedSince, finishedUntil, ...others } = selection;
  return {
    ...others,
    ...(attr !== undefined && { attributes: attr }),
    ...(since !== undefined && { since: since.toISOString() }),
    ...(until !== undefined && { until: until.toISOString() }),
    ...(finishedSince !== undefined && { finishedSince: finishedSince.toISOString() }),
    ...(finishedUntil !== undefined && { finishedUntil: finishedUntil.toISOString() }),
  };
}
