// The history of an execution: downloading it, and reading its events.
// Owns: nothing.

import type { Connection, HistoryEvent, TemporalHistory } from "./bridge.ts";
import { api, type temporal } from "./proto.ts";

type HistoryAnswer = Pick<temporal.api.workflowservice.v1.IGetWorkflowExecutionHistoryResponse, "history" | "rawHistory">;

/** All pages. An empty run id means the newest execution. */
export async function downloadHistory(connection: Connection, workflowId: string, runId: string): Promise<TemporalHistory> {
  const events: NonNullable<TemporalHistory["events"]> = [];
  let nextPageToken: Uint8Array | undefined;
  do {
    const page = await connection.service.getWorkflowExecutionHistory({
      namespace: connection.namespace,
      execution: { workflowId, runId },
      ...(nextPageToken !== undefined && { nextPageToken }),
    });
    for (const event of eventsIn(page)) events.push(event);
    nextPageToken = page.nextPageToken.length > 0 ? page.nextPageToken : undefined;
  } while (nextPageToken !== undefined);
  return { events };
}

/** The task whose commands made the event. */
export function completedBy(event: HistoryEvent): string | undefined {
  for (const [key, value] of Object.entries(event)) {
    if (!key.endsWith("EventAttributes") || value === null || typeof value !== "object") continue;
    const id = (value as { readonly workflowTaskCompletedEventId?: unknown }).workflowTaskCompletedEventId;
    if (id !== undefined && id !== null) return String(id);
  }
  return undefined;
}

/** Some servers send pages as they have stored them. */
export function eventsIn({ history, rawHistory }: HistoryAnswer): HistoryEvent[] {
  if (rawHistory === null || rawHistory === undefined || rawHistory.length === 0) return history?.events ?? [];
  return rawHistory.flatMap(({ data }) => api.api.history.v1.History.decode(data ?? new Uint8Array(0)).events as HistoryEvent[]);
}
