// Everything this host takes from the world besides its driver.
// Owns: which part of the environment of hosts it uses.
// Invariants: a live run that waits for a timer keeps its process alive.

import { type Environment as HostEnvironment, keepAliveEnvironment } from "@holdfast/host";

export type { Timer } from "@holdfast/host";
export type Environment = Pick<HostEnvironment, "now" | "elapsed" | "worked" | "after" | "patience" | "soon" | "random" | "uuid">;

export const realEnvironment: Environment = keepAliveEnvironment;
