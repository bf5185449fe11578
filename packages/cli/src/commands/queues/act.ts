// `holdfast queues pause`, `resume` and `delete`
// Owns: nothing but their arguments.
// Invariants: none.

import { printable } from "../../terminal/escape.ts";
import { durationOption } from "../arguments.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";
import { printQueue } from "./read.ts";

export async function pauseQueue(session: Session, [name]: readonly [string], options: { key?: string; for?: string }): Promise<number> {
  const { key } = options;
  const span = options.for === undefined ? undefined : durationOption("--for", options.for);
  const client = await session.writer();
  const body = { ...(key !== undefined && { key }), ...(span !== undefined && { for: span }) };
  return printQueue(session, await client.call("queues.pause", { params: { name }, body }));
}

export async function resumeQueue(session: Session, [name]: readonly [string], { key }: { key?: string }): Promise<number> {
  const client = await session.writer();
  return printQueue(session, await client.call("queues.resume", { params: { name }, body: { ...(key !== undefined && { key }) } }));
}

export async function deleteQueue(session: Session, [name]: readonly [string]): Promise<number> {
  const client = await session.writer();
  const deleted = await client.call("queues.delete", { params: { name } });
  session.show({ json: deleted, ids: [deleted.name], human: () => [`Deleted the limits of ${printable(name)}`] });
  return EXIT.ok;
}
