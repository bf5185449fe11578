// Evaluates queries on the published state of a run.
// Owns: nothing between calls.
// Invariants: M11 (a query never pauses, writes or advances a unit, and sees only published state).

import { type Codec, jsonCodec } from "../codec/index.ts";
import { isInstance, messageOf, QueryFailedError } from "../errors/index.ts";
import type { AnyWorkflow } from "../model/index.ts";
import type { Payload } from "../protocol/index.ts";

/** A query is a pure function of the published state, so any process that has the definition can evaluate it (M11). */
export function evaluateQuery(
  workflow: AnyWorkflow,
  name: string,
  state: Payload | undefined,
  args: unknown,
  codec: Codec = jsonCodec,
): unknown {
  const queries = workflow.options.queries as Readonly<Record<string, (state: unknown, args: unknown) => unknown>> | undefined;
  const query = queries !== undefined && Object.hasOwn(queries, name) ? queries[name] : undefined;
  if (query === undefined) {
    const known = Object.keys(queries ?? {}).join(", ") || "none";
    throw new QueryFailedError({ query: name, reason: `workflow "${workflow.name}" has no such query (it has: ${known})` });
  }
  try {
    const answer = query(state === undefined ? undefined : codec.decode(state), args);
    if (isInstance(answer, Promise)) answer.catch(() => {}); // encoding the promise fails later
    return answer;
  } catch (cause) {
    // biome-ignore lint/style/useErrorCause: it is among the details
    throw new QueryFailedError({ query: name, reason: messageOf(cause), cause });
  }
}
