// Times and durations as texts.
// Owns: their formats. Pure: the present is an argument.

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Two units at most: "1.2s", "4m 10s", "3h 5m", "12d 4h". */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "";
  const span = Math.max(0, ms);
  if (span < SECOND) return `${Math.round(span)}ms`;
  if (span < MINUTE) return `${(span / SECOND).toFixed(span < 10 * SECOND ? 1 : 0).replace(/\.0$/, "")}s`;
  if (span < HOUR) return two(span, MINUTE, "m", SECOND, "s");
  if (span < DAY) return two(span, HOUR, "h", MINUTE, "m");
  return two(span, DAY, "d", HOUR, "h");
}

function two(span: number, big: number, bigName: string, small: number, smallName: string): string {
  const units = Math.round(span / small);
  const each = big / small;
  const rest = units % each;
  return `${Math.floor(units / each)}${bigName}${rest === 0 ? "" : ` ${rest}${smallName}`}`;
}

/** "2m ago", "in 5h": one unit, for tables. */
export function relative(time: string | number | null | undefined, now: number): string {
  const at = toMs(time);
  if (at === undefined) return "";
  const ms = now - at;
  const span = Math.abs(ms);
  if (span < SECOND) return "now";
  const [size, name] = span < MINUTE ? [SECOND, "s"] : span < HOUR ? [MINUTE, "m"] : span < DAY ? [HOUR, "h"] : [DAY, "d"];
  const text = `${Math.floor(span / size)}${name}`;
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

/** Milliseconds since the Unix epoch, of an ISO text. */
export function toMs(time: string | number | null | undefined): number | undefined {
  if (time === null || time === undefined) return undefined;
  const ms = typeof time === "number" ? time : Date.parse(time);
  return Number.isNaN(ms) ? undefined : ms;
}

const pad = (number: number, length = 2): string => String(number).padStart(length, "0");

/** In the zone of the browser, with milliseconds: "2026-11-17 21:43:31.250". */
export function clock(time: string | number | null | undefined): string {
  const at = toMs(time);
  if (at === undefined) return "";
  const date = new Date(at);
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
}

/** Of "24h", "1h30m", "2w" or an ISO time: the time that a filter means. Undefined: neither. */
export function since(text: string, now: number): string | undefined {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/g)];
  if (parts.length > 0 && parts.map(([whole]) => whole).join("") === text) {
    const sizes: Readonly<Record<string, number>> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY, w: 7 * DAY };
    const ms = parts.reduce((sum, [, n, unit]) => sum + Number(n) * (sizes[unit ?? ""] ?? 0), 0);
    return new Date(now - ms).toISOString();
  }
  const at = /^\d{4}-\d\d/.test(text) ? toMs(text) : undefined;
  return at === undefined ? undefined : new Date(at).toISOString();
}

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
