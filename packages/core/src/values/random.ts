// Random: the generator behind ctx.random() and ctx.uuid().
// Owns 128 bits of state, derived from (execution seed, key of the unit); the state includes the number of draws.
// Invariants: P7 (the same seed and key give the same draws, in every process and version: the tests pin the sequence). Not for secrets.

const TWO_POW_26 = 2 ** 26;
const TWO_POW_53 = 2 ** 53;

/** "00" to "ff". */
const hex: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** A generator of random numbers that is determined by its seed. */
export class Random {
  // The state of sfc32 (Chris Doty-Humphrey's small fast counting generator): three words that are mixed, and a counter
  // that guarantees a period of at least 2^32 from every state.
  #a: number;
  #b: number;
  #c: number;
  #counter: number;

  constructor(seed: string, key: string) {
    // Four lanes with different initial values and multipliers absorb the seed, its length and the key; so ("a", "bc") is not ("ab", "c").
    let a = 0x243f6a88;
    let b = 0x85a308d3;
    let c = 0x13198a2e;
    let d = 0x03707344;
    const absorb = (word: number): void => {
      a = Math.imul(a ^ word, 0x9e3779b1);
      b = Math.imul(b ^ word, 0x85ebca6b) ^ (a >>> 15);
      c = Math.imul(c ^ word, 0xc2b2ae35) ^ (b >>> 13);
      d = Math.imul(d ^ word, 0x27d4eb2f) ^ (c >>> 16);
      a ^= d >>> 14;
    };
    for (let i = 0; i < seed.length; i++) absorb(seed.charCodeAt(i));
    absorb(0x10000 + seed.length);
    for (let i = 0; i < key.length; i++) absorb(key.charCodeAt(i));
    this.#a = a | 0;
    this.#b = b | 0;
    this.#c = c | 0;
    this.#counter = d | 0;
    // Seeds that differ in one bit diverge within these rounds.
    for (let round = 0; round < 16; round++) this.#word();
  }

  /** A number in [0, 1), with 53 random bits. */
  next(): number {
    const high = this.#word() >>> 5;
    const low = this.#word() >>> 6;
    return (high * TWO_POW_26 + low) / TWO_POW_53;
  }

  /** A version 4 UUID. */
  uuid(): string {
    const w0 = this.#word();
    const w1 = (this.#word() & 0xffff0fff) | 0x4000; // version 4
    const w2 = (this.#word() & 0x3fffffff) | 0x80000000; // the variant of RFC 9562
    const w3 = this.#word();
    return `${hex8(w0)}-${hex4(w1 >>> 16)}-${hex4(w1)}-${hex4(w2 >>> 16)}-${hex4(w2)}${hex8(w3)}`;
  }

  /** The next 32 bits, as a signed integer. */
  #word(): number {
    const result = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + result) | 0;
    return result;
  }
}

function hex4(word: number): string {
  return `${hex[(word >>> 8) & 0xff]}${hex[word & 0xff]}`;
}

function hex8(word: number): string {
  return hex4(word >>> 16) + hex4(word);
}
