// Conformance of hosts: queues with limits, keys and pauses.
// Owns: tests of what a host begins, and when, in the queue that it serves.
// Invariants tested: Q2, Q3, Q4, Q5, Q6, Q7, Q8.

import assert from "node:assert/strict";
import { workflow } from "@holdfast/core";
import type { SuiteHost } from "./clock.ts";
import type { HostQueues, HostRun } from "./host.ts";
import { type Suite, same } from "./suite.ts";

/** Runs that work until they are let go. */
function gated() {
  const begun: string[] = [];
  const gates = new Map<string, { readonly opened: Promise<void>; readonly open: () => void }>();
  const gateOf = (name: string) => {
    let open = (): void => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const gate = gates.get(name) ?? { opened, open };
    gates.set(name, gate);
    return gate;
  };
  const code = workflow("gated", async (ctx, name: string) => {
    await ctx.step("work", async () => {
      begun.push(name);
      await gateOf(name).opened;
    });
    return name;
  });
  const finish = async (host: SuiteHost, name: string): Promise<void> => {
    gateOf(name).open();
    await host.settle();
  };
  return { code, begun, finish };
}
const waits = workflow("waits", async (ctx, name: string) => {
  await ctx.waitForSignal("go");
  return name;
});
const echo = workflow("echo", async (_, name: string) => name);

function queuesOf({ queues }: SuiteHost): HostQueues {
  assert.ok(queues !== undefined, "the host has queues");
  return queues;
}
async function statuses(runs: readonly HostRun[]): Promise<string[]> {
  const found: string[] = [];
  for (const run of runs) found.push(await run.status());
  return found;
}

export function queues({ test, t }: Suite): void {
  test(
    "Q2 Q7 no more run than the queue has slots for, and the end of one begins the next",
    async (host) => {
      const { code, finish } = gated();
      await queuesOf(host).set({ concurrency: 2 });
      const runs: HostRun[] = [];
      for (const name of ["a", "b", "c"]) runs.push(await host.start(code, name, { id: name }));
      same(await statuses(runs), ["running", "running", "pending"]);
      await finish(host, "a");
      same(await statuses(runs), ["completed", "running", "running"]);
      for (const name of ["b", "c"]) await finish(host, name);
      same(await statuses(runs), ["completed", "completed", "completed"]);
    },
    { needs: "queues" },
  );
  test(
    "Q2 Q3 the limits outlive the process, and what it had begun needs no second slot",
    async (host) => {
      const { code, begun, finish } = gated();
      await queuesOf(host).set({ concurrency: 1 });
      const runs = [await host.start(code, "a", { id: "a" }), await host.start(code, "b", { id: "b" })];
      await host.crash();
      same(
        [await statuses(runs), begun],
        [
          ["running", "pending"],
          ["a", "a"],
        ],
      );
      await finish(host, "a");
      await finish(host, "b");
      same(
        [await statuses(runs), begun],
        [
          ["completed", "completed"],
          ["a", "a", "b"],
        ],
      );
    },
    { needs: "queues" },
  );
  test(
    "Q2 a run that waits holds a slot only where open runs count",
    async (host) => {
      await queuesOf(host).set({ concurrency: 1 });
      const runs: HostRun[] = [];
      for (const name of ["a", "b"]) runs.push(await host.start(waits, name, { id: name }));
      same(await statuses(runs), ["sleeping", "sleeping"]);
      await queuesOf(host).set({ concurrency: 2, counts: "open" });
      runs.push(await host.start(waits, "c", { id: "c" }));
      await host.crash();
      same(await statuses(runs), ["sleeping", "sleeping", "pending"]);
      await runs[0]?.signal("go");
      same(await statuses(runs), ["completed", "sleeping", "sleeping"]);
    },
    { needs: "queues" },
  );
  test(
    "Q5 Q6 keys take turns, and one that is full is passed over",
    async (host) => {
      const { code, begun, finish } = gated();
      await queuesOf(host).set({ concurrency: 1 });
      for (const name of ["a1", "a2", "a3", "b1"]) await host.start(code, name, { id: name, key: name.slice(0, 1) });
      await queuesOf(host).set({ concurrency: 2, perKey: { concurrency: 1 } });
      await host.settle();
      same(begun, ["a1", "b1"]);
      await queuesOf(host).set({ concurrency: 1 });
      for (const name of ["a1", "b1", "a2"]) await finish(host, name);
      same(begun, ["a1", "b1", "a2", "a3"]);
    },
    { needs: "queues" },
  );
  test(
    "Q8 a paused queue begins nothing, also in the next process, and goes on when it is resumed",
    async (host) => {
      await queuesOf(host).pause();
      const run = await host.start(echo, "a", { id: "a" });
      await host.crash();
      same(await run.status(), "pending");
      await queuesOf(host).resume();
      same(await run.result(), "a");
      await queuesOf(host).pause({ key: "k" });
      const keyed = await host.start(echo, "b", { id: "b", key: "k" });
      same([await keyed.status(), await (await host.start(echo, "c", { id: "c" })).result()], ["pending", "c"]);
      await queuesOf(host).resume({ key: "k" });
      same(await keyed.result(), "b");
    },
    { needs: "queues" },
  );
  test(
    "Q7 Q8 a pause with a time ends by itself",
    async (host) => {
      await queuesOf(host).pause({ for: t("1h") });
      const run = await host.start(echo, "a", { id: "a" });
      same(await run.status(), "pending");
      await host.skip("1h");
      await host.skip("1m");
      same(await run.result(), "a");
    },
    { needs: "queues" },
  );
  test(
    "Q4 Q7 a rate lets the next run begin as soon as its window has room",
    async (host) => {
      await queuesOf(host).set({ rate: { limit: 2, per: t("1h") } });
      const runs: HostRun[] = [];
      for (const name of ["a", "b", "c"]) runs.push(await host.start(echo, name, { id: name }));
      same(await statuses(runs), ["completed", "completed", "pending"]);
      await host.skip("1h");
      await host.skip("1m");
      same(await statuses(runs), ["completed", "completed", "completed"]);
    },
    { needs: "queues" },
  );
}
