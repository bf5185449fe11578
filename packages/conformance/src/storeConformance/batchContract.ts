// Conformance: the batch contract.
// Owns: tests of calls with an item that is refused, locked, or answered by a connection that is lost.
// Invariants tested: D2 (nothing of a call that rejects is written), D3 (a bad or locked item hurts no other), M1 (order within a key).

import assert from "node:assert/strict";
import { realEnvironment } from "@holdfast/host";
import {
  type AddressedMessage,
  type Answer,
  Batcher,
  type CommitResult,
  type CreateResult,
  faultOf,
  type HeldClaim,
  type NewRun,
  type SendResult,
  type TurnCommit,
  type Write,
} from "holdfast/store";
import { type Bench, COMPLETED, type Held, idsOf, LEASE, payload, RETRY, range, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

/** As the host writes: one batcher, as large batches as the store takes. */
function batcherOf<I, R>(bench: Bench, keyOf: (item: I) => string, write: Write<I, R>): Batcher<I, R> {
  return new Batcher(realEnvironment, write, { limits: bench.raw.limits, keyOf });
}
const runOf = ({ runId }: { readonly runId: string }): string => runId;

/** One of each method that writes for a run: a call with these ids, in order. */
type Call = (bench: Bench, ids: readonly string[]) => Promise<() => Promise<readonly Answer<unknown>[]>>;

const task = (seq: number) => ({ seq, activity: "mail", queue: "tasks", input: payload(seq), retry: RETRY, location: "x" });
async function tasksOf(bench: Bench, ids: readonly string[]) {
  for (const id of ids) {
    const held = await bench.running(id);
    await bench.store.commit([bench.draft(held, { turn: bench.turn(held), tasks: [task(1)] })]);
  }
  const { tasks } = await bench.store.claimTasks({ workerId: "w1", queue: "tasks", activities: ["mail"], limit: 100, lease: LEASE });
  return tasks;
}

export function batchContract(suite: Suite): void {
  const { test } = suite;
  const { refuseBad, lock, loseAnswer } = suite;

  test("D3 a store says how much a call can hold", async ({ raw: { limits } }) => {
    assert.ok(limits.items >= 1 && limits.bytes >= 1 && limits.calls >= 1);
  });

  if (refuseBad !== undefined) {
    const calls: readonly (readonly [string, Call])[] = [
      ["create", async (bench, ids) => () => bench.raw.create(ids.map((id) => bench.newRun(id)))],
      ["commit", turns],
      ["send", messages],
    ];
    for (const [method, prepare] of calls) {
      test(`D2 D3 ${method}: a call with an item that is refused writes nothing, and says that an item is at fault`, async (bench) => {
        const ids = ["a", "b", "bad", "c"];
        const call = await prepare(bench, ids);
        const before = await seen(bench, ids);
        await refuseBad(bench.raw);
        await assert.rejects(call(), (error) => faultOf(error) === "refused");
        same(await seen(bench, ids), before);
      });
    }
    test("D3 one bad run among many fails alone, and the others are created in order", async (bench) => {
      await refuseBad(bench.raw);
      const made = batcherOf<NewRun, CreateResult>(bench, ({ id }) => id, (runs) => bench.raw.create(runs)); // biome-ignore format: one call
      const ids = range(60).map((i) => (i % 17 === 5 ? `bad${i}` : `r${i}`));
      const ended = await Promise.allSettled(ids.map((id) => made.add(bench.newRun(id, { queue: "q" }))));
      same(ids.filter((_, i) => ended[i]?.status === "rejected"), ids.filter((id) => id.startsWith("bad"))); // biome-ignore format: one line
      const { runs } = await bench.claim({ queue: "q" });
      same(runs.map(({ run }) => run.id), ids.filter((id) => !id.startsWith("bad"))); // biome-ignore format: one line
    });
    test("D3 one turn among many that is refused blocks none of the others", async (bench) => {
      const held = new Map<string, Held>();
      for (const id of ["a", "bad1", "b", "c", "bad2"]) held.set(id, await bench.running(id));
      await refuseBad(bench.raw);
      const made = batcherOf<TurnCommit, CommitResult>(bench, runOf, (some) => bench.raw.commit(some)); // biome-ignore format: one call
      const drafts = [...held.values()].map((one) => bench.draft(one, { turn: bench.turn(one), status: "completed", close: COMPLETED }));
      const ended = await Promise.allSettled(drafts.map((draft) => made.add(draft)));
      same(ended.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled", "fulfilled", "rejected"]); // biome-ignore format: one line
      for (const [i, { runId }] of drafts.entries())
        same((await bench.row(runId)).status, ended[i]?.status === "fulfilled" ? "completed" : "running");
    });
    test("M1 messages to a run that are refused stop no other, and each run's keep their order", async (bench) => {
      const good = await bench.running("good");
      await bench.running("bad");
      await refuseBad(bench.raw);
      const made = batcherOf<AddressedMessage, SendResult>(bench, runOf, (some, wait) => bench.raw.send(some, wait)); // biome-ignore format: one call
      const isBad = (i: number): boolean => [5, 6, 39].includes(i);
      const sent = await Promise.allSettled(
        range(40).map((i) => made.add({ runId: isBad(i) ? "bad" : "good", message: { job: signal(`s${i}`) } })),
      );
      same(sent.flatMap(({ status }, i) => (status === "rejected" ? [i] : [])), [5, 6, 39]); // biome-ignore format: one line
      same(idsOf(await bench.inbox(good)), range(40).flatMap((i) => (isBad(i) ? [] : [`s${i}`]))); // biome-ignore format: one line
    });
  }

  if (lock !== undefined) {
    const calls: readonly (readonly [string, Call])[] = [
      ["commit", turns],
      ["send", messages],
      ["renew", renewals],
      ["terminate", async (bench, ids) => {
        for (const id of ids) await bench.created(id);
        return () => bench.raw.terminate(ids.map((runId) => ({ runId, reason: undefined })));
      }],
      ["resume", async (bench, ids) => {
        for (const id of ids) await bench.created(id);
        return () => bench.raw.resume(ids);
      }],
      ["answerTasks", async (bench, ids) => {
        const tasks = await tasksOf(bench, ids);
        const outcome = { status: "completed", value: payload(1) } as const;
        return () => bench.raw.answerTasks(tasks.map(({ id, token }) => ({ id, token, outcome })));
      }],
    ]; // biome-ignore format: a list
    for (const [method, prepare] of calls) {
      test(`D3 ${method}: an item that another transaction has locked is busy, alone or with its call, and nothing of it is written`, async (bench) => {
        const ids = ["a", "b", "c"];
        const call = await prepare(bench, ids);
        const before = await seen(bench, ids);
        const unlock = await lock(bench.raw, "b");
        try {
          const answers = await call().catch((error: unknown) => {
            if (faultOf(error) !== "busy") throw error;
            return "rejected" as const;
          });
          const after = await seen(bench, ids);
          same(after[1], before[1]);
          if (answers === "rejected") same(after, before);
          else same(answers.map((answer) => answer === "busy"), [false, true, false]); // biome-ignore format: one line
        } finally {
          await unlock();
        }
        const answers = await call();
        assert.ok(!answers.includes("busy"));
      });
    }
    test("D3 M1 what is locked holds up no other, and its own messages keep their order", async (bench) => {
      const [a, b] = [await bench.running("a"), await bench.running("b")];
      const unlock = await lock(bench.raw, "a");
      const made = batcherOf<AddressedMessage, SendResult>(bench, runOf, (some, wait) => bench.raw.send(some, wait)); // biome-ignore format: one call
      const send = (runId: string, id: string) => made.add({ runId, message: { job: signal(id) } });
      const first = [send("a", "a1"), send("b", "b1"), send("a", "a2"), send("b", "b2")];
      await Promise.all([first[1], first[3]]);
      const behind = send("a", "a3");
      await send("b", "b3");
      same(idsOf(await bench.inbox(b)), ["b1", "b2", "b3"]);
      await unlock();
      await Promise.all([...first, behind]);
      same(idsOf(await bench.inbox(a)), ["a1", "a2", "a3"]);
    });
    test("D3 a turn whose run is locked waits, and the turns of others are written", async (bench) => {
      const held = [await bench.running("a"), await bench.running("b"), await bench.running("c")];
      const unlock = await lock(bench.raw, "b");
      const made = batcherOf<TurnCommit, CommitResult>(bench, runOf, (some) => bench.raw.commit(some)); // biome-ignore format: one call
      const [a, b, c] = held.map((one) => made.add(bench.draft(one, { turn: bench.turn(one), status: "completed", close: COMPLETED })));
      same((await Promise.all([a, c])).map((result) => result?.status), ["committed", "committed"]); // biome-ignore format: one line
      same((await bench.row("b")).status, "running");
      await unlock();
      same((await b)?.status, "committed");
    });
  }

  if (loseAnswer !== undefined) {
    test("D2 a call whose answer is lost on the network is carried out once, and still returns its answer", async (bench) => {
      const held = [await bench.running("a"), await bench.running("b")];
      const statuses = (answers: readonly Answer<{ readonly status: string }>[]) =>
        answers.map((answer) => (answer === "busy" ? answer : answer.status));
      loseAnswer(bench.raw, "create");
      same(statuses(await bench.raw.create(["c", "d"].map((id) => bench.newRun(id)))), ["created", "created"]);
      loseAnswer(bench.raw, "send");
      same(statuses(await bench.raw.send(held.map(({ runId }) => ({ runId, message: { job: signal("s") } })))), ["sent", "sent"]);
      for (const one of held) same(idsOf(await bench.inbox(one)), ["s"]);
      loseAnswer(bench.raw, "commit");
      const drafts = held.map((one) => bench.draft(one, { turn: bench.turn(one) }));
      same(statuses(await bench.raw.commit(drafts)), ["committed", "committed"]);
      for (const { runId } of held) same((await bench.store.history(runId)).length, 1);
    });
  }
}

async function turns(bench: Bench, ids: readonly string[]): ReturnType<Call> {
  const drafts: TurnCommit[] = [];
  for (const id of ids) {
    const held = await bench.running(id);
    drafts.push(bench.draft(held, { turn: bench.turn(held) }));
  }
  return () => bench.raw.commit(drafts);
}
async function messages(bench: Bench, ids: readonly string[]): ReturnType<Call> {
  for (const id of ids) await bench.running(id);
  return () => bench.raw.send(ids.map((runId) => ({ runId, message: { job: signal("s") } })));
}
async function renewals(bench: Bench, ids: readonly string[]): ReturnType<Call> {
  const claims: HeldClaim[] = [];
  for (const id of ids) {
    const { runId, epoch } = await bench.running(id);
    claims.push({ runId, epoch, seen: 0 });
  }
  bench.time += LEASE / 2;
  return () => bench.raw.renew("w1", LEASE, claims);
}
/** What is stored of these runs, as far as calls change it. */
async function seen(bench: Bench, ids: readonly string[]): Promise<unknown[]> {
  const rows = await bench.raw.get(ids);
  return Promise.all(
    ids.map(async (id, i) => [rows[i]?.status, rows[i]?.turns, rows[i]?.availableAt, (await bench.raw.history(id)).length]),
  );
}
