// The advice in messages of errors that all hosts share, for hosts that have other ways to help.
// Owns: which part of a message is advice.
// Invariants: only the advice changes, in the error and in its causes; a message that ends otherwise stays as it is.

import { type ErrorName, entryByName } from "../base/catalog.ts";

/** By the name of the error: what to do about it on this host. */
export type HostAdvice = Readonly<Partial<Record<ErrorName, string>>>;

/** The advice for a failed run that can't be resumed, on a host where others can. */
export const NOT_RESUMABLE =
  "See `cause` and run.operations(). The run can't be resumed, because its deadline has passed or its rollbacks have run: start a new run.";

interface ErrorLike {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly stack?: unknown;
  readonly cause?: unknown;
}

/** The same error, or stored error, and its causes: their messages are changed in place. */
export function adviseAs<E>(error: E, advice: HostAdvice): E {
  const seen = new Set<unknown>();
  for (let one: unknown = error; typeof one === "object" && one !== null && !seen.has(one); one = (one as ErrorLike).cause) {
    seen.add(one);
    rewrite(one, advice);
  }
  return error;
}
function rewrite(error: ErrorLike, advice: HostAdvice): void {
  const { name, message, stack } = error;
  if (typeof name !== "string" || typeof message !== "string") return;
  const here = Object.hasOwn(advice, name) ? advice[name as ErrorName] : undefined;
  const there = [entryByName(name)?.whatToDo, NOT_RESUMABLE].find((text) => text !== undefined && message.endsWith(`\n${text}`));
  if (here === undefined || there === undefined) return;
  const changed = message.slice(0, -there.length) + here;
  Reflect.defineProperty(error, "message", { value: changed });
  if (typeof stack === "string") Reflect.defineProperty(error, "stack", { value: stack.replace(message, () => changed) });
}
