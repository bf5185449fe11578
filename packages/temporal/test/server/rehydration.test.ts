// Steps of a run that a worker runs without having computed its turns.
// Invariants: D1 D6 (the function of the step that was scheduled runs), C7 (a step is abandoned only if the run abandoned it).

import { DEFAULT_LIMITS, jsonCodec, type Logger } from "@holdfast/core";
import { Holdfast, type Worker, workflow } from "holdfast";
import { afterAll, expect, test } from "vitest";
import { openBackend } from "../../src/index.ts";
import { engines, LONG, newQueue } from "./engines.ts";

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const on = engines();
const opened: Holdfast[] = [];
afterAll(() => Promise.all(opened.map((holdfast) => holdfast.close())), LONG);

/** All steps go to the queue that all workers serve. */
async function openShared(queue: string): Promise<Holdfast> {
  const options = { codec: jsonCodec, logger: SILENT, limits: DEFAULT_LIMITS, namespace: undefined };
  const backend = await openBackend(on.server.url(queue), options, { sticky: 30_000, ownQueue: 0 });
  const holdfast = await Holdfast.with({ backend }, { logger: SILENT });
  opened.push(holdfast);
  return holdfast;
}

function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

test(
  "D6 C7 a step that was scheduled after the worker had replayed the run for another step is run, too",
  async () => {
    const gates = { blocker: gate(), slow: gate() };
    const ran: string[] = [];
    const blocker = workflow("blocker", (ctx) => ctx.step("block", () => gates.blocker.opened));
    const branches = workflow("branches", async (ctx) => {
      const results = await ctx.join("both", {
        slow: (own) => own.step("slow", () => gates.slow.opened.then(() => "slow")),
        quick: async (own) => {
          for (const name of ["first", "second", "third"])
            await own.step(name, async () => {
              ran.push(name);
              if (name === "third") gates.slow.open();
            });
          return "quick";
        },
      });
      return Object.values(results);
    });
    const queue = newQueue();
    const busy = await openShared(queue);
    const serve = (holdfast: Holdfast, activityConcurrency: number): Promise<Worker> =>
      holdfast.worker({ workflows: [blocker, branches], activityConcurrency, determinism: "off" });
    // This worker computes the turns of both runs, and its only place for steps is taken.
    await serve(busy, 1);
    const blocking = await busy.start(blocker, undefined);
    await expect.poll(async () => (await blocking.describe()).workerId, { timeout: LONG }).toBeDefined();
    const run = await busy.start(branches, undefined);
    await expect.poll(async () => (await run.describe()).waitingFor.length, { timeout: LONG }).toBe(2);
    await serve(await openShared(queue), 10);
    expect(await run.result()).toEqual(["slow", "quick"]);
    expect(ran).toEqual(["first", "second", "third"]);
    gates.blocker.open();
    await blocking.result();
  },
  LONG,
);
