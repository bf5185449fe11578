// The address of the page as a signal, and links that change it without loading.
// Owns: `address`, `navigate`, `Link`. Each view is its address.

import { computed, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { base } from "../api/page.ts";
import { encodeSegment, type Query, queryText, viewAt } from "../base/paths.ts";
import { visible } from "../base/values.ts";

const current = signal(location.pathname + location.search);

export const address = computed(() => new URL(current.value, location.origin));
export const view = computed(() => {
  const { pathname } = address.value;
  return viewAt(pathname.startsWith(base) ? pathname.slice(base.length) : "");
});
export const param = (name: string): string | undefined => address.value.searchParams.get(name) ?? undefined;

addEventListener("popstate", () => {
  current.value = location.pathname + location.search;
});

/** `path` is below the base: `runs/ord-7?view=state`. */
export function navigate(path: string, { replace = false } = {}): void {
  const url = base + path;
  if (url === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", url);
  else {
    history.pushState(null, "", url);
    scrollTo(0, 0);
  }
  current.value = url;
}

/** Changes parameters of this view's address; undefined removes one. */
export function setParams(changes: Query, { replace = true } = {}): void {
  const all: Record<string, string> = Object.fromEntries(address.value.searchParams);
  const path = address.value.pathname.slice(base.length);
  navigate(path + queryText({ ...all, ...changes }), { replace });
}

export const runPath = (id: string, query: Query = {}): string => `runs/${encodeSegment(id)}${queryText(query)}`;

export function Link({
  to,
  children,
  class: name,
  current: isCurrent,
}: {
  to: string;
  children: ComponentChildren;
  class?: string;
  current?: boolean;
}) {
  const follow = (event: MouseEvent): void => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a href={base + to} class={name ?? ""} aria-current={isCurrent === true ? "page" : undefined} onClick={follow}>
      {children}
    </a>
  );
}

export const RunLink = ({ id }: { id: string }) => (
  <Link to={runPath(id)} class="run-id">
    {visible(id)}
  </Link>
);
