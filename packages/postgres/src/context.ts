// What the components of an open store share.
// Owns: nothing; it names them.
// Invariants: none.

import type { Logger } from "@holdfast/core";
import type { Connections } from "./connection/connections.ts";
import type { Functions } from "./connection/functions.ts";
import type { NameIds } from "./nameIds.ts";
import type { Notifications } from "./notifications.ts";
import type { Refusals } from "./refusals.ts";
import type { Place } from "./schema/migrate.ts";

export interface Context {
  readonly connections: Connections;
  readonly functions: Functions;
  readonly names: NameIds;
  readonly notifications: Notifications;
  readonly refusals: Refusals;
  readonly place: Place;
  readonly logger: Logger;
  /** The time of a test. Null: the server's clock. */
  readonly now: () => number | null;
}
