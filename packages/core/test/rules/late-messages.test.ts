// Job: prove what an end says of the messages that may come too late for it.
// Owns: drains, races and receives that end by a timer, by a message, by cancellation.
// Invariants: D9 (names still wanted, signals overtaken in the same activation), K1 (whether a cancellation would be heard), Y1 (none of it is in history).
import { type AnyWorkflow, type Completion, Receive, signal, type WorkflowContext, workflow } from "@holdfast/core";
import { Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const wf = (run: (ctx: WorkflowContext) => Promise<unknown>, options: { readonly cancellation?: "cooperative" } = {}): AnyWorkflow =>
  workflow({ name: "wf", ...options }, run);
const drain = wf(async (ctx) => {
  let total = 0;
  for (;;) {
    const batch = await ctx.listen(["tick", "tock"], { count: 100, timeout: 20 });
    if (batch.length === 0) return total;
    total += batch.length;
  }
});

/** What the last turn said of messages. */
function wantsOf(harness: Harness) {
  const completion = harness.transcript.at(-1)?.completion as Completion & { status: "ok" };
  const { stillWanted, overtaken, heedsCancel } = completion;
  return { stillWanted, overtaken, heedsCancel };
}
const heeding = (stillWanted?: readonly string[], overtaken?: readonly string[]) => ({ stillWanted, overtaken, heedsCancel: true });

describe("the end of a run and messages that come too late for it", () => {
  it("D9 a wait that timed out in the last turn wants its names, and nothing of that is recorded", async () => {
    const run = await Harness.start(drain);
    await run.signal("tick");
    expect(wantsOf(run)).toEqual({});
    await run.fire();
    expect(run.output).toBe(1);
    expect(wantsOf(run)).toEqual(heeding(["tick", "tock"]));
    expect(JSON.stringify(run.history())).not.toContain("stillWanted");
  });

  it("D9 a wait that ended in an earlier turn, or by a message, wants nothing more", async () => {
    const earlier = await Harness.start(
      wf(async (ctx) => {
        await ctx.waitForSignal("early", { timeout: 10 });
        await ctx.step("last", () => 1);
      }),
    );
    await earlier.fire();
    await earlier.resolve("last");
    expect(earlier.status).toBe("completed");
    expect(wantsOf(earlier)).toEqual(heeding());

    const answered = await Harness.start(wf((ctx) => ctx.waitForSignal("go", { timeout: 10 })));
    await answered.signal("go");
    expect(wantsOf(answered)).toEqual(heeding());
  });

  it("D9 a wait that lost a race, or was open when the root returned, wants its name", async () => {
    const race = wf((ctx) => ctx.race("r", { heard: (b) => b.waitForSignal("go"), slept: (b) => b.sleep(10) }));
    const lost = await Harness.start(race);
    await lost.fire();
    expect(wantsOf(lost)).toEqual(heeding(["go"]));

    const open = await Harness.start(wf((ctx) => Promise.race([ctx.waitForSignal("go"), ctx.sleep(10)])));
    await open.fire();
    expect(open.status).toBe("completed");
    expect(wantsOf(open)).toEqual(heeding(["go"]));
  });

  it("D9 signals that another job of their activation overtook are named", async () => {
    const race = wf((ctx) => ctx.race("r", { heard: (b) => b.waitForSignal("go"), slept: (b) => b.sleep(10) }));
    for (const order of ["fire first", "signal first"]) {
      const run = await Harness.start(race);
      const [fire, go] = [{ type: "fire", seq: run.nextTimer as number } as const, run.signalJob("go")];
      await run.turn(...(order === "fire first" ? [fire, go] : [go, fire]));
      expect(run.status).toBe("completed");
      expect(wantsOf(run)).toEqual(heeding(undefined, ["go"]));
    }
    const drained = await Harness.start(drain);
    await drained.turn({ type: "fire", seq: drained.nextTimer as number }, drained.signalJob("tick"));
    expect(drained.output).toBe(0);
    expect(wantsOf(drained)).toEqual(heeding(["tock"], ["tick"]));
  });

  it("D9 a run that leaves one signal of a name alone does not ask for another", async () => {
    const run = await Harness.start(
      wf((ctx) => ctx.race("r", { a: (b) => b.waitForSignal("a"), b: (b) => b.waitForSignal("b"), c: (b) => b.waitForSignal("c") })),
    );
    await run.turn(run.signalJob("a"), run.signalJob("b"));
    expect(run.status).toBe("completed");
    expect(wantsOf(run)).toEqual(heeding(["c"], ["b"]));
  });

  it("D9 a receive wants its names if it timed out, not if a handler stopped it", async () => {
    const receive = workflow({ name: "wf", signals: { add: signal(), stop: signal() } }, (ctx) =>
      ctx.receive(0, { signals: { add: (_, n) => Receive.noreply(n + 1), stop: (_, n) => Receive.stop(n) }, timeout: 10 }),
    );
    const timedOut = await Harness.start(receive);
    await timedOut.fire();
    expect(wantsOf(timedOut)).toEqual(heeding(["add", "stop"]));
    const stopped = await Harness.start(receive);
    await stopped.signal("stop");
    expect(stopped.status).toBe("completed");
    expect(wantsOf(stopped)).toEqual(heeding());
  });

  it("K1 an end that cancellation has reached, or after rollbacks or a deadline, heeds no other cancel", async () => {
    const canceled = await Harness.start(wf((ctx) => ctx.waitForSignal("go")));
    await canceled.cancel();
    expect(canceled.status).toBe("canceled");
    expect(wantsOf(canceled)).toEqual({}); // the cancellation came before any signal that is late
    const cooperative = await Harness.start(
      wf((ctx) => ctx.waitForSignal("go").catch(() => ctx.shield((s) => s.waitForSignal("bye", { timeout: 10 }))), {
        cancellation: "cooperative",
      }),
    );
    await cooperative.cancel();
    await cooperative.fire();
    expect(cooperative.status).toBe("completed");
    expect(wantsOf(cooperative)).toEqual({ stillWanted: ["bye"] });
    const rolledBack = await Harness.start(
      wf(async (ctx) => {
        await ctx.step("book", () => 1, { rollback: () => undefined });
        throw new Error("no");
      }),
    );
    await rolledBack.resolve("book", 1);
    await rolledBack.turn(rolledBack.resolved([...rolledBack.open.keys()][0] as number));
    expect(rolledBack.status).toBe("failed");
    expect(wantsOf(rolledBack)).toEqual({});
    const expired = await Harness.start(wf((ctx) => ctx.waitForSignal("go")));
    await expired.turn({ type: "expire", error: { name: "DeadlineExceededError", message: "over" } });
    expect(expired.status).toBe("failed");
    expect(wantsOf(expired)).toEqual({});
  });

  it("P10 an execution that continues asks for nothing: its messages move on", async () => {
    const run = await Harness.start(
      wf(async (ctx) => {
        await ctx.waitForSignal("go", { timeout: 10 });
        return ctx.continueAsNew(undefined);
      }),
    );
    await run.fire();
    expect(run.status).toBe("continued");
    expect(wantsOf(run)).toEqual({});
  });
});
