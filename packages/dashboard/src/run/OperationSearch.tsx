// The search in the operations of a run, which `/` leads to.

import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { useKeys } from "../ui/keys.ts";

export function OperationSearch({ search }: { search: Signal<string> }) {
  const input = useRef<HTMLInputElement>(null);
  useKeys(({ key }) => {
    if (key !== "/") return false;
    input.current?.focus();
    input.current?.select();
    return true;
  });
  return (
    <input
      ref={input}
      type="search"
      aria-label="Filter operations"
      placeholder="Filter operations: charge, failed …"
      autocomplete="off"
      spellcheck={false}
      value={search.value}
      onInput={({ currentTarget }) => {
        search.value = currentTarget.value;
      }}
    />
  );
}
