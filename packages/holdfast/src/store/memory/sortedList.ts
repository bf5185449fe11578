// A sorted list that items can be put into and taken out of at any place.
// Owns: the items, in chunks: a change moves the rest of one chunk, not of the list.
// Invariants: no two items compare as equal; chunks are never empty.

const LONGEST_CHUNK = 512;

export class SortedList<T> {
  readonly #compare: (a: T, b: T) => number;
  readonly #chunks: T[][] = [];

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }
  add(item: T): void {
    const isBelow = (other: T): boolean => this.#compare(other, item) < 0;
    const at = Math.min(this.#chunkOf(isBelow), this.#chunks.length - 1);
    const chunk = this.#chunks[at];
    if (chunk === undefined) {
      this.#chunks.push([item]);
      return;
    }
    chunk.splice(firstNot(chunk, isBelow), 0, item);
    if (chunk.length > LONGEST_CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(LONGEST_CHUNK / 2));
  }
  delete(item: T): void {
    const isBelow = (other: T): boolean => this.#compare(other, item) < 0;
    const at = this.#chunkOf(isBelow);
    const chunk = this.#chunks[at];
    if (chunk === undefined) return;
    const place = firstNot(chunk, isBelow);
    const found = chunk[place];
    if (found === undefined || this.#compare(found, item) !== 0) return;
    chunk.splice(place, 1);
    if (chunk.length === 0) this.#chunks.splice(at, 1);
  }
  /** How many there are between those that are below and those that are not within. Both hold for items up to some place, and for none after it. */
  count(isBelow: (item: T) => boolean, isWithin: (item: T) => boolean): number {
    return Math.max(0, this.#placeOf(isWithin) - this.#placeOf(isBelow));
  }
  /** The same items, from the last to the first. */
  *reversed(isBelow: (item: T) => boolean, isWithin: (item: T) => boolean): Generator<T> {
    for (let at = Math.min(this.#chunkOf(isWithin), this.#chunks.length - 1); at >= 0; at--) {
      const chunk = this.#chunks[at] ?? [];
      for (let place = firstNot(chunk, isWithin) - 1; place >= 0; place--) {
        const item = chunk[place] as T;
        if (isBelow(item)) return;
        yield item;
      }
    }
  }
  /** The first chunk whose last item is not before. */
  #chunkOf(isBefore: (item: T) => boolean): number {
    return firstNot(this.#chunks, (chunk) => isBefore(chunk.at(-1) as T));
  }
  #placeOf(isBefore: (item: T) => boolean): number {
    const at = this.#chunkOf(isBefore);
    let place = firstNot(this.#chunks[at] ?? [], isBefore);
    for (let i = 0; i < at; i++) place += this.#chunks[i]?.length ?? 0;
    return place;
  }
}

function firstNot<T>(items: readonly T[], isBefore: (item: T) => boolean): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(items[middle] as T)) low = middle + 1;
    else high = middle;
  }
  return low;
}
