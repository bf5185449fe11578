// Job: read what is wrong with a definition, for tests to compare.
// Owns: nothing.
// Invariants: an error of any other kind passes through.
import { InvalidInputError } from "../../src/errors/index.ts";

/** "path.to.field: what is wrong", one line an issue of the one error that a definition gets; none if it is accepted. */
export function issuesOf(define: () => unknown): string[] {
  try {
    define();
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return error.issues.map((issue) => [...(issue.path?.length ? [issue.path.map(String).join(".")] : []), issue.message].join(": "));
  }
  return [];
}
