// Statuses of runs, operations and attempts: which are open, how they are ordered, and their colours.
// Owns: the one table of colours, for badges (by CSS variables) and for the canvas.
// Invariants: each colour has a contrast of at least 4.5 against every background that a badge can be on, because badges use it for text.

export const RUN_STATUSES = [
  "pending",
  "running",
  "sleeping",
  "blocked",
  "rolling_back",
  "completed",
  "failed",
  "canceled",
  "terminated",
  "continued",
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

export const OPEN_STATUSES: readonly RunStatus[] = ["pending", "running", "sleeping", "blocked", "rolling_back"];
const OPEN: ReadonlySet<string> = new Set(OPEN_STATUSES);
export const isOpen = (status: string): boolean => OPEN.has(status);
export const isRunStatus = (text: string): text is RunStatus => (RUN_STATUSES as readonly string[]).includes(text);

export type Theme = "light" | "dark";

/** By status of a run, an operation or an attempt. */
export const STATUS_COLOURS = {
  pending: { light: "#5f687c", dark: "#98a2b3" },
  scheduled: { light: "#5f687c", dark: "#98a2b3" },
  running: { light: "#1d62d1", dark: "#6ba6ff" },
  sleeping: { light: "#6b52c4", dark: "#a897f5" },
  waiting: { light: "#6b52c4", dark: "#a897f5" },
  blocked: { light: "#b54708", dark: "#fb9a4b" },
  rolling_back: { light: "#a12f8f", dark: "#e387d6" },
  completed: { light: "#187a45", dark: "#43bd80" },
  failed: { light: "#c42b27", dark: "#fb6f6a" },
  lost: { light: "#96580a", dark: "#d9a441" },
  canceled: { light: "#5d6673", dark: "#8d97a5" },
  terminated: { light: "#7a4141", dark: "#cf9b9b" },
  abandoned: { light: "#5d6673", dark: "#8d97a5" },
  continued: { light: "#0b7285", dark: "#46bccb" },
} as const satisfies Record<string, Record<Theme, string>>;
export type Status = keyof typeof STATUS_COLOURS;

/** The colour of any status; one from a later version looks like a pending one. */
export function colourOf(status: string, theme: Theme): string {
  return (Object.hasOwn(STATUS_COLOURS, status) ? STATUS_COLOURS[status as Status] : STATUS_COLOURS.pending)[theme];
}

const SEVERITY: Readonly<Record<string, number>> = { failed: 5, lost: 4, running: 3, waiting: 2, completed: 1 };
/** Which of several statuses is shown where there is room for only one: failures never disappear. */
export const severityOf = (status: string): number => SEVERITY[status] ?? 0;

export const nameOfStatus = (status: string): string => status.replaceAll("_", " ");
