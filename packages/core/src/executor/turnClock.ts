// A clock for turn timeouts that stops while the process is frozen.
// Owns: the last sample of processor time. Both clocks are passed in.
// Invariants: X9 (a turn is charged for time in which its code ran, not for time in which the process was frozen or had no processor),
// X1 (reads no clock itself).

/** A lap of at least this many milliseconds is checked against processor time, which costs ten times as much as reading the clock. */
const SUSPICIOUS = 100;
/** The longest age of a sample in milliseconds. It bounds how much a long lap can be overcharged. */
const FRESH = 20;

/**
 * `elapsed`: monotonic milliseconds. `processor`: milliseconds of processor time that the thread (or the process) has used. The result
 * advances like `elapsed`, but counts a long lap only up to the processor time used in it.
 */
export function createTurnClock(elapsed: () => number, processor: () => number): () => number {
  let at = elapsed();
  let sampledAt = at;
  let sample = processor();
  let counted = 0;
  return () => {
    const now = elapsed();
    const lap = now - at;
    at = now;
    if (lap < SUSPICIOUS && now - sampledAt < FRESH) {
      counted += lap;
      return counted;
    }
    const used = processor();
    counted += lap < SUSPICIOUS ? lap : Math.min(lap, used - sample);
    sample = used;
    sampledAt = now;
    return counted;
  };
}
