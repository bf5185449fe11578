// Messages that have arrived and that no turn has taken.
// Owns: which messages are known, so that a message that arrives in two ways (from its sender, from the storage) is taken once.
// Invariants: M2 (in the order of their keys, which is the order of arrival), M7 (a taken message stays known until its batch is written).

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
  /** Whether it has arrived, and the batch that deletes it is not written yet. */
  knows(key: Uint8Array): boolean {
    return this.#known.has(nameOf(key));
  }
  /** Takes all waiting messages, oldest first. */
  take(): InboxMessage[] {
    const taken = this.peek();
    this.#waiting = [];
    return [...taken];
  }
  /** Puts back messages that were just taken. */
  putBack(messages: InboxMessage[]): void {
    this.#waiting = messages;
  }
  peek(): readonly InboxMessage[] {
    if (!this.#sorted) this.#waiting.sort((a, b) => compareBytes(a.at, b.at));
    this.#sorted = true;
    return this.#waiting;
  }
  /** The batch that deletes it is written, so its key may be used again. */
  forget(message: InboxMessage): void {
    this.#known.delete(nameOf(message.at));
  }
}

function nameOf(key: Uint8Array): string {
  return String.fromCharCode(...key);
}
