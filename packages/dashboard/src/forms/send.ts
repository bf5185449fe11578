// Sending what a form has: once, however often its button is pressed.

import { type Signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

export interface Sending {
  readonly isBusy: Signal<boolean>;
  readonly error: Signal<Error | undefined>;
  /** The same for every try of one form: a repeated request does nothing twice. */
  readonly idempotencyKey: string;
  readonly send: (work: () => Promise<void>) => void;
}

export function useSending(): Sending {
  const isBusy = useSignal(false);
  const error = useSignal<Error | undefined>(undefined);
  const idempotencyKey = useMemo(randomKey, []);
  const run = async (work: () => Promise<void>): Promise<void> => {
    if (isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await work();
    } catch (thrown) {
      error.value = thrown instanceof Error ? thrown : new Error(String(thrown));
    }
    isBusy.value = false;
  };
  return { isBusy, error, idempotencyKey, send: (work) => void run(work) };
}

/** `crypto.randomUUID` exists in secure contexts only. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
