// Job: prove that a run that goes from worker to worker and back is the same run everywhere.
// Owns: the workflows in it.
// Invariants: D7 D8 D12 (attempts are counted whichever worker makes them), W5 (a run in memory is used only if nothing of it has moved).

import { realEnvironment } from "@holdfast/host";
import { Holdfast, workflow } from "holdfast";
import { expect, it } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { ClaimRequest, ClaimResult } from "../../src/store/port.ts";

/** One store for all; only the worker whose turn it is gets anything. */
class SharedStore extends MemoryStore {
  turnOf = "";
  override async claim(request: ClaimRequest): Promise<ClaimResult> {
    return request.workerId === this.turnOf ? super.claim(request) : { now: await this.now(), runs: [], nextAt: undefined };
  }
}

it("W5 D7 D12 attempts that another worker made count when the run comes back to a worker that has it in memory", async () => {
  const store = new SharedStore();
  const [here, there] = await Promise.all([1, 2].map(() => Holdfast.with({ store, environment: realEnvironment })));
  if (here === undefined || there === undefined) throw new Error("no engines");
  const seen: number[] = [];
  const flaky = workflow("flaky", async (ctx) =>
    ctx.step(
      "try",
      ({ attempt }) => {
        seen.push(attempt);
        if (seen.length < 3) throw new Error("not yet");
        return attempt;
      },
      { retry: { initialInterval: 1 } },
    ),
  );
  const first = await here.worker({ workflows: [flaky] });
  const second = await there.worker({ workflows: [flaky] });
  const parkedAfter = async (attempts: number) => {
    const isParked = async () => seen.length === attempts && (await run.describe()).workerId === undefined;
    while (!(await isParked())) await new Promise((resolve) => setTimeout(resolve, 1));
  };

  store.turnOf = first.id;
  const run = await here.start(flaky, undefined);
  store.turnOf = "";
  await parkedAfter(1);
  store.turnOf = second.id;
  while (seen.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  store.turnOf = "";
  await parkedAfter(2);
  store.turnOf = first.id;

  expect(await run.result()).toBe(3);
  const [operation] = await run.operations();
  expect(operation?.attempts.map(({ number, status, workerId }) => [number, status, workerId])).toEqual([
    [1, "failed", first.id],
    [2, "failed", second.id],
    [3, "completed", first.id],
  ]);
  await Promise.all([here.close(), there.close()]);
});
