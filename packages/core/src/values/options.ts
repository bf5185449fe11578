// Rejects unknown option names: a misspelled option that is silently ignored is noticed too late.
// Owns the error text, which suggests the most similar known name.
// Invariants: the type of a list of names makes it complete; an option whose value is undefined counts as absent.
import { InvalidInputError } from "../base/inputs.ts";

/** The names of all options of a type: the compiler finds one that is missing. */
export type OptionNames<T> = { readonly [K in keyof Required<T>]: true };

/**
 * Checks the names of options. When all is well it only loops over the keys: operations in workflows call it.
 * @throws `InvalidInputError` for an unknown option, with the most similar known name.
 */
export function checkOptionNames(what: string, options: object, names: Readonly<Record<string, true>>): void {
  for (const key in options) {
    if (!Object.hasOwn(names, key) && (options as Readonly<Record<string, unknown>>)[key] !== undefined) throw unknown(what, key, names);
  }
}

function unknown(what: string, key: string, names: Readonly<Record<string, true>>): InvalidInputError {
  const known = Object.keys(names);
  const near = nearest(key, known);
  const help = near === undefined ? `Known options: ${known.join(", ")}.` : `Did you mean ${near}?`;
  return new InvalidInputError({ what, issues: [{ message: `Unknown option. ${help}`, path: [key] }] });
}

/** The name with the fewest edits, if they are few; otherwise one that contains the key or begins with the same four letters. */
function nearest(key: string, known: readonly string[]): string | undefined {
  const given = key.toLowerCase();
  const scored = known.map((name) => ({ name, edits: edits(given, name.toLowerCase()) })).sort((a, b) => a.edits - b.edits);
  const [best] = scored;
  if (best !== undefined && best.edits <= Math.max(1, Math.floor(best.name.length / 3))) return best.name;
  return known.find((name) => given.length > 3 && (name.toLowerCase().includes(given) || name.toLowerCase().startsWith(given.slice(0, 4))));
}

/** The edit distance: how many letters must be inserted, deleted or changed. */
export function edits(a: string, b: string): number {
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
