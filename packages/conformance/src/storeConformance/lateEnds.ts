// Conformance: the end of a run against messages that were acknowledged before it.
// Owns: tests of `lateIf`: which messages make an end late, and that a late end leaves no trace.
// Invariants tested: D9, K1, M1, M7, P10.

import assert from "node:assert/strict";
import type { LateIf, TurnCommit } from "holdfast/store";
import { type Bench, CANCEL, COMPLETED, failure, type Held, idsOf, only, payload, range, same, signal, update } from "./bench.ts";
import type { Suite } from "./suite.ts";

const WAITS_FOR_POKE: LateIf = { cancel: true, signals: ["poke"] };

/** The end of a held run, unless it is late. */
function ending(bench: Bench, held: Held, lateIf: LateIf | undefined, more: Partial<TurnCommit> = {}): TurnCommit {
  const close = more.close ?? COMPLETED;
  return bench.draft(held, { turn: bench.turn(held), status: close.status, close, lateIf, ...more });
}
/** Commits the end: what has arrived since `seen` if it is late, undefined if it is written. */
async function lateness(bench: Bench, draft: TurnCommit): Promise<readonly string[] | undefined> {
  const result = only(await bench.store.commit([draft]));
  assert.notEqual(result.status, "stale");
  return result.status === "late" ? idsOf(result.inbox) : undefined;
}

export function lateEnds({ test }: Suite): void {
  for (const close of [COMPLETED, { status: "failed", error: failure("no") }, { status: "canceled", output: payload("kept") }] as const) {
    test(`D9 an end as ${close.status} is late if a signal is there that it waited for: nothing is written, the claim holds`, async (bench) => {
      const parent = await bench.running("parent");
      await bench.commit(parent, {
        turn: bench.turn(parent),
        children: [bench.newRun("a", { parent: { runId: "parent", execution: 1, seq: 5, parentClose: "cancel", announce: false } })],
      });
      const held = await bench.hold("a");
      await bench.commit(held, { turn: bench.turn(held), children: [bench.newRun("child", { parent: { runId: "a", execution: 1, seq: 6, parentClose: "cancel", announce: false } })] }); // biome-ignore format: one line
      const taken = await bench.sent("a", update("u1"));
      await bench.sent("a", signal("s1"));
      const before = await bench.row("a");
      const history = await bench.store.history("a");
      const late = ending(bench, held, WAITS_FOR_POKE, {
        close,
        consumed: [taken],
        seen: taken,
        state: payload("undone"),
        attempts: [{ seq: 1, number: 1, status: "failed", startedAt: bench.time, workerId: "w1" }],
        updates: [{ id: "u1", outcome: { status: "completed", value: payload("undone") } }],
      });
      same(await lateness(bench, late), ["s1"]);
      held.turns--;
      same(await bench.row("a"), before);
      same(await bench.store.history("a"), history);
      same(await bench.attempts("a"), []);
      assert.equal(await bench.outcome("a", "u1"), undefined);
      same(await bench.inbox(parent), []);
      same(idsOf(await bench.inbox(held)), ["u1", "s1"]); // M7: it took none of them
      assert.equal((await bench.row("child")).status, "pending");
      const all = (await bench.inbox(held)).map(({ id }) => id);
      assert.equal(await lateness(bench, ending(bench, held, WAITS_FOR_POKE, { close, consumed: all, seen: all.at(-1) })), undefined);
      assert.equal((await bench.row("a")).status, close.status);
    });
  }

  test("D9 signals of other names, updates, answers, and messages that the turn takes make no end late", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held) });
    await bench.sent("a", signal("other", "other"));
    await bench.sent("a", update("u1"));
    await bench.sent("a", { type: "resolve", seq: 9, outcome: { status: "completed", value: payload(1) } });
    const taken = await bench.sent("a", signal("s1"));
    assert.equal(await lateness(bench, ending(bench, held, WAITS_FOR_POKE, { consumed: [taken] })), undefined);
    assert.equal((await bench.row("a")).status, "completed");
    assert.equal((await bench.outcome("a", "u1"))?.status, "rejected");
  });
  test("D9 what the worker has read and given to no turn makes the end late, however much it is", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held) });
    const ids: number[] = [];
    for (const i of range(250)) ids.push(await bench.sent("a", signal(`s${i}`)));
    const seen = ids.at(-1) ?? 0;
    same(await lateness(bench, ending(bench, held, WAITS_FOR_POKE, { consumed: ids.slice(0, 200), seen })), []);
    held.turns--;
    assert.equal((await bench.inbox(held)).length, 250);
    await bench.commit(held, { turn: bench.turn(held), consumed: ids.slice(0, 200), seen });
    assert.equal(await lateness(bench, ending(bench, held, WAITS_FOR_POKE, { consumed: ids.slice(200), seen })), undefined);
  });
  test("K1 a cancellation makes an end late, unless the end heeds none", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held) });
    const cancel = await bench.sent("a", CANCEL);
    same(await lateness(bench, ending(bench, held, { cancel: true, signals: [] })), ["cancel"]);
    held.turns--;
    const again = await bench.sent("a", CANCEL);
    const more = { consumed: [cancel], seen: again, close: { status: "canceled" } } as const;
    assert.equal(await lateness(bench, ending(bench, held, { cancel: false, signals: [] }, more)), undefined);
    assert.equal((await bench.row("a")).status, "canceled");
  });
  test("D9 without lateIf an end looks at no messages; one that continues takes them along", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held) });
    await bench.sent("a", signal("s1"));
    const next = { input: payload("next"), version: undefined, seed: "seed 2", carried: [] };
    assert.equal(await lateness(bench, ending(bench, held, undefined, { close: { status: "continued", next } })), undefined);
    const claimed = await bench.claimRun("a");
    same(idsOf(claimed.inbox), ["s1"]);
    const second = { ...held, execution: 2, epoch: claimed.run.epoch, turns: 0 };
    assert.equal(await lateness(bench, ending(bench, second, undefined)), undefined);
    assert.equal((await bench.row("a")).status, "completed");
  });
  test("D3 D9 of the ends in a batch only those are late that have such a message", async (bench) => {
    const all: Held[] = [];
    for (const i of range(6)) {
      const held = await bench.running(`r${i}`);
      await bench.commit(held, { turn: bench.turn(held) });
      all.push(held);
    }
    for (const i of [1, 3]) await bench.sent(`r${i}`, signal(`s${i}`));
    await bench.sent("r2", signal("other", "other"));
    // The last two take another path on some stores: they ask for more.
    const more = (i: number): Partial<TurnCommit> => (i >= 3 ? { attributes: { i } } : {});
    const results = await bench.store.commit(all.map((held, i) => ending(bench, held, WAITS_FOR_POKE, more(i))));
    same(results.map((result) => (result.status === "late" ? idsOf(result.inbox) : result.status)), ["committed", ["s1"], "committed", ["s3"], "committed", "committed"]); // biome-ignore format: one line
    for (const i of range(6)) {
      const { status, attributes } = await bench.row(`r${i}`);
      same([status, attributes], [i === 1 || i === 3 ? "running" : "completed", i > 3 ? { i } : {}]);
    }
  });
  test("D9 a late end stays late for one that asks again, and a stale one is stale", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held) });
    await bench.sent("a", signal("s1"));
    const draft = ending(bench, held, WAITS_FOR_POKE);
    same(await lateness(bench, draft), ["s1"]);
    same(await lateness(bench, draft), ["s1"]);
    assert.equal(only(await bench.store.commit([{ ...draft, epoch: draft.epoch + 1 }])).status, "stale");
  });
}
