// Dark or light: as the system has it, or as the user chose.
// Owns: the attribute `data-theme` of the page, and the colours of statuses as CSS variables.

import { computed, effect, signal } from "@preact/signals";
import { storageName } from "../api/page.ts";
import { STATUS_COLOURS, type Theme } from "../base/statuses.ts";

const key = `${storageName}theme`;
const query = matchMedia("(prefers-color-scheme: dark)");
const system = signal<Theme>(query.matches ? "dark" : "light");
const chosen = signal<Theme | undefined>(read());

export const theme = computed(() => chosen.value ?? system.value);

export function toggleTheme(): void {
  const next = theme.value === "dark" ? "light" : "dark";
  chosen.value = next === system.value ? undefined : next;
  try {
    if (chosen.value === undefined) localStorage.removeItem(key);
    else localStorage.setItem(key, chosen.value);
  } catch {
    // Storage is off: the choice lasts as long as the page.
  }
}

function read(): Theme | undefined {
  try {
    const kept = localStorage.getItem(key);
    return kept === "dark" || kept === "light" ? kept : undefined;
  } catch {
    return undefined;
  }
}

export function applyTheme(): void {
  query.addEventListener("change", () => {
    system.value = query.matches ? "dark" : "light";
  });
  effect(() => {
    const root = document.documentElement;
    root.dataset["theme"] = theme.value;
    for (const [status, colours] of Object.entries(STATUS_COLOURS)) root.style.setProperty(`--status-${status}`, colours[theme.value]);
  });
}
