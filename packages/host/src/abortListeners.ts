// Callbacks for the abort of a caller's signal.
// Owns: one listener per signal, shared by all its callbacks: Node warns of a leak at more than ten listeners.
// Invariants: a signal without callbacks has no listener.

const waiting = new WeakMap<AbortSignal, { readonly callbacks: Set<() => void>; readonly listener: () => void }>();

/** Calls `callback` when the signal aborts. Returns a function that removes the callback. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let entry = waiting.get(signal);
  if (entry === undefined) {
    const callbacks = new Set<() => void>();
    const listener = (): void => {
      for (const each of [...callbacks]) each();
    };
    entry = { callbacks, listener };
    waiting.set(signal, entry);
    signal.addEventListener("abort", listener);
  }
  const { callbacks, listener } = entry;
  const own = (): void => callback();
  callbacks.add(own);
  return () => {
    callbacks.delete(own);
    if (callbacks.size > 0) return;
    signal.removeEventListener("abort", listener);
    waiting.delete(signal);
  };
}
