// A modal dialog on the browser's own element: focus stays inside, Escape closes it, the page behind is inert.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Text } from "./parts.tsx";

export function Dialog({
  title,
  onClose,
  children,
  wide = false,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  // At once: the next key may come before the browser has painted.
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>("input, select, textarea")?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={onClose}>
          <span aria-hidden="true">✕</span>
        </button>
      </header>
      {children}
    </dialog>
  );
}

export function ErrorText({ error }: { error: Error | undefined }) {
  if (error === undefined) return null;
  const { advice, issues } = error as { advice?: string; issues?: readonly { message: string; path?: readonly (string | number)[] }[] };
  return (
    <div class="error-text" role="alert">
      <p>
        <Text text={error.message} />
      </p>
      {issues !== undefined && issues.length > 0 && (
        <ul>
          {issues.map(({ message, path = [] }) => (
            <li key={`${path.join(".")}${message}`}>{path.length > 0 ? `${path.join(".")}: ${message}` : message}</li>
          ))}
        </ul>
      )}
      {advice !== undefined && !error.message.includes(advice) && (
        <p class="muted">
          <Text text={advice} />
        </p>
      )}
    </div>
  );
}
