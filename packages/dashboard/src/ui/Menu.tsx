// A button with a menu under it.

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface MenuItem {
  readonly label: string;
  readonly isDanger?: boolean;
  readonly act: () => void;
}

export function Menu({ label, items, disabled = false }: { label: string; items: readonly MenuItem[]; disabled?: boolean }) {
  const isOpen = useSignal(false);
  const root = useRef<HTMLDivElement>(null);
  const entries = (): HTMLElement[] => [...(root.current?.querySelectorAll<HTMLElement>('[role="menuitem"]') ?? [])];
  // At once: the next key may come before the browser has painted.
  useLayoutEffect(() => {
    if (!isOpen.value) return;
    entries()[0]?.focus();
    const outside = (event: PointerEvent): void => {
      if (event.target instanceof Node && root.current?.contains(event.target) !== true) isOpen.value = false;
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [isOpen.value]);
  const close = (): void => {
    isOpen.value = false;
    root.current?.querySelector("button")?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!isOpen.value) return;
    const all = entries();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const moves: Readonly<Record<string, number>> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
    const to = moves[event.key];
    if (to !== undefined) {
      event.preventDefault();
      all.at(to % all.length)?.focus();
    } else if (event.key === "Escape") close();
    else if (event.key === "Tab") isOpen.value = false;
    else return;
    event.stopPropagation();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys of the button and of the menu in it
    <div class="menu-root" ref={root} onKeyDown={onKeyDown}>
      <button
        type="button"
        aria-haspopup="menu"
        aria-expanded={isOpen.value}
        disabled={disabled}
        onClick={() => {
          isOpen.value = !isOpen.value;
        }}
      >
        {label}
        <span aria-hidden="true" class="caret">
          ▾
        </span>
      </button>
      {isOpen.value && (
        <div class="menu" role="menu" aria-label={label}>
          {items.map(({ label: text, act, isDanger }) => (
            <button
              key={text}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={isDanger === true ? "danger" : ""}
              onClick={() => {
                close();
                act();
              }}
            >
              {text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
