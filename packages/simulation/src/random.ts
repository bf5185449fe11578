// Repeatable randomness: every draw of a simulation comes from its seed.
// Owns: one generator for each stream of draws.
// Invariants: the same seed and stream name give the same draws; draws from one stream never change another, so a simulation without one
// kind of fault stays similar to the one with it.

/** Randomness that is determined by its seed. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: string) {
    // FNV-1a, three times with different offset bases.
    const [a, b, c] = [2_166_136_261, 3_339_675_911, 1_540_483_477].map((basis) => {
      let hash = basis;
      for (let i = 0; i < seed.length; i++) hash = Math.imul(hash ^ seed.charCodeAt(i), 16_777_619);
      return hash | 0;
    }) as [number, number, number];
    this.#a = a;
    this.#b = b;
    this.#c = c;
    for (let i = 0; i < 12; i++) this.next();
  }
  /** From 0 to below 1 (sfc32). */
  next(): number {
    const t = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + t) | 0;
    return (t >>> 0) / 4_294_967_296;
  }
  /** A whole number, both ends included. */
  between(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }
  /** True with this probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }
  /** One of the items. */
  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)] as T;
  }
  /** A duration with the mean `usual`: mostly short, sometimes many times longer. */
  span(usual: number): number {
    return -Math.log(1 - this.next()) * usual;
  }
  /** The items in another order. */
  shuffled<T>(items: readonly T[]): T[] {
    const result = [...items];
    for (let i = result.length - 1; i > 0; i--) {
      const j = this.between(0, i);
      [result[i], result[j]] = [result[j] as T, result[i] as T];
    }
    return result;
  }
  /** A UUID. */
  uuid(): string {
    const hex = Array.from({ length: 4 }, () =>
      Math.floor(this.next() * 4_294_967_296)
        .toString(16)
        .padStart(8, "0"),
    ).join("");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
  }
}
