// Finding runs: the part of the port that lists and counts them.
// Owns: what a run can be found by, and the order of lists.
// Invariants: B1 (all tests are met, by type; newest first, ties by id), B2 (what was committed before the call is seen; counts are capped).

import type { RunStatus } from "@holdfast/core";
import type { RunRow } from "./port.ts";

/** The value of an attribute. */
export type Scalar = string | number | boolean;

/** The queue of runs whose start names none. Stores have no index for it: most runs are in it. */
export const DEFAULT_QUEUE = "default";

/** What the value of an attribute must be: equal to a value or to one of several, a text that begins with another, or within a range. */
export type AttributeTest =
  | Scalar
  | {
      /** Equal to one of these values. */
      readonly in: readonly Scalar[];
    }
  | {
      /** A text that begins with this one. */
      readonly prefix: string;
    }
  /** All limits are numbers, or all are texts. Texts are compared by code point. */
  | {
      /** Greater than this. */
      readonly gt?: string | number | undefined;
      /** This or greater. */
      readonly gte?: string | number | undefined;
      /** Less than this. */
      readonly lt?: string | number | undefined;
      /** This or less. */
      readonly lte?: string | number | undefined;
    };

/** Which runs: they meet everything that is set. */
export interface RunFilter {
  /** In one of these statuses. */
  readonly status?: readonly RunStatus[] | undefined;
  /** Of this workflow, or of one of these. */
  readonly workflow?: string | readonly string[] | undefined;
  /** Started with this version. */
  readonly version?: string | undefined;
  /** In this queue. */
  readonly queue?: string | undefined;
  /** The `key` of their start: whose work they are. */
  readonly key?: string | undefined;
  /** The schedule that started them. */
  readonly schedule?: string | undefined;
  /** Children of this run. */
  readonly parentId?: string | undefined;
  /** Runs whose id begins with this text. */
  readonly idPrefix?: string | undefined;
  /** Runs that have all of these attributes, by value and type: "1" is not 1. */
  readonly attributes?: Readonly<Record<string, AttributeTest>> | undefined;
  /** Ended at this moment or later … */
  readonly finishedSince?: number | undefined;
  /** … and before this one. */
  readonly finishedUntil?: number | undefined;
  /** Created at this moment or later … */
  readonly since?: number | undefined;
  /** … and before this one. */
  readonly until?: number | undefined;
}
/** A page of runs. */
export interface RunQuery extends RunFilter {
  /** Runs per page. */
  readonly limit: number;
  /** Newest first, runs of one moment by id, from the last to the first. A page begins after the run that this names, wherever others have come or gone. */
  readonly cursor?: string | undefined;
}

/** Runs by status. A status of more than 10,000 runs has the number 10,000, and is named in `capped`. */
export interface RunCounts extends Record<RunStatus, number> {
  /** The statuses whose number means "at least". */
  readonly capped: readonly RunStatus[];
}

export interface RunSearch {
  /** The runs that match, newest first: `runs`, and the `cursor` of the next page. */
  list(query: RunQuery): Promise<{ readonly runs: RunRow[]; readonly cursor: string | undefined }>;
  /** The number of matching runs by status, up to 10,000 each. */
  count(filter: RunFilter): Promise<RunCounts>;
}
