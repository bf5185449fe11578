// `holdfast schedules set`
// Owns: how options become a schedule.
// Invariants: either --cron or --every; what is left out has the engine's default.

import { attributesOption, durationOption, jsonArgument, numberOption } from "../arguments.ts";
import { usage } from "../failures.ts";
import type { Session } from "../session.ts";
import { printSchedule } from "./read.ts";

interface SetOptions {
  readonly workflow: string;
  readonly cron?: string;
  readonly every?: string;
  readonly timezone?: string;
  readonly input?: string;
  readonly overlap?: "skip" | "queue" | "allow" | "cancel-previous";
  readonly jitter?: string;
  readonly catchUp?: string;
  readonly queue?: string;
  readonly key?: string;
  readonly priority?: string;
  readonly version?: string;
  readonly deadline?: string;
  readonly attr?: readonly string[];
  readonly tagged?: true;
}

export async function setSchedule(session: Session, [id]: readonly [string], options: SetOptions): Promise<number> {
  const { workflow, cron, every, timezone, overlap, jitter, catchUp } = options;
  if ((cron === undefined) === (every === undefined)) throw usage("Give either --cron or --every.");
  const input = await jsonArgument("--input", options.input, session.io);
  const start = startOf(options);
  const body = {
    workflow,
    ...(options.input !== undefined && { input }),
    ...(cron !== undefined && { cron }),
    // As they were written: they are checked here, and shown by `schedules show`.
    ...(every !== undefined && { every: duration("--every", every) }),
    ...(jitter !== undefined && { jitter: duration("--jitter", jitter) }),
    ...(catchUp !== undefined && { catchUp: duration("--catch-up", catchUp) }),
    ...(timezone !== undefined && { timezone }),
    ...(overlap !== undefined && { overlap }),
    ...(Object.keys(start).length > 0 && { start }),
  };
  const client = await session.writer();
  const query = { ...(options.tagged === true && { tagged: true }) };
  return printSchedule(session, await client.call("schedules.set", { params: { id }, query, body }));
}

function duration(what: string, text: string): string | number {
  const ms = durationOption(what, text);
  return /^\d+$/.test(text) ? ms : text;
}

function startOf({ queue, key, priority, version, deadline, attr }: SetOptions) {
  const attributes = attributesOption(attr);
  return {
    ...(queue !== undefined && { queue }),
    ...(key !== undefined && { key }),
    ...(priority !== undefined && { priority: numberOption("--priority", priority) }),
    ...(version !== undefined && { version }),
    ...(deadline !== undefined && { deadline: duration("--deadline", deadline) }),
    ...(attributes !== undefined && { attributes }),
  };
}
