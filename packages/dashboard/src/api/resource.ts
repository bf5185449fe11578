// Something that the server has, kept up to date while it is shown.
// Owns: `useResource`: loading, loading again when a hint says that it changed, and what stays on the screen meanwhile.
// Invariants: what was loaded stays while the server can't be reached; an answer to an older question is dropped; a hint that comes during a
// load or a pause leads to one load after it; a tab that is hidden loads again when it is shown.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Unreachable } from "./call.ts";
import { follow, type Hint, type Topic } from "./live.ts";

export interface Resource<T> {
  readonly data: Signal<T | undefined>;
  readonly error: Signal<Error | undefined>;
  /** Loads it again now. */
  readonly refresh: () => void;
}

/** The least time between a load and the next: hints come in bursts. */
const PAUSE_MS = 100;
const RETRY_MS = 2_000;

/**
 * `key` says what is loaded: when it changes, what was there is dropped. `load` gets what it gave last, to load only what is new. It is also
 * given the hint that made it load, if it was one.
 */
export function useResource<T>(
  key: string,
  load: (before: T | undefined, hint: Hint | undefined) => Promise<T>,
  topics: readonly Topic[] = [],
): Resource<T> {
  const data = useSignal<T | undefined>(undefined);
  const error = useSignal<Error | undefined>(undefined);
  const latest = useRef(load);
  latest.current = load;
  const refresh = useRef(() => {});
  useEffect(() => {
    let isGone = false;
    let isLoading = false;
    /** What to load after this load or pause. Without a hint: whatever was seen before may be too old. */
    let pending: { readonly hint: Hint | undefined } | undefined;
    let notBefore = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    data.value = undefined;
    error.value = undefined;

    const run = async (hint: Hint | undefined): Promise<void> => {
      isLoading = true;
      clearTimeout(retry);
      try {
        const found = await latest.current(data.peek(), hint);
        if (isGone) return;
        data.value = found;
        error.value = undefined;
      } catch (thrown) {
        if (isGone) return;
        if (thrown instanceof Unreachable) retry = setTimeout(() => ask(undefined), RETRY_MS);
        if (!(thrown instanceof Unreachable && data.peek() !== undefined))
          error.value = thrown instanceof Error ? thrown : new Error(String(thrown));
      } finally {
        isLoading = false;
      }
      notBefore = performance.now() + PAUSE_MS;
      next();
    };
    const next = (): void => {
      clearTimeout(timer);
      if (isGone || isLoading || pending === undefined) return;
      const { hint } = pending;
      if (hint !== undefined && document.visibilityState === "hidden") return;
      const wait = notBefore - performance.now();
      if (hint !== undefined && wait > 0) {
        timer = setTimeout(next, wait);
        return;
      }
      pending = undefined;
      void run(hint);
    };
    const ask = (hint: Hint | undefined): void => {
      pending = { hint: pending !== undefined && pending.hint === undefined ? undefined : hint };
      next();
    };
    refresh.current = () => ask(undefined);
    ask(undefined);
    const unfollow = topics.length === 0 ? undefined : follow(topics, ask);
    document.addEventListener("visibilitychange", next);
    return () => {
      isGone = true;
      clearTimeout(timer);
      clearTimeout(retry);
      document.removeEventListener("visibilitychange", next);
      unfollow?.();
    };
  }, [key]);
  return { data, error, refresh: () => refresh.current() };
}
