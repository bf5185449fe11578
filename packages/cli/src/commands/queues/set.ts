// `holdfast queues set`
// Owns: how options become limits.
// Invariants: it replaces all limits of the queue; either options or JSON.

import type { RequestOf } from "../../api/routes.ts";
import { durationOption, jsonArgument, numberOption, pairOf } from "../arguments.ts";
import { usage } from "../failures.ts";
import type { Session } from "../session.ts";
import { printQueue } from "./read.ts";

interface SetOptions {
  readonly concurrency?: string;
  readonly rate?: string;
  readonly perKeyConcurrency?: string;
  readonly perKeyRate?: string;
  readonly limit?: readonly string[];
  readonly counts?: "running" | "open";
}
type QueueBody = NonNullable<RequestOf<"queues.set">["body"]>;

export async function setQueue(
  session: Session,
  [name, text]: readonly [string, string | undefined],
  options: SetOptions,
): Promise<number> {
  const given = await jsonArgument("The limits", text, session.io);
  if (text !== undefined && Object.keys(options).length > 0) throw usage("Give the limits as JSON or by options, not both.");
  if (text === undefined && Object.keys(options).length === 0)
    throw usage("Give limits: --concurrency, --rate, …, or all of them as JSON.");
  const body = text === undefined ? limitsOf(options) : (given as QueueBody);
  const client = await session.writer();
  return printQueue(session, await client.call("queues.set", { params: { name }, body }));
}

function limitsOf({ concurrency, rate, perKeyConcurrency, perKeyRate, limit, counts }: SetOptions): QueueBody {
  const perKey = {
    ...(perKeyConcurrency !== undefined && { concurrency: numberOption("--per-key-concurrency", perKeyConcurrency, { least: 1 }) }),
    ...(perKeyRate !== undefined && { rate: rateOf("--per-key-rate", perKeyRate) }),
  };
  const keys = limit
    ?.map((one) => pairOf("--limit", one))
    .map(([key, n]) => [key, { concurrency: numberOption("--limit", n, { least: 1 }) }] as const);
  return {
    ...(concurrency !== undefined && { concurrency: numberOption("--concurrency", concurrency, { least: 1 }) }),
    ...(rate !== undefined && { rate: rateOf("--rate", rate) }),
    ...(Object.keys(perKey).length > 0 && { perKey }),
    ...(keys !== undefined && { keys: Object.fromEntries(keys) }),
    ...(counts !== undefined && { counts }),
  };
}

/** "100/1m" */
function rateOf(what: string, text: string): { limit: number; per: string | number } {
  const at = text.indexOf("/");
  if (at < 0) throw usage(`${what}: "${text}" is not a rate.`, 'Example: "100/1m".');
  const per = text.slice(at + 1);
  durationOption(what, per);
  return { limit: numberOption(what, text.slice(0, at), { least: 1 }), per };
}
