// What a run needs of the worker that has it.
// Owns: types only.

import type { Codec, Limits, Logger, TurnWatch } from "@holdfast/core";
import type { Environment, TurnQueue } from "@holdfast/host";
import type { WorkerSettings } from "holdfast/backend";
import type { Payloads, TemporalPayload } from "../payloads.ts";
import type { Timing } from "../timing.ts";

export interface RunWorker {
  readonly settings: WorkerSettings;
  readonly namespace: string;
  /** The queue of the runs. */
  readonly queue: string;
  /** The queue that only this worker serves; undefined if steps go to the queue of all workers at once. */
  readonly ownQueue: string | undefined;
  /** The queue of the steps that any worker of the run's queue may run. */
  readonly stepQueue: string;
  readonly timing: Timing;
  readonly codec: Codec;
  readonly payloads: Payloads;
  readonly logger: Logger;
  readonly limits: Limits;
  readonly environment: Environment;
  readonly turns: TurnQueue;
  readonly watch: TurnWatch | undefined;
  readonly freezeStates: boolean;
  /** Whether changed options of operations count as a difference in replay (Y2). */
  readonly isStrict: boolean;
  /** The number of the newest execution of a run; 0 if there is no such run. */
  executionOf(runId: string): Promise<number>;
  searchAttributes(attributes: Readonly<Record<string, string | number | boolean | null>>): Record<string, TemporalPayload> | undefined;
}
