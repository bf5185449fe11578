// The settings of a session.
// Owns: `Settings`, which the handle derives from the user's options.
// Invariants: they don't change while the run is live.

import type { AnyWorkflow, Codec, Limits, Logger } from "@holdfast/core";
import type { AnyActivity, TurnQueue } from "@holdfast/host";
import type { EngineDriver } from "../driver.ts";
import type { Environment } from "../environment.ts";
import type { Router } from "../router.ts";
import type { NewRun } from "./newRun.ts";

export interface Settings {
  readonly driver: EngineDriver;
  readonly workflow: AnyWorkflow;
  readonly id: string;
  readonly mode: "yield" | "live";
  /** Undefined if the run must exist. */
  readonly newRun: NewRun | undefined;
  readonly activities: ReadonlyMap<string, AnyActivity>;
  readonly router: Router | undefined;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Partial<Limits>;
  readonly environment: Environment;
  readonly turnQueue: TurnQueue;
  readonly turnTimeout: number;
  readonly determinism: "off" | "warn" | "error";
  /** Milliseconds; undefined if there is no watchdog. */
  readonly watchdog: number | undefined;
}
