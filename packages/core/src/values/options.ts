// The names of options: what is not among them is refused, since an option that is misspelt and ignored is missed too late.
// Owns the wording, which names the nearest that there is.
// Invariants: a list of names is complete by its type; one that is given as undefined counts as left out.
import { InvalidInputError } from "../base/inputs.ts";

export type OptionNames<T> = { readonly [K in keyof Required<T>]: true };

/** A loop over the keys, and nothing else where all is well: calls inside of workflows come through here. */
export function checkOptionNames(what: string, options: object, names: Readonly<Record<string, true>>): void {
  for (const key in options) {
    if (!Object.hasOwn(names, key) && (options as Readonly<Record<string, unknown>>)[key] !== undefined) throw unknown(what, key, names);
  }
}

function unknown(what: string, key: string, names: Readonly<Record<string, true>>): InvalidInputError {
  const known = Object.keys(names);
  const near = nearest(key, known);
  const help = near === undefined ? `There are: ${known.join(", ")}.` : `Is ${near} meant?`;
  return new InvalidInputError({ what, issues: [{ message: `There is no option of that name. ${help}`, path: [key] }] });
}

/** The one that is written most alike, if any is; or else one that begins alike, or is part of the other. */
function nearest(key: string, known: readonly string[]): string | undefined {
  const given = key.toLowerCase();
  const scored = known.map((name) => ({ name, edits: edits(given, name.toLowerCase()) })).sort((a, b) => a.edits - b.edits);
  const [best] = scored;
  if (best !== undefined && best.edits <= Math.max(1, Math.floor(best.name.length / 3))) return best.name;
  return known.find((name) => given.length > 3 && (name.toLowerCase().includes(given) || name.toLowerCase().startsWith(given.slice(0, 4))));
}

/** How many letters must be put in, taken out or changed. */
function edits(a: string, b: string): number {
  if (a.length > 64) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
