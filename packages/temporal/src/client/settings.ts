// What the parts of the client share.
// Owns: only the types.
// Invariants: none.

import type { Codec, Logger } from "@holdfast/core";
import type { Connection } from "../bridge.ts";
import type { Payloads } from "../payloads.ts";

export interface ClientSettings {
  readonly connection: Connection;
  readonly payloads: Payloads;
  readonly codec: Codec;
  readonly logger: Logger;
  /** The task queue of the URL. */
  readonly queue: string;
  /** The name under which the server records the calls of this process. */
  readonly identity: string;
  /** The search attribute for an attribute, where it has another name. Default: the one of the same name, if it is registered. */
  readonly searchAttributes: ReadonlyMap<string, string>;
}

export { HOST } from "../names.ts";
