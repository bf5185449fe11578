// Keys that work anywhere on a page, except while the user types or a dialog is open.

import { useEffect } from "preact/hooks";

const TYPES_TEXT = 'input:not([type="checkbox"]):not([type="range"]), textarea, [contenteditable]';
/** What a closed list of choices needs itself. Other keys still work after a choice, while the list has the focus. */
const CHOOSES = /^(Arrow\w+|Enter|Escape|Home|End|Page\w+| )$/;

function isTyping({ target, key }: KeyboardEvent): boolean {
  return target instanceof Element && (target.matches(TYPES_TEXT) || (target.matches("select") && CHOOSES.test(key)));
}

/** The handler says whether it used the key. */
export function useKeys(handle: (event: KeyboardEvent) => boolean, dependencies: readonly unknown[] = []): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      if (document.querySelector("dialog[open]") !== null) return;
      if (handle(event)) event.preventDefault();
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, dependencies);
}
