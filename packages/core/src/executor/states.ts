// Treats the states of loops and receives as values: copies the initial state, and freezes states if the host asks for it.
// Owns: the set of objects that are already frozen, so that a state is walked once and not in every iteration.
// Invariants: R9 (runs never share an initial state; changing a frozen state in place is a TypeError), M9 (validators get a copy).

import { hasPlainPrototype } from "../codec/plain.ts";
import type { Execution } from "./execution.ts";

/** A copy of the initial state, made by the codec (R9). Throws the codec's error, or a LimitExceededError. */
export function initialState(execution: Execution, state: unknown, what: string): unknown {
  if (!isObject(state) && typeof state !== "function" && typeof state !== "symbol") return state; // a primitive needs no copy
  return execution.decode(execution.encode(state, what));
}

/** A copy for validators, whose changes to it have no effect (M9). */
export function copyOfState(execution: Execution, state: unknown): unknown {
  return isObject(state) ? execution.codec.decode(execution.codec.encode(state)) : state;
}

/** Freezes the state if the host asks for it (R9). Every state passes through here before code sees it again. */
export function guardedState(execution: Execution, state: unknown): unknown {
  if (execution.options.freezeStates) freeze(state);
  return state;
}

const frozen = new WeakSet<object>();

/** Freezes all plain objects and arrays in the state. Class instances, Dates and buffers are left alone. */
function freeze(state: unknown): void {
  const pending: unknown[] = [state];
  const collections = new Set<object>(); // walked every time, because they may have new items
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
      // A Proxy may reject freezing.
    }
  }
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
