// The entry point for hosts that run in a Node process.

export { codeOf } from "./codeOf.ts";
export { type Determinism, DeterminismGuard, unguardedCodec } from "./determinismGuard.ts";
export { framesOf } from "./stackFrames.ts";
export { forgetSignals, stopOnSignals } from "./stopOnSignals.ts";
export { Watchdog } from "./watchdog.ts";
