// Where a page of a list ended.
// Owns: the text of cursors.
// Invariants: a cursor names a moment and a run, so that other runs, and that one, may come and go.

import { InvalidInputError } from "@holdfast/core";

/** A place in the order of lists: by creation, then by id, the last first. */
export interface Place {
  /** When the run was created, in milliseconds since 1970. */
  readonly createdAt: number;
  /** The id of the run. */
  readonly id: string;
}
/** The cursor of the page behind this place. */
export function formatCursor({ createdAt, id }: Place): string {
  return `${createdAt}.${id}`;
}
/**
 * The inverse of `formatCursor`.
 * @throws `InvalidInputError` if the cursor is malformed.
 */
export function parseCursor(cursor: string): Place {
  const [, createdAt, id] = /^(-?\d{1,16})\.([\s\S]+)$/.exec(cursor) ?? [];
  if (createdAt !== undefined && id !== undefined) return { createdAt: Number(createdAt), id };
  throw new InvalidInputError({ what: "cursor", issues: [{ message: "must be one that an earlier page gave" }] });
}
