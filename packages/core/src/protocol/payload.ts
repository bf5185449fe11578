// Payloads: user values inside jobs and commands, as the codec encoded them.
// Owns: the type `Payload`, `Outcome`, and the list of fields that hold payloads.
// Invariants: P8 (what a live call returns is the decoded payload, as replay returns it).

import type { SerializedError } from "../errors/index.ts";

/** An encoded value. Text for the default codec, bytes for codecs that encrypt or compress. */
export type Payload = string | Uint8Array;

/** How an operation that the host carried out has ended. */
export type Outcome =
  | {
      readonly status: "completed";
      /** The result, encoded. */
      readonly value: Payload;
    }
  | {
      readonly status: "failed";
      /** Why it failed. */
      readonly error: SerializedError;
      /** How many attempts were made. */
      readonly attempts?: number;
    }
  | {
      readonly status: "canceled";
      /** The reason of the cancellation. */
      readonly reason?: string;
    };

/** The names of fields that hold a payload, in jobs, commands and turns. No other field may use these names. */
export const PAYLOAD_FIELDS: ReadonlySet<string> = new Set(["value", "input", "payload", "state", "args"]);
