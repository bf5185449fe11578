// `holdfast workers`
// Owns: its table.
// Invariants: none.

import type { ResponseOf } from "../api/routes.ts";
import type { Column } from "../terminal/table.ts";
import { relative, span } from "../terminal/times.ts";
import { EXIT } from "./failures.ts";
import type { Session } from "./session.ts";

type Worker = ResponseOf<"workers.list">["workers"][number];

export async function listWorkers(session: Session): Promise<number> {
  const client = await session.reader();
  const { workers } = await client.call("workers.list");
  session.show({
    json: { workers },
    lines: workers,
    ids: workers.map(({ id }) => id),
    human: () => {
      if (workers.length > 0) return session.table(columnsOf(session), workers);
      session.note("No worker is alive.");
      return [];
    },
  });
  return EXIT.ok;
}

function columnsOf({ now, isWide }: Session): Column<Worker>[] {
  const columns: Column<Worker>[] = [
    { title: "ID", value: ({ id }) => id, least: 12 },
    { title: "QUEUE", value: ({ queue }) => queue, yields: 2 },
    { title: "RUNS", value: ({ active, concurrency }) => `${active}/${concurrency}`, align: "right", yields: 0 },
    {
      title: "ACTIVITIES",
      value: ({ activeActivities, activityConcurrency }) => `${activeActivities}/${activityConcurrency}`,
      align: "right",
    },
    { title: "SEEN", value: ({ seenAt }) => relative(seenAt, now), yields: 3 },
    { title: "UP", value: ({ startedAt }) => span(startedAt, null, now), yields: 4 },
    { title: "SERVES", value: servesText, yields: 5, least: 12 },
  ];
  if (!isWide) return columns;
  return [
    ...columns,
    { title: "HOST", value: ({ host, pid }) => `${host}:${pid}`, yields: 6 },
    { title: "ACTIVITIES SERVED", value: ({ activities }) => activities.join(", "), yields: 7 },
  ];
}

function servesText({ serves }: Worker): string {
  return serves
    .map(({ workflow, versions }) => {
      if (versions === "*") return `${workflow}@*`;
      const named = versions.filter((version) => version !== null);
      return named.length === 0 ? workflow : `${workflow}@${named.join("|")}`;
    })
    .join(", ");
}
