// Conformance: children that their parent asks for again when it is resumed after a failure.
// Owns: tests of "reopen", for each status of the child.
// Invariants tested: D10 (nothing of a resumed run hangs, nothing that completed runs again), P10, D9.

import assert from "node:assert/strict";
import type { CreateResult, NewRun, ParentLink, RunClose } from "holdfast/store";
import { type Bench, COMPLETED, failure, failureOf, type Held, heldOf, jobsOf, only, payload, resolution, START, same } from "./bench.ts";
import type { Suite } from "./suite.ts";

const SEQ = 4;
const FAILED: RunClose = { status: "failed", error: failure("no") };
const linkTo = (parent: Held, more: Partial<ParentLink> = {}): ParentLink => {
  const { runId, execution } = parent;
  return { runId, execution, seq: SEQ, parentClose: "abandon", announce: false, ...more };
};
const askedFor = (bench: Bench, parent: Held, more: Partial<ParentLink> = {}): NewRun =>
  bench.newRun("c", { parent: linkTo(parent, more), onConflict: "reopen", input: payload("asked again"), seed: "asked again" });

/** A held parent "p" with a child "c" of operation 4. */
async function family(bench: Bench): Promise<Held> {
  const parent = await bench.running("p");
  await bench.commit(parent, { turn: bench.turn(parent), children: [bench.newRun("c", { parent: linkTo(parent) })] });
  return parent;
}
/** The parent fails, is resumed, and is held again. Earlier messages are gone from its inbox. */
async function goOn(bench: Bench, parent: Held): Promise<Held> {
  await bench.close(parent, FAILED, { turn: bench.turn(parent) });
  same(await bench.store.resume(["p"]), ["resumed"]);
  const claimed = await bench.claimRun("p");
  const held = heldOf(claimed);
  await bench.commit(held, { consumed: claimed.inbox.map(({ id }) => id) });
  same(await bench.inbox(held), []);
  return held;
}
/** Asks again, with the next turn of the parent. Returns what its inbox has then. */
const ask = (bench: Bench, parent: Held, more: Partial<ParentLink> = {}) =>
  bench.commit(parent, { turn: bench.turn(parent), children: [askedFor(bench, parent, more)] });

export function reopening({ test }: Suite): void {
  test("D10 a child that does not exist is created, as by any other start", async (bench) => {
    const parent = await bench.running("p");
    same(await ask(bench, parent), []);
    const { status, execution, input } = await bench.row("c");
    same([status, execution, input], ["pending", 1, payload("asked again")]);
  });
  test("D10 a child that is open is found and left alone: its end is the answer", async (bench) => {
    const parent = await goOn(bench, await family(bench));
    const held = await bench.hold("c");
    const before = await bench.row("c");
    bench.time += 10;
    same(await ask(bench, parent), []);
    same(await bench.row("c"), before);
    same(await bench.inbox(held), []);
    await bench.close(held);
    same(resolution(await bench.inbox(parent)), { type: "resolve", seq: SEQ, outcome: { status: "completed", value: payload("done") } });
  });
  test("D10 a child that completed answers its parent again, and does not run again", async (bench) => {
    const first = await family(bench);
    const held = await bench.hold("c");
    await bench.close(held, COMPLETED, { turn: bench.turn(held) });
    const parent = await goOn(bench, first);
    const before = await bench.row("c");
    bench.time += 10;
    const [answer] = await ask(bench, parent);
    same(answer?.job, { type: "resolve", seq: SEQ, outcome: { status: "completed", value: payload("done") } });
    same(await bench.row("c"), before);
    assert.equal((await bench.store.history("c")).length, 1);
  });
  test("D10 a child that completed with nothing answers with nothing", async (bench) => {
    const first = await family(bench);
    await bench.close(await bench.hold("c"), { status: "completed" });
    const parent = await goOn(bench, first);
    same(resolution(await ask(bench, parent)).outcome, { status: "completed", value: payload(undefined) });
  });
  test("D9 a parent that parks as it asks is available at once if the child has the answer", async (bench) => {
    const first = await family(bench);
    await bench.close(await bench.hold("c"));
    const parent = await goOn(bench, first);
    await bench.park(parent, { turn: bench.turn(parent), children: [askedFor(bench, parent)], seen: 0, wakeAt: START + 500 });
    assert.equal(await bench.isClaimable("p"), true);
    assert.equal(resolution((await bench.claimRun("p")).inbox).seq, SEQ);
  });
  test("D10 a child that failed is resumed where it stopped, and answers with its new end", async (bench) => {
    const first = await family(bench);
    const failed = await bench.hold("c");
    const turn = bench.turn(failed);
    await bench.close(failed, FAILED, { turn });
    const parent = await goOn(bench, first);
    bench.time += 10;
    same(await ask(bench, parent), []);
    const row = await bench.row("c");
    same([row.status, row.execution, row.attempt, row.availableAt, row.error], ["sleeping", 1, 2, START + 10, undefined]);
    same([row.input, row.seed], [payload("c"), "seed of c"]); // what it began with
    const claimed = await bench.claimRun("c");
    same(claimed.turns, [turn]);
    same(jobsOf(claimed.inbox), [{ type: "resume", attempt: 2, voids: [] }]);
    await bench.close(heldOf(claimed));
    same(resolution(await bench.inbox(parent)).outcome, { status: "completed", value: payload("done") });
  });
  const ends: readonly [string, (bench: Bench, child: Held) => Promise<unknown>][] = [
    ["whose rollbacks have run", (bench, child) => bench.close(child, { ...FAILED, resumable: false }, { turn: bench.turn(child) })],
    ["that was canceled", (bench, child) => bench.close(child, { status: "canceled" }, { turn: bench.turn(child) })],
    ["that was terminated", (bench) => bench.store.terminate([{ runId: "c", reason: undefined }])],
    ["that failed before its first turn", (bench, child) => bench.close(child, FAILED)],
  ];
  for (const [which, end] of ends) {
    test(`D10 a child ${which} gets its next execution, still its parent's`, async (bench) => {
      const first = await family(bench);
      await end(bench, await bench.hold("c"));
      const parent = await goOn(bench, first);
      bench.time += 10;
      same(await ask(bench, parent), []);
      const { status, execution, attempt, turns, input, seed, parent: link, availableAt, startedAt } = await bench.row("c");
      same(
        { status, execution, attempt, turns, input, seed, link, availableAt, startedAt },
        { status: "pending", execution: 2, attempt: 1, turns: 0, input: payload("asked again"), seed: "asked again", link: linkTo(parent), availableAt: START + 10 },
      ); // biome-ignore format: a row
      const claimed = await bench.claimRun("c");
      same([claimed.turns, claimed.inbox], [[], []]);
      await bench.close(heldOf(claimed));
      same(resolution(await bench.inbox(parent)).outcome, { status: "completed", value: payload("done") });
    });
  }
  test("P10 a run that is not that child is a conflict, and is not changed", async (bench) => {
    const parent = await goOn(bench, await family(bench));
    const other = await bench.running("q");
    await bench.close(await bench.hold("c"), FAILED);
    await bench.commit(parent, { consumed: (await bench.inbox(parent)).map(({ id }) => id) });
    await bench.created("stranger");
    const before = await bench.store.get(["c", "stranger"]);
    for (const more of [{ seq: SEQ + 1 }, { execution: parent.execution + 1 }, { runId: other.runId }])
      same(await bench.create("c", { onConflict: "reopen", parent: linkTo(parent, more) }), { status: "conflict", id: "c", runStatus: "failed", workflow: "order" }); // biome-ignore format: one line
    same(await bench.create("c", { onConflict: "reopen" }), { status: "conflict", id: "c", runStatus: "failed", workflow: "order" });
    const children = [bench.newRun("stranger", { parent: linkTo(parent), onConflict: "reopen" })];
    const { seq, outcome } = resolution(await bench.commit(parent, { turn: bench.turn(parent), children }));
    same([seq, failureOf(outcome)], [SEQ, "RunAlreadyExistsError"]);
    same(await bench.store.get(["c", "stranger"]), before);
  });
  test("D10 the answer to a caller: found, or created where there is something to do", async (bench) => {
    const parent = await bench.running("p");
    const status = async (): Promise<CreateResult> => only(await bench.store.create([askedFor(bench, parent)]));
    same(await status(), { status: "created", id: "c", execution: 1, inboxIds: [] });
    same(await status(), { status: "existing", id: "c", execution: 1, inboxIds: [] });
    const held = await bench.hold("c");
    await bench.close(held, FAILED, { turn: bench.turn(held) });
    same(await status(), { status: "created", id: "c", execution: 1, inboxIds: [] });
    await bench.close(await bench.hold("c"), { status: "canceled" });
    same(await status(), { status: "created", id: "c", execution: 2, inboxIds: [] });
    await bench.close(await bench.hold("c"));
    same(await status(), { status: "existing", id: "c", execution: 2, inboxIds: [] });
  });

  // ── startChild ──

  const standings: readonly [string, (bench: Bench) => Promise<unknown>, readonly string[]][] = [
    ["that is open", async () => {}, ["childStarted"]],
    ["that completed", async (bench) => bench.close(await bench.hold("c")), ["childStarted", "resolve"]],
    [
      "that failed",
      async (bench) => {
        const held = await bench.hold("c");
        await bench.close(held, FAILED, { turn: bench.turn(held) });
      },
      ["childStarted"],
    ],
    ["that was canceled", async (bench) => bench.close(await bench.hold("c"), { status: "canceled" }), ["childStarted"]],
  ];
  for (const [which, end, told] of standings) {
    test(`D10 a child ${which} is announced to a parent that was not notified of it, before its end`, async (bench) => {
      const first = await family(bench);
      await end(bench);
      const parent = await goOn(bench, first);
      const inbox = jobsOf(await ask(bench, parent, { announce: true }));
      same(inbox.map(({ type }) => type), told); // biome-ignore format: one line
      same(inbox[0], { type: "childStarted", seq: SEQ, runId: "c" });
    });
  }
}
