// Tokens of calls, by which the server recognises a call that is sent again.
// Owns: the name of this process, and its slots.
// Invariants: a slot has one call at a time, and its tokens only grow.

import { randomBytes } from "node:crypto";
import { isUnavailable } from "./serverErrors.ts";

interface Slot {
  readonly number: number;
  token: number;
}
/** Names a call: by process, slot and a number that only grows. */
export interface CallToken {
  readonly instance: string;
  readonly slot: number;
  readonly token: number;
}

export class CallTokens {
  readonly instance: string = randomBytes(9).toString("base64url");
  readonly #free: Slot[] = [];
  #slots = 0;

  /** Lends a token while the work runs. The slot of an abandoned call is not used again: the server may still carry it out, and others would wait. */
  async lend<T>(work: (name: CallToken) => Promise<T>): Promise<T> {
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
