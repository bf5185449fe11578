// The third door: what hosts in a Node process can do beside.

export { codeOf } from "./codeOf.ts";
export { type Determinism, DeterminismGuard, unguardedCodec } from "./determinismGuard.ts";
export { forgetSignals, stopOnSignals } from "./stopOnSignals.ts";
export { Watchdog } from "./watchdog.ts";
