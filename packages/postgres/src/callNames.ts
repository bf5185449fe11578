// Names of calls, by which the server recognises one that is asked again.
// Owns: the name of this process, and its slots.
// Invariants: a slot has one call at a time, and its tokens only grow.

import { randomBytes } from "node:crypto";
import { isUnavailable } from "./failures.ts";

interface Slot {
  readonly number: number;
  token: number;
}
/** Names a call: by process, slot and a number that only grows. */
export interface CallName {
  readonly instance: string;
  readonly slot: number;
  readonly token: number;
}

export class CallNames {
  readonly instance: string = randomBytes(9).toString("base64url");
  readonly #free: Slot[] = [];
  #slots = 0;

  /** For the length of the work. The slot of a call that was given up is not used again: the server may be at it, and others would wait. */
  async lend<T>(work: (name: CallName) => Promise<T>): Promise<T> {
    const slot = this.#free.pop() ?? { number: ++this.#slots, token: 0 };
    slot.token++;
    let isFree = true;
    try {
      return await work({ instance: this.instance, slot: slot.number, token: slot.token });
    } catch (error) {
      isFree = !isUnavailable(error);
      throw error;
    } finally {
      if (isFree) this.#free.push(slot);
    }
  }
}
