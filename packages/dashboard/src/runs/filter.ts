// The filter of the list of runs: words such as `status:failed workflow:order attr.tenant:42 since:24h`.
// Owns: its language: text to words, words to parameters of the API. Pure.
// Invariants: text → words → text changes nothing but spaces; a word that means nothing is reported, not dropped.

import { isOpen, isRunStatus, OPEN_STATUSES, RUN_STATUSES, type RunStatus } from "../base/statuses.ts";
import { since } from "../base/times.ts";

export interface Word {
  /** "" for a word without a colon, which is the beginning of an id. */
  readonly name: string;
  readonly value: string;
  /** Written in quotes, which make the value of an attribute a text: `attr.zip:"10115"`. */
  readonly isQuoted?: boolean;
}
export interface Filter {
  readonly words: readonly Word[];
  readonly statuses: readonly RunStatus[];
  /** Parameters of `GET runs` and `GET runs/count`, without `status`. */
  readonly query: Readonly<Record<string, string>>;
  /** What can't be understood. */
  readonly problems: readonly string[];
}

const PARAMETERS: Readonly<Record<string, string>> = {
  workflow: "workflow",
  version: "version",
  queue: "queue",
  key: "key",
  schedule: "schedule",
  parent: "parentId",
  id: "idPrefix",
  "": "idPrefix",
};
const TIMES: Readonly<Record<string, string>> = {
  since: "since",
  until: "until",
  finishedSince: "finishedSince",
  finishedUntil: "finishedUntil",
};
/** Words that stand for several statuses. */
const GROUPS: Readonly<Record<string, readonly RunStatus[]>> = {
  open: OPEN_STATUSES,
  closed: RUN_STATUSES.filter((status) => !isOpen(status)),
};
/** For help texts. */
export const FILTER_WORDS = "status: workflow: version: queue: key: schedule: parent: id: attr.NAME: since: until:";

const WORD = /((?:attr\.[^\s:"]+|[A-Za-z]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g;

/** A value with spaces is quoted: `workflow:"send mail"`. */
export function wordsOf(text: string): Word[] {
  const words: Word[] = [];
  for (const [, prefix = "", quoted, plain = ""] of text.matchAll(WORD)) {
    const name = prefix.slice(0, -1);
    words.push(quoted === undefined ? { name, value: plain } : { name, value: quoted.replace(/\\(.)/g, "$1"), isQuoted: true });
  }
  return words;
}
export function textOf(words: readonly Word[]): string {
  return words
    .map(({ name, value, isQuoted }) => {
      const text = isQuoted === true || /^$|^"|\s/.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value;
      return name === "" ? text : `${name}:${text}`;
    })
    .join(" ");
}
/** The word that finds this value, and not another one that looks the same. */
export function attributeWord(name: string, value: string | number | boolean): Word {
  return { name: `attr.${name}`, value: String(value), isQuoted: typeof value === "string" && scalarOf(value) !== value };
}

export function filterOf(text: string, now: number): Filter {
  const words = wordsOf(text);
  const statuses: RunStatus[] = [];
  const query: Record<string, string> = {};
  const problems: string[] = [];
  for (const { name, value, isQuoted } of words) {
    const parameter = PARAMETERS[name];
    const time = TIMES[name];
    if (name === "status") {
      for (const one of value.split(",").filter((part) => part !== "")) {
        const group = GROUPS[one];
        if (group !== undefined) statuses.push(...group);
        else if (isRunStatus(one)) statuses.push(one);
        else problems.push(`"${one}" is not a status. Use one of: open, closed, ${RUN_STATUSES.join(", ")}.`);
      }
    } else if (parameter !== undefined) query[parameter] = value;
    else if (name.startsWith("attr.")) query[name] = isQuoted === true ? JSON.stringify(value) : value;
    else if (time !== undefined) {
      const at = since(value, now);
      if (at === undefined) problems.push(`"${value}" is not a time. Write a duration such as 24h, or 2026-01-31T12:00Z.`);
      // A duration is sent as it is: the server counts from its own clock.
      else query[time] = /^\d{4}-/.test(value) ? at : value;
    } else problems.push(`"${name}:" is unknown. Use one of: ${FILTER_WORDS}`);
  }
  return { words, statuses: [...new Set(statuses)], query, problems };
}

/** The values of `status:` as they are written. */
export function statusWords(text: string): string[] {
  return wordsOf(text).flatMap(({ name, value }) => (name === "status" ? value.split(",").filter((one) => one !== "") : []));
}
/** The text with a status (or "open") added, or taken out if it is there. */
export function toggleStatus(text: string, status: string): string {
  const written = statusWords(text);
  const next = written.includes(status) ? written.filter((one) => one !== status) : [...written, status];
  const others = wordsOf(text).filter(({ name }) => name !== "status");
  return textOf(next.length === 0 ? others : [{ name: "status", value: next.join(",") }, ...others]);
}

/** As `RunFilter` in the body of a bulk action. Attributes are JSON scalars where they parse as one. */
export function bulkFilter({ statuses, query }: Filter, among: readonly RunStatus[], now: number): Record<string, unknown> {
  const filter: Record<string, unknown> = {};
  const attributes: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(query)) {
    if (name.startsWith("attr.")) attributes[name.slice(5)] = scalarOf(value);
    else filter[name] = name in TIMES ? since(value, now) : value;
  }
  if (Object.keys(attributes).length > 0) filter["attributes"] = attributes;
  filter["status"] = statuses.length === 0 ? among : statuses.filter((status) => among.includes(status));
  return filter;
}

function scalarOf(text: string): string | number | boolean {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "string" || typeof parsed === "number" || typeof parsed === "boolean") return parsed;
  } catch {
    // Not JSON: the text itself.
  }
  return text;
}
