// The numbers of a run's operations.
// Owns: the highest number so far.
// Invariants: X2 (no number is used twice: new ones start after the highest number in history).

export class OperationNumbers {
  #last = 0;

  get last(): number {
    return this.#last;
  }
  next(): number {
    return ++this.#last;
  }
  /** History has this number. */
  saw(seq: number): void {
    if (seq > this.#last) this.#last = seq;
  }
}
