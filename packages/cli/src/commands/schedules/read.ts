// `holdfast schedules list` and `show`
// Owns: how schedules are shown.
// Invariants: the list is complete, whatever its length.

import type { ResponseOf } from "../../api/routes.ts";
import { printable, printableJson } from "../../terminal/escape.ts";
import { fields } from "../../terminal/table.ts";
import { relative } from "../../terminal/times.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";

export type Schedule = ResponseOf<"schedules.get">;

export async function listSchedules(session: Session): Promise<number> {
  const client = await session.reader();
  const schedules: Schedule[] = [];
  let after: string | null = null;
  do {
    const page: ResponseOf<"schedules.list"> = await client.call("schedules.list", { query: { ...(after !== null && { after }) } });
    schedules.push(...page.schedules);
    after = page.cursor;
  } while (after !== null);
  session.show({
    json: { schedules },
    lines: schedules,
    ids: schedules.map(({ id }) => id),
    human: () => {
      if (schedules.length === 0) session.note("No schedules.");
      return schedules.length === 0 ? [] : scheduleTable(session, schedules);
    },
  });
  return EXIT.ok;
}

function scheduleTable(session: Session, schedules: readonly Schedule[]): string[] {
  return session.table(
    [
      { title: "ID", value: ({ id }: Schedule) => id, least: 12 },
      { title: "WORKFLOW", value: ({ workflow }: Schedule) => workflow, yields: 2 },
      { title: "WHEN", value: whenText, yields: 2 },
      { title: "NEXT", value: ({ paused, nextRuns }: Schedule) => (paused ? "paused" : relative(nextRuns[0], session.now)), yields: 0 },
      { title: "LAST", value: ({ lastTick }: Schedule) => relative(lastTick, session.now), yields: 3 },
      { title: "MISSED", value: ({ missed }: Schedule) => (missed === 0 ? "" : missed), yields: 4, align: "right" },
      { title: "LAST RUN", value: ({ lastRunId }: Schedule) => lastRunId, yields: 5 },
    ],
    schedules,
  );
}

function whenText({ cron, every, timezone }: Schedule): string {
  return `${cron ?? (every === null ? "" : `every ${every}`)}${timezone === null ? "" : ` ${timezone}`}`;
}

export async function showSchedule(session: Session, [id]: readonly [string]): Promise<number> {
  const client = await session.reader();
  return printSchedule(session, await client.call("schedules.get", { params: { id } }));
}

export function printSchedule(session: Session, schedule: Schedule): number {
  session.show({ json: schedule, ids: [schedule.id], human: () => scheduleLines(session, schedule) });
  return EXIT.ok;
}

function scheduleLines({ colours, now }: Session, schedule: Schedule): string[] {
  const text = (value: string | number | null): string | undefined => (value === null ? undefined : printable(String(value)));
  return fields(
    [
      ["id", colours.bold(printable(schedule.id))],
      ["workflow", printable(schedule.workflow)],
      ["when", printable(whenText(schedule))],
      ["paused", schedule.paused ? colours.yellow("yes") : undefined],
      ["input", schedule.input === null || schedule.input === undefined ? undefined : printableJson(JSON.stringify(schedule.input))],
      ["overlap", text(schedule.overlap)],
      ["catch up", text(schedule.catchUp)],
      ["jitter", text(schedule.jitter)],
      ["start", schedule.start === null ? undefined : printableJson(JSON.stringify(schedule.start))],
      ["next", schedule.nextRuns.map((time) => `${time}  ${colours.dim(relative(time, now))}`).join("\n")],
      ["last", schedule.lastTick === null ? undefined : `${schedule.lastTick}  ${colours.dim(relative(schedule.lastTick, now))}`],
      ["last run", text(schedule.lastRunId)],
      ["missed", schedule.missed === 0 ? undefined : String(schedule.missed)],
    ],
    colours,
  );
}
