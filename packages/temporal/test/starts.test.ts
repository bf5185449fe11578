// What a start says to the server.

import { jsonCodec } from "@holdfast/core";
import type { RunStart } from "holdfast/backend";
import { expect, test } from "vitest";
import type { ClientSettings } from "../src/client/settings.ts";
import { Starts } from "../src/client/starts.ts";
import { type StartHeader, startHeader } from "../src/headers.ts";
import { Payloads } from "../src/payloads.ts";

async function headerFor(options: Partial<RunStart>): Promise<StartHeader> {
  let header: StartHeader | undefined;
  const startWorkflowExecution = async (request: { header: { fields: Parameters<typeof startHeader>[0] } }): Promise<object> => {
    header = startHeader(request.header.fields);
    return { runId: "execution" };
  };
  const settings = { connection: { service: { startWorkflowExecution } }, payloads: new Payloads(jsonCodec), queue: "queue" };
  const parts = { executions: { remember: () => {} }, searchAttributes: { fields: async () => ({}) } };
  const start = { id: "run", workflow: "w", queue: "default", input: "1", priority: 0, attributes: {}, isChecked: true, ...options };
  await new Starts(settings as unknown as ClientSettings, parts as never).create([start as RunStart]);
  return header ?? {};
}

test("K7 the attempts of a run share one deadline", async () => {
  const retry = { maxAttempts: 3, initialInterval: 1_000, backoff: 1, maxInterval: 1_000, jitter: 0 };
  const before = Date.now();
  const { deadline, deadlineAt } = await headerFor({ deadline: 5_000, retry });
  expect(deadline).toBeUndefined();
  expect(deadlineAt).toBeGreaterThanOrEqual(before + 5_000);
  expect(deadlineAt).toBeLessThanOrEqual(Date.now() + 5_000);
});
test("K7 a deadline counts by the server's clock if there is one attempt, and a moment is passed on", async () => {
  expect(await headerFor({ deadline: 5_000 })).toEqual({ deadline: 5_000 });
  expect(await headerFor({ deadlineAt: 7 })).toEqual({ deadlineAt: 7 });
});
