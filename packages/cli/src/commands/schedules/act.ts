// `holdfast schedules pause`, `resume`, `trigger`, `backfill` and `delete`
// Owns: nothing but their arguments.
// Invariants: none.

import { printable } from "../../terminal/escape.ts";
import { momentOption } from "../arguments.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";
import { printSchedule } from "./read.ts";

export async function pauseSchedule(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.writer();
  return printSchedule(session, await client.call("schedules.pause", { params: { id } }));
}

export async function resumeSchedule(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.writer();
  return printSchedule(session, await client.call("schedules.resume", { params: { id } }));
}

export async function triggerSchedule(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.writer();
  const started = await client.call("schedules.trigger", { params: { id } });
  session.show({ json: started, ids: [started.id], human: () => [`Started ${printable(started.id)}`] });
  return EXIT.ok;
}

export async function backfillSchedule(session: Session, [id]: readonly [string], options: { from: string; to?: string }): Promise<number> {
  const from = momentOption("--from", options.from, session.now).toISOString();
  const to = (options.to === undefined ? new Date(session.now) : momentOption("--to", options.to, session.now)).toISOString();
  const client = await session.writer();
  const { ids } = await client.call("schedules.backfill", { params: { id }, body: { from, to } });
  session.show({
    json: { ids },
    lines: ids.map((one) => ({ id: one })),
    ids,
    human: () => [`Started ${ids.length} ${ids.length === 1 ? "run" : "runs"}`, ...ids.map((one) => `  ${printable(one)}`)],
  });
  return EXIT.ok;
}

export async function deleteSchedule(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.writer();
  const deleted = await client.call("schedules.delete", { params: { id } });
  session.show({ json: deleted, ids: [deleted.id], human: () => [`Deleted ${printable(id)}`] });
  return EXIT.ok;
}
