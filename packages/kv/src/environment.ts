// Everything this host needs from its surroundings besides its driver.
// Owns: which part of the hosts' environment it uses.
// Invariants: a live run that waits for a timer keeps its process alive.

import { type Environment as HostEnvironment, keepAliveEnvironment } from "@holdfast/host";

export type { Timer } from "@holdfast/host";
/** Time, timers and randomness of the host. */
export type Environment = Pick<HostEnvironment, "now" | "elapsed" | "worked" | "after" | "patience" | "soon" | "random" | "uuid">;

/** The real time, timers and randomness. */
export const realEnvironment: Environment = keepAliveEnvironment;
