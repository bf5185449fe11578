// Shows where two values differ, also if their one-line previews are equal.
// Owns nothing.
// Invariants: never throws; the text is bounded; if no difference is found, both values are shown as previews.
import { preview, shorten } from "../base/text.ts";

const CONTEXT = 20;
const DEEPEST = 32;

/** Both sides of a difference, as texts that show what differs. */
export function sides(expected: unknown, actual: unknown): [expected: string, actual: string] {
  const plain: [string, string] = [side(expected), side(actual)];
  if (plain[0] !== plain[1]) return plain;
  try {
    return differing(expected, actual, "", 0, new Set()) ?? plain;
  } catch {
    return plain;
  }
}

/** Text is shown without quotes ("step charge"), any other value as a preview. */
function side(value: unknown): string {
  if (value === undefined) return "nothing";
  return typeof value === "string" ? shorten(value) : preview(value);
}

function differing(a: unknown, b: unknown, path: string, depth: number, seen: Set<unknown>): [string, string] | undefined {
  if (Object.is(a, b) || depth > DEEPEST) return undefined;
  if (typeof a === "string" && typeof b === "string") return texts(a, b, path);
  if (isObject(a) && isObject(b)) {
    if (seen.has(a)) return undefined; // each object is visited once, so cycles end
    seen.add(a);
    for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
      const found = differing(a[key], b[key], path === "" ? key : `${path}.${key}`, depth + 1, seen);
      if (found !== undefined) return found;
    }
    if (Object.getPrototypeOf(a) === Object.getPrototypeOf(b)) return undefined;
  }
  return [at(path, kindAnd(a)), at(path, kindAnd(b))];
}
/** Both texts, from shortly before the first character that differs. */
function texts(a: string, b: string, path: string): [string, string] {
  let from = 0;
  while (a[from] === b[from]) from++;
  const start = Math.max(0, from - CONTEXT);
  const cut = (text: string) => at(path, `${start === 0 ? "" : `(from character ${start + 1}) `}${preview(text.slice(start))}`);
  return [cut(a), cut(b)];
}
function at(path: string, text: string): string {
  return path === "" ? text : `${path}: ${text}`;
}
/** Adds the class, because the previews of a Map and a Set, or of a Date and its text, are equal. */
function kindAnd(value: unknown): string {
  return isObject(value) ? `${value.constructor?.name ?? "Object"} ${preview(value)}` : preview(value);
}
function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
