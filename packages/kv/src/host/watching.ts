// Watches the turns of a live run, if requested: the determinism guard and the watchdog.
// Owns: both, while the run is live in this process.
// Invariants: V4 ("error" blocks a run that reads a clock or randomness), X9 (a turn that does not return is reported); if neither is
// requested, no Node module is loaded.

import { type Codec, HoldfastError, type Logger, type RunningTurn, type TurnWatch } from "@holdfast/core";

export interface WatchOptions {
  readonly determinism: "off" | "warn" | "error";
  /** Milliseconds; undefined if there is no watchdog. */
  readonly watchdog: number | undefined;
  readonly logger: Logger;
  readonly codec: Codec;
}
export interface Watching {
  readonly watch: TurnWatch | undefined;
  /** For workflow code: the guard ignores what the user's codec does. */
  readonly codec: Codec;
  /** Code that changes a state in place gets a TypeError (R9). */
  readonly freezeStates: boolean;
  stop(): void;
}

export async function startWatching({ determinism, watchdog: limit, logger, codec }: WatchOptions): Promise<Watching> {
  const { DeterminismGuard, unguardedCodec, Watchdog } = await nodeDoor();
  const host = { url: import.meta.url, module: "host/watching" };
  const guard = determinism === "off" ? undefined : new DeterminismGuard(determinism, logger, host);
  const watchdog = limit === undefined ? undefined : new Watchdog(limit);
  const watch: TurnWatch = {
    enter(turn: RunningTurn) {
      watchdog?.enter(turn);
      guard?.enter(turn);
    },
    leave(turn: RunningTurn) {
      guard?.leave(turn);
      watchdog?.leave(turn);
    },
  };
  return { watch, codec: unguardedCodec(codec), freezeStates: guard !== undefined, stop: () => guard?.stop() };
}
async function nodeDoor(): Promise<typeof import("@holdfast/host/node")> {
  try {
    return await import("@holdfast/host/node");
  } catch (cause) {
    const message = "The determinism guard and the watchdog need Node: omit `determinism` and `watchdog` in this runtime.";
    throw new HoldfastError(message, { code: "HF_KV_NEEDS_NODE", cause });
  }
}
