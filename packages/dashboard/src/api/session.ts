// Who the user of this tab is: what the server says that the token may do.
// Owns: `health` (the server's last answer about itself), `may`, and the first steps of a tab.

import { computed, signal } from "@preact/signals";
import { call, needsToken, Problem } from "./call.ts";
import { askOtherTabs, setToken, takeFromAddress } from "./token.ts";
import type { Health } from "./types.ts";

export const health = signal<Health | undefined>(undefined);
/** The first answer, whatever it was, is there. */
export const isReady = signal(false);

const RANK = { read: 1, operate: 2, admin: 3 } as const;
export type Role = keyof typeof RANK;

const rank = computed(() => {
  const answer = health.value;
  if (answer === undefined) return 0;
  return answer.readOnly ? RANK.read : RANK[answer.caller.role];
});
export const may = (role: Role): boolean => rank.value >= RANK[role];

/** A server may authorize the page without a token (behind another login), so the first call decides. */
export async function beginSession(): Promise<void> {
  await refreshHealth();
  if (needsToken.value === "missing") {
    await askOtherTabs(async (found) => {
      if (needsToken.value === "missing") await signIn(found);
    });
  }
  isReady.value = true;
}

// An address with a token that is opened in this tab changes only the fragment: the page is not loaded again.
addEventListener("hashchange", () => {
  const given = takeFromAddress();
  if (given !== undefined && given !== "") void signIn(given);
});

export async function signIn(given: string): Promise<void> {
  setToken(given);
  await refreshHealth();
  if (health.value !== undefined) needsToken.value = "no";
}

const RETRY_MS = 2_000;
let retry: ReturnType<typeof setTimeout> | undefined;

/** Without an answer it is asked again: what the token may do is not known before. */
export async function refreshHealth(): Promise<void> {
  clearTimeout(retry);
  try {
    health.value = await call<Health>("GET", "health");
  } catch (error) {
    if (error instanceof Problem && error.status === 401) health.value = undefined;
    else if (health.value === undefined) retry = setTimeout(() => void refreshHealth(), RETRY_MS);
  }
}
