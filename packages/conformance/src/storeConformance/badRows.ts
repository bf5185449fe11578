// Conformance: calls in which the store picks the rows.
// Owns: tests of claims and deadlines with a row among them that the storage refuses to have written.
// Invariants tested: D3 (a bad row hurts no other), W1 W2 (claims), V4 (blocked runs), K7 (deadlines), D11 (activities).

import assert from "node:assert/strict";
import { type ClaimedTask, faultOf } from "holdfast/store";
import { type Bench, failure, LEASE, payload, RETRY, same } from "./bench.ts";
import type { Suite } from "./suite.ts";

const IDS = ["a", "bad1", "b", "bad2", "bad3", "c", "d"];
const GOOD = IDS.filter((id) => !id.startsWith("bad"));
const QUEUE = "shared";

/** Runs that have each begun an activity. */
async function delegating(bench: Bench, ids: readonly string[], more: object = {}): Promise<void> {
  for (const id of ids) {
    const held = await bench.running(id);
    const task = { seq: 1, activity: "mail", queue: QUEUE, input: payload(id), retry: RETRY, location: "x", ...more };
    await bench.commit(held, { turn: bench.turn(held), lease: "park", status: "sleeping", tasks: [task] });
    bench.time++; // they are claimed in this order
  }
}
async function claimTasks(bench: Bench, limit = 100): Promise<readonly ClaimedTask[]> {
  return (await bench.raw.claimTasks({ workerId: "w1", queue: QUEUE, activities: ["mail"], limit, lease: LEASE })).tasks;
}
const runIds = (rows: readonly { readonly run: { readonly id: string } }[]): string[] => rows.map(({ run }) => run.id);
const taskRuns = (tasks: readonly ClaimedTask[]): string[] => tasks.map(({ runId }) => runId);

export function badRows({ test, refuseBad }: Suite): void {
  if (refuseBad === undefined) return;

  test("D3 W1 W2 claim: runs that are refused stop no other run from being claimed, and stay as they are", async (bench) => {
    for (const id of IDS) await bench.created(id, { queue: QUEUE });
    await refuseBad(bench.raw);
    const { runs, nextAt } = await bench.claim({ queue: QUEUE });
    same(runIds(runs), GOOD);
    assert.ok(nextAt === undefined || nextAt > bench.time, "a run that can't be claimed is not worth another claim at once");
    const { status, epoch, workerId } = await bench.row("bad1");
    same({ status, epoch, workerId }, { status: "pending", epoch: 0, workerId: undefined });
    same(runIds((await bench.claim({ queue: QUEUE })).runs), []);
  });
  test("D3 W2 claim: runs that are refused do not use up the limit", async (bench) => {
    for (const id of IDS) await bench.created(id, { queue: QUEUE });
    await refuseBad(bench.raw);
    const claimed: string[] = [];
    for (const _ of GOOD) claimed.push(...runIds((await bench.claim({ queue: QUEUE, limit: 1 })).runs));
    same(claimed, GOOD);
  });
  test("D3 V4 claim: blocked runs that are refused stop no other blocked run from being tried", async (bench) => {
    for (const id of IDS) {
      const held = await bench.running(id, { queue: QUEUE });
      await bench.commit(held, { status: "blocked", lease: "park", blocked: { error: failure("no"), code: "1" } });
    }
    await refuseBad(bench.raw);
    const tried: string[] = [];
    for (let after: number | undefined = 0; after !== undefined; ) {
      const result = await bench.claim({ queue: QUEUE, limit: 2, blockedAfter: after });
      tried.push(...runIds(result.runs));
      after = result.lastBlocked;
    }
    same(tried, GOOD);
  });
  test("D3 K7 expire: a deadline that is refused stops no other deadline, and the call says so", async (bench) => {
    for (const id of IDS) await bench.created(id, { deadlineAt: bench.time + 1_000 });
    await refuseBad(bench.raw);
    bench.time += 1_000;
    await assert.rejects(bench.raw.expire(), (error) => faultOf(error) === "refused");
    const statuses = (await bench.raw.get(IDS)).map((row) => row?.status);
    same(statuses, IDS.map((id) => (GOOD.includes(id) ? "failed" : "pending"))); // biome-ignore format: one line
  });
  test("D3 D11 expire: an attempt that can't be ended stops no other attempt from being ended, and the call says so", async (bench) => {
    await delegating(bench, IDS, { startToClose: 1_000 });
    same(taskRuns(await claimTasks(bench)), IDS);
    await refuseBad(bench.raw);
    bench.time += 1_000;
    await assert.rejects(bench.raw.expire(), (error) => faultOf(error) === "refused");
    bench.time += 1_000;
    same(taskRuns(await claimTasks(bench)), GOOD);
  });
  test("D3 D11 claimTasks: activities that are refused stop no other activity from being claimed", async (bench) => {
    await delegating(bench, IDS);
    await refuseBad(bench.raw);
    same(taskRuns(await claimTasks(bench)), GOOD);
    same(taskRuns(await claimTasks(bench)), []);
  });
  test("D3 D11 claimTasks: activities that are refused do not use up the limit", async (bench) => {
    await delegating(bench, IDS);
    await refuseBad(bench.raw);
    const claimed: string[] = [];
    for (const _ of GOOD) claimed.push(...taskRuns(await claimTasks(bench, 1)));
    same(claimed, GOOD);
  });
  test("D3 D7 claimTasks: activities whose claim was lost are handed out again though one of them is refused", async (bench) => {
    await delegating(bench, IDS);
    await claimTasks(bench);
    await refuseBad(bench.raw);
    const request = { workerId: "w1", queue: QUEUE, activities: ["mail"], limit: 100, lease: LEASE, known: [] };
    const { tasks } = await bench.raw.claimTasks(request);
    same(tasks.map(({ runId, attempt }) => [runId, attempt]), GOOD.map((id) => [id, 1])); // biome-ignore format: one line
  });
  test("D3 D11 an overdue attempt that can't be ended stops no answer and no heartbeat of another activity", async (bench) => {
    await delegating(bench, ["bad"], { startToClose: 1_000 });
    await claimTasks(bench);
    await delegating(bench, ["a", "b"]);
    const [a, b] = await claimTasks(bench);
    await refuseBad(bench.raw);
    bench.time += 1_000;
    assert.ok(a !== undefined && b !== undefined);
    same(await bench.raw.heartbeat([{ id: a.id, token: a.token, lease: 2 * LEASE }]), [true]);
    const outcome = { status: "completed", value: payload("done") } as const;
    same(await bench.raw.answerTasks([a, b].map(({ id, token }) => ({ id, token, outcome }))), [true, true]);
  });
}
