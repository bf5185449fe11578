// The memo of an execution: what can be read without a worker, also of closed runs.
// Owns: the keys, and how values are kept under them.
// Invariants: M11 (the state that was published with the last completed turn is there for every reader).

import { jsonPayload, readJson, type TemporalPayload } from "./payloads.ts";

const STATE = "holdfast.state";
const ATTRIBUTES = "holdfast.attributes";
const STATUS = "holdfast.status";

export type Attributes = Readonly<Record<string, string | number | boolean>>;
export type MemoFields = Record<string, TemporalPayload>;

export interface RunMemo {
  /** The published state, in Temporal's form. */
  readonly state?: TemporalPayload | undefined;
  readonly attributes?: Attributes | undefined;
  /** Set while the run rolls back its steps. */
  readonly isRollingBack?: boolean | undefined;
}

/** Only the fields that are set. */
export function memoFields({ state, attributes, isRollingBack }: RunMemo): MemoFields {
  return {
    ...(state !== undefined && { [STATE]: state }),
    ...(attributes !== undefined && { [ATTRIBUTES]: jsonPayload(attributes) }),
    ...(isRollingBack === true && { [STATUS]: jsonPayload("rolling_back") }),
  };
}
export function readMemo(fields: MemoFields | null | undefined): RunMemo {
  return {
    state: fields?.[STATE],
    attributes: (readJson(fields?.[ATTRIBUTES]) ?? {}) as Attributes,
    isRollingBack: readJson(fields?.[STATUS]) === "rolling_back",
  };
}
