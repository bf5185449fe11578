// A binary heap.
// Owns: the order of its items while they are in it.
// Invariants: the top is the least. An item must not change its place in the order while it is in the heap.

/** Least first. */
export class Heap<T> {
  readonly #items: T[] = [];
  readonly #compare: (a: T, b: T) => number;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }
  get top(): T | undefined {
    return this.#items[0];
  }
  push(item: T): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const other = items[above] as T;
      if (this.#compare(item, other) >= 0) break;
      items[at] = other;
      at = above;
    }
    items[at] = item;
  }
  pop(): T | undefined {
    const items = this.#items;
    const top = items[0];
    const item = items.pop();
    if (item === undefined || items.length === 0) return top;
    let at = 0;
    for (let below = 1; below < items.length; below = 2 * at + 1) {
      if (below + 1 < items.length && this.#compare(items[below + 1] as T, items[below] as T) < 0) below++;
      const other = items[below] as T;
      if (this.#compare(other, item) >= 0) break;
      items[at] = other;
      at = below;
    }
    items[at] = item;
    return top;
  }
}
