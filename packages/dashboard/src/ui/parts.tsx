// Small parts that every page uses: a status, a time, a value, a text to copy, a notice.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { now } from "../api/call.ts";
import { nameOfStatus } from "../base/statuses.ts";
import { clock, relative } from "../base/times.ts";
import { type DiffLine, noteOf, pretty, visible } from "../base/values.ts";
import { tick } from "./tick.ts";

export function Status({ status }: { status: string }) {
  return (
    <span class="status" data-status={status}>
      {nameOfStatus(status)}
    </span>
  );
}

/** "2m ago", with the whole time as its title; kept up to date. */
export function Ago({ time }: { time: string | null | undefined }) {
  if (time === null || time === undefined) return null;
  tick.value;
  return (
    <time dateTime={time} title={clock(time)}>
      {relative(time, now())}
    </time>
  );
}

/** Text of the server that may be hidden from this token. What is in backticks is code. */
export function Text({ text }: { text: unknown }) {
  if (typeof text === "string") {
    const parts = visible(text).split(/`([^`\n]+)`/);
    return <>{parts.map((part, i) => (i % 2 === 0 ? part : <code key={i}>{part}</code>))}</>;
  }
  const note = noteOf(text);
  return note === undefined ? null : <span class="note">{note.text}</span>;
}

/** `order@2`. */
export function WorkflowName({ run: { workflow, version } }: { run: { readonly workflow: string; readonly version: string | null } }) {
  return (
    <>
      {visible(workflow)}
      {version !== null && <span class="muted">@{visible(version)}</span>}
    </>
  );
}

/** A value as indented JSON, or a note where it is hidden, too large or unreadable. */
export function Value({ value, label }: { value: unknown; label: string }) {
  const note = noteOf(value);
  if (note !== undefined) return <p class={note.isNote ? "note" : "mono"}>{visible(note.text)}</p>;
  if (value === undefined) return <p class="note">none</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <pre class="value" tabIndex={0} role="region" aria-label={label}>
      {visible(pretty(value))}
    </pre>
  );
}

export function Diff({ lines, label }: { lines: readonly DiffLine[]; label: string }) {
  const marks = { same: " ", added: "+", removed: "-" } as const;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <pre class="value diff" tabIndex={0} role="region" aria-label={label}>
      {lines.map(({ change, text }, i) => (
        <span key={i} class={change}>{`${marks[change]} ${text}\n`}</span>
      ))}
    </pre>
  );
}

export function Copy({ label, text }: { label: string; text: string }) {
  const isCopied = useSignal(false);
  const copy = async (): Promise<void> => {
    await copyText(text);
    isCopied.value = true;
    setTimeout(() => {
      isCopied.value = false;
    }, 1_500);
  };
  return (
    <button type="button" onClick={() => void copy()}>
      {isCopied.value ? "Copied" : label}
    </button>
  );
}

async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No permission, or not a secure context: the old way.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function Notice({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="notice">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{typeof value === "string" ? visible(value) : value}</dd>
          </div>
        ))}
    </dl>
  );
}
