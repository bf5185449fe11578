// What is asked of many runs at once is done with a few statements for all of them.

import { expect, test } from "vitest";
import { newRun, range, signal, useDatabase } from "./support.ts";

const database = useDatabase();
const MANY = 50;

test("B3 D3 runs whose end reaches no other run are ended, canceled, signalled and deleted together", async () => {
  const schema = database.newSchema();
  const [place] = await database.sql<{ name: string }>("SELECT current_database() AS name");
  await database.sql(`ALTER DATABASE "${place?.name}" SET track_functions = 'all'`);
  const store = await database.open({ schema, clock: () => 1_000 });
  const [canceled, terminated] = ["c", "t"].map((prefix) => range(MANY).map((i) => `${prefix}${i}`)) as [string[], string[]];
  await store.create([...canceled, ...terminated].map((id) => newRun(id)));
  const statuses = async (answers: Promise<readonly { readonly status: string }[]>) => [
    ...new Set((await answers).map(({ status }) => status)),
  ];
  expect(await statuses(store.send(terminated.map((runId) => ({ runId, message: { job: signal("s"), idempotencyKey: "k" } }))))).toEqual([
    "sent",
  ]);
  expect(
    await statuses(store.send(canceled.map((runId) => ({ runId, message: { job: { type: "cancel" }, idempotencyKey: "k" } })))),
  ).toEqual(["sent"]);
  expect(await statuses(store.terminate(terminated.map((runId) => ({ runId, reason: "enough" }))))).toEqual(["sent"]);
  expect(await store.count({})).toMatchObject({ canceled: MANY, terminated: MANY, pending: 0 });
  expect(new Set(await store.delete([...canceled, ...terminated]))).toEqual(new Set(["deleted"]));
  await store.close();
  // A session says what it has called when it ends.
  const callsOf = async (): Promise<Record<string, number>> => {
    const rows = await database.sql<{ name: string; calls: number }>(
      "SELECT funcname AS name, calls::integer AS calls FROM pg_stat_user_functions WHERE schemaname = $1",
      [schema],
    );
    return Object.fromEntries(rows.map(({ name, calls }) => [name, calls]));
  };
  const expected = { send_messages_1: 2, send_together_1: 2, terminate_runs_1: 1, end_alone_1: 2, delete_runs_1: 1, remove_runs_1: 1 };
  await expect.poll(callsOf).toMatchObject(expected);
  const calls = await callsOf();
  for (const one of ["close_run_1", "deliver_1", "put_1"]) expect(calls[one], one).toBe(undefined);
});
