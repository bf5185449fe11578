// The token of this tab: where it comes from and where it is kept.
// Owns: `token`, and the fragment `#token=…` of the address.
// Invariants: the token leaves the address before anything else happens, so that no link, screenshot or history entry has it. It is kept in
// sessionStorage only (this tab). A new tab asks the others on a BroadcastChannel, which only pages of this origin can hear.

import { signal } from "@preact/signals";
import { storageName } from "./page.ts";

/** Undefined: this tab has none (yet). */
export const token = signal<string | undefined>(undefined);

/** How long a page waits for other tabs before it shows the form. An answer that comes later is still taken. */
const ANSWER_MS = 250;

type Note = { readonly type: "token?" } | { readonly type: "token"; readonly token: string };

const channel = new BroadcastChannel(storageName);
const waiting = new Set<(found: string) => void>();
channel.addEventListener("message", ({ data }: MessageEvent<Note>) => {
  if (data.type === "token") {
    for (const take of waiting) take(data.token);
    waiting.clear();
  } else if (token.value !== undefined) channel.postMessage({ type: "token", token: token.value } satisfies Note);
});

export function setToken(given: string): void {
  token.value = given;
  keep(given);
}
export function forgetToken(): void {
  token.value = undefined;
  keep(undefined);
}

function keep(given: string | undefined): void {
  try {
    if (given === undefined) sessionStorage.removeItem(storageName);
    else sessionStorage.setItem(storageName, given);
  } catch {
    // Storage is off in this browser: the token lives as long as the page.
  }
}

/** Takes the token out of the address. Undefined: it has none. */
export function takeFromAddress(): string | undefined {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return given ?? undefined;
}

/** From the address, or else from sessionStorage. */
export function readToken(): void {
  const given = takeFromAddress();
  if (given !== undefined) {
    if (given !== "") setToken(given);
    return;
  }
  try {
    token.value = sessionStorage.getItem(storageName) ?? undefined;
  } catch {
    // As above.
  }
}

/** Asks the other tabs. Resolves when one has answered, or after a moment; `take` gets an answer whenever it comes. */
export function askOtherTabs(take: (found: string) => Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    waiting.add((found) => void take(found).then(resolve));
    setTimeout(resolve, ANSWER_MS);
    channel.postMessage({ type: "token?" } satisfies Note);
  });
}
