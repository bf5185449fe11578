// What `Holdfast` and the handles that it returns share.
// Owns: nothing; it encodes values within the limits.
// Invariants: P8 P9 (values are encoded, and measured, before they cross the port).

import { type Codec, encodeLimited, type Limits, type Logger, type Payload } from "@holdfast/core";
import type { Environment } from "@holdfast/host";
import type { Backend } from "../backend/port.ts";
import type { Definitions } from "./definitions.ts";

export interface ClientSettings {
  readonly codec: Codec;
  readonly limits: Limits;
  readonly logger: Logger;
  readonly environment: Environment;
  /** Called when a caller gets RunBlockedError for this run. */
  readonly onBlocked?: (runId: string) => void;
}
export interface Client extends ClientSettings {
  readonly backend: Backend;
  readonly definitions: Definitions;
}

/** `what` names the value in the error that is thrown if it can't be encoded or is too large. */
export function encoded({ codec, limits }: ClientSettings, value: unknown, what: string): Payload {
  return encodeLimited(codec, value, limits, what);
}
