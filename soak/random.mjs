// Repeatable randomness.
// Owns: one generator per seed.
// Invariants: the same seed gives the same draws.

/** @typedef {ReturnType<typeof randomOf>} Random */

/** mulberry32. @param {number} seed */
export function randomOf(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  /** A whole number from `from` to `to`, both included. @param {number} from @param {number} to */
  const between = (from, to) => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    between,
    /** @param {number} probability */
    chance: (probability) => next() < probability,
    /** @template T @param {readonly T[]} items @returns {T} */
    pick: (items) => /** @type {T} */ (items[between(0, items.length - 1)]),
    /** @template T @param {number} count @param {(i: number) => T} make */
    times: (count, make) => Array.from({ length: count }, (_, i) => make(i)),
  };
}
