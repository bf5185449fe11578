// A clock for turn timeouts that stands still while the process does.
// Owns: the last sample of processor time. Both clocks come from outside.
// Invariants: X9 (a turn is blamed for time in which its code ran, not for time in which the process was frozen or had no processor),
// X1 (no clock of its own).

/** Milliseconds between two calls from which on the processor is asked: asking costs ten times what reading a clock does. */
const SUSPICIOUS = 100;
/** Milliseconds that a sample is used for: what a long lap is charged too much is less than this. */
const FRESH = 20;

/**
 * `elapsed`: monotonic milliseconds. `processor`: milliseconds of processor time that the thread, or else the process, has used. The
 * result goes on like `elapsed`, but of a long lap counts no more than what the processor has worked in it.
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
