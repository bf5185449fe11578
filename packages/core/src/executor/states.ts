// The states of loops and receives as values: copied on the way in, frozen where the host asks for it.
// Owns: which objects are frozen already, so that a state is walked once, not once an iteration.
// Invariants: R9 (runs never share an initial state; a change in place is a TypeError where states are frozen), M9 (a validator's copy).

import { hasPlainPrototype } from "../codec/plain.ts";
import type { Execution } from "./execution.ts";

/** R9: the initial state as the codec gives it back. Throws what the codec throws, or LimitExceededError. */
export function initialState(execution: Execution, state: unknown, what: string): unknown {
  if (!isObject(state) && typeof state !== "function" && typeof state !== "symbol") return state; // it would come back as it is
  return execution.decode(execution.encode(state, what));
}

/** M9: what is done to the copy never counts. */
export function copyOfState(execution: Execution, state: unknown): unknown {
  return isObject(state) ? execution.codec.decode(execution.codec.encode(state)) : state;
}

/** R9: the state, frozen where the host asks for it. Every state passes here before code sees it again. */
export function guardedState(execution: Execution, state: unknown): unknown {
  if (execution.options.freezeStates) freeze(state);
  return state;
}

const frozen = new WeakSet<object>();

/** Plain objects and arrays, wherever they are in it. Class instances, Dates and buffers can't be, or keep rules of their own. */
function freeze(state: unknown): void {
  const pending: unknown[] = [state];
  const collections = new Set<object>(); // walked each time: they may have got new items
  while (pending.length > 0) {
    const value = pending.pop();
    if (!isObject(value) || frozen.has(value) || collections.has(value)) continue;
    try {
      if (Array.isArray(value) || hasPlainPrototype(value)) {
        frozen.add(value);
        pending.push(...Object.values(Object.freeze(value)));
      } else if (value instanceof Map || value instanceof Set) {
        collections.add(value);
        for (const item of value) pending.push(...(value instanceof Map ? (item as [unknown, unknown]) : [item]));
      }
    } catch {
      // A Proxy that refuses.
    }
  }
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
