// Messages that have come and that no turn has taken.
// Owns: which are known, so that what comes by two ways (from its sender, from the storage) is taken once.
// Invariants: M2 (in the order of their keys, which is that of their arrival), M7 (one that was taken is known until its batch is written).

import type { InboxMessage } from "../storage/contents.ts";
import { compareBytes } from "../storage/tuple.ts";

export class Inbox {
  readonly #known = new Set<string>();
  #waiting: InboxMessage[] = [];
  #sorted = true;

  get size(): number {
    return this.#waiting.length;
  }
  add(messages: readonly InboxMessage[]): void {
    for (const message of messages) {
      const name = nameOf(message.at);
      if (this.#known.has(name)) continue;
      this.#known.add(name);
      this.#waiting.push(message);
      this.#sorted = this.#waiting.length === 1;
    }
  }
  /** It has come, and the batch that deletes it is not written. */
  knows(key: Uint8Array): boolean {
    return this.#known.has(nameOf(key));
  }
  /** All that wait, oldest first; they are the caller's now. */
  take(): InboxMessage[] {
    const taken = this.peek();
    this.#waiting = [];
    return [...taken];
  }
  /** Of those that were just taken: they wait after all. */
  putBack(messages: InboxMessage[]): void {
    this.#waiting = messages;
  }
  peek(): readonly InboxMessage[] {
    if (!this.#sorted) this.#waiting.sort((a, b) => compareBytes(a.at, b.at));
    this.#sorted = true;
    return this.#waiting;
  }
  /** The batch that deletes it is written: its key may be used again. */
  forget(message: InboxMessage): void {
    this.#known.delete(nameOf(message.at));
  }
}

function nameOf(key: Uint8Array): string {
  return String.fromCharCode(...key);
}
