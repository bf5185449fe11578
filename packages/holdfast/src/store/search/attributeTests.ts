// Tests of attributes, in the form that stores work with.
// Owns: what a test means: values, a beginning, or a range of one type.
// Invariants: B1 ("1" is not 1; texts are compared by code point, also those that are not well-formed; `in: []` matches nothing).

import type { AttributeTest, RunFilter, Scalar } from "../searchPort.ts";

/** An end of a range. */
export interface Limit {
  /** Where the range ends. */
  readonly value: string | number;
  /** Whether the value itself is in the range. */
  readonly isInclusive: boolean;
}
/** What a test of an attribute means. */
export type Meaning =
  | {
      readonly kind: "values";
      /** The values that pass. */
      readonly values: readonly Scalar[];
    }
  | {
      readonly kind: "prefix";
      /** Texts that begin with this one pass. */
      readonly prefix: string;
    }
  /** At least one of the two. */
  | {
      readonly kind: "range";
      /** Whether it is a range of texts or of numbers. */
      readonly type: "string" | "number";
      /** Where the range begins. */
      readonly low: Limit | undefined;
      /** Where the range ends. */
      readonly high: Limit | undefined;
    };

/** What a test of an attribute means. */
export function meaningOf(test: AttributeTest): Meaning {
  if (typeof test !== "object") return { kind: "values", values: [test] };
  if ("in" in test) return { kind: "values", values: [...new Set(test.in.map((value) => (value === 0 ? 0 : value)))] };
  if ("prefix" in test) return { kind: "prefix", prefix: test.prefix };
  const { gt, gte, lt, lte } = test;
  const low = narrower(limit(gt, false), limit(gte, true), 1);
  const high = narrower(limit(lt, false), limit(lte, true), -1);
  return { kind: "range", type: typeof (low ?? high)?.value === "number" ? "number" : "string", low, high };
}
function limit(value: string | number | undefined, isInclusive: boolean): Limit | undefined {
  return value === undefined ? undefined : { value, isInclusive };
}
/** Of two limits on one side: the higher of low ones (1), the lower of high ones (-1). */
function narrower(open: Limit | undefined, closed: Limit | undefined, side: 1 | -1): Limit | undefined {
  if (open === undefined || closed === undefined) return open ?? closed;
  return compareScalars(open.value, closed.value) * side >= 0 ? open : closed;
}

/** Is there an empty list in it, so that no run can match? */
export function findsNothing({ status, workflow, attributes = {} }: RunFilter): boolean {
  const lists = Object.values(attributes).map((test) => (typeof test === "object" && "in" in test ? test.in : undefined));
  return [status, workflow, ...lists].some((list) => list?.length === 0 && typeof list !== "string");
}

/** Does the value of an attribute pass? Undefined: the run has no such attribute. */
export function passes(meaning: Meaning, value: Scalar | undefined): boolean {
  switch (meaning.kind) {
    case "values":
      return value !== undefined && meaning.values.some((one) => one === value);
    case "prefix":
      return typeof value === "string" && beginsWith(value, meaning.prefix);
    case "range":
      return isWithin(meaning, value);
  }
}
function isWithin({ type, low, high }: Extract<Meaning, { kind: "range" }>, value: Scalar | undefined): boolean {
  if (typeof value !== type || typeof value === "boolean" || value === undefined) return false;
  const above = low === undefined ? 1 : compareScalars(value, low.value);
  const below = high === undefined ? -1 : compareScalars(value, high.value);
  return (above > 0 || (above === 0 && low?.isInclusive === true)) && (below < 0 || (below === 0 && high?.isInclusive === true));
}

/** By code points: half of a surrogate pair is not the beginning of the whole. */
export function beginsWith(text: string, prefix: string): boolean {
  if (!text.startsWith(prefix)) return false;
  return !(HIGH_SURROGATE_LAST.test(prefix) && LOW_SURROGATE_FIRST.test(text.slice(prefix.length)));
}
const HIGH_SURROGATE_LAST = /[\uD800-\uDBFF]$/;
const LOW_SURROGATE_FIRST = /^[\uDC00-\uDFFF]/;

/** Of one type. */
function compareScalars(a: string | number, b: string | number): number {
  if (typeof a === "string" && typeof b === "string") return compareTexts(a, b);
  return a < b ? -1 : a > b ? 1 : 0;
}

/** By code point. JavaScript compares by unit of UTF-16, which differs from U+D800 on: characters above U+FFFF begin with a surrogate. */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  if (!HIGH.test(a) || !HIGH.test(b)) return a < b ? -1 : 1;
  let at = 0;
  while (a.charCodeAt(at) === b.charCodeAt(at)) at++;
  // The rest of a character whose first half is the same in both.
  if (at > 0 && isPair(a, at - 1) !== isPair(b, at - 1)) at--;
  return (a.codePointAt(at) ?? -1) - (b.codePointAt(at) ?? -1);
}
const HIGH = /[\uD800-\uFFFF]/;
function isPair(text: string, at: number): boolean {
  return (text.codePointAt(at) ?? 0) > 0xffff;
}

/** Above all texts that begin with this one, and below or equal to all others that are above it. Undefined: nothing is above them. For well-formed texts. */
export function textAfter(prefix: string): string | undefined {
  const points = Array.from(prefix, (char) => char.codePointAt(0) ?? 0);
  while (points.at(-1) === LAST_POINT) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  return String.fromCodePoint(...points, last === LAST_BEFORE_SURROGATES ? FIRST_AFTER_SURROGATES : last + 1);
}
const LAST_POINT = 0x10ffff;
const LAST_BEFORE_SURROGATES = 0xd7ff;
const FIRST_AFTER_SURROGATES = 0xe000;
