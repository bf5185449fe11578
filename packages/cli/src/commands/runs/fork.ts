// `holdfast runs fork`
// Owns: what --from-failure means.
// Invariants: it is the location of the last failed operation.

import { printable } from "../../terminal/escape.ts";
import { CommandFailure, EXIT, usage } from "../failures.ts";
import type { Session } from "../session.ts";

interface ForkOptions {
  readonly before?: string;
  readonly fromFailure?: true;
  readonly id?: string;
  readonly version?: string;
  readonly signals?: "keep" | "drop";
}

export async function forkRun(session: Session, [source]: readonly [string], options: ForkOptions): Promise<number> {
  const { before, fromFailure, id, version, signals } = options;
  if ((before === undefined) === (fromFailure === undefined)) throw usage("Give either --before or --from-failure.");
  const cut = before ?? (await lastFailure(session, source));
  const client = await session.writer();
  const forked = await client.call("runs.fork", {
    params: { id: source },
    body: {
      before: cut,
      ...(id !== undefined && { id }),
      ...(version !== undefined && { version }),
      ...(signals !== undefined && { signals }),
    },
  });
  session.show({
    json: forked,
    ids: [forked.id],
    human: () => [`Forked ${printable(source)} before ${printable(cut)}: ${printable(forked.id)}`],
  });
  return EXIT.ok;
}

async function lastFailure(session: Session, id: string): Promise<string> {
  const client = await session.reader();
  const { operations } = await client.call("runs.operations", { params: { id } });
  const failed = operations.findLast(({ status }) => status === "failed");
  if (failed !== undefined) return failed.location;
  throw new CommandFailure({
    code: "HF_INVALID_INPUT",
    status: 400,
    title: "Invalid input",
    detail: `No operation of ${id} has failed.`,
    advice: `Choose one: holdfast runs show ${id}, then --before LOCATION.`,
    exitCode: EXIT.refused,
  });
}
