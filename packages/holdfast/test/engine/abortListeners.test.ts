// Job: prove that a signal can be waited with by many.
// Owns: the signals in it.
// Invariants: a signal that no call waits with has no listener.

import { getEventListeners } from "node:events";
import { Holdfast, workflow } from "holdfast";
import { expect, it } from "vitest";

it("one signal serves any number of result() calls with one listener, and has none when they are over", async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => void warnings.push(warning);
  process.on("warning", note);
  const engine = await Holdfast.open("memory:");
  const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));
  await engine.worker({ workflows: [wait] });
  const runs = await engine.startMany(
    wait,
    Array.from({ length: 40 }, () => ({ input: undefined })),
  );
  const controller = new AbortController();
  const { signal } = controller;
  const results = runs.map((run) => run.result({ signal }).then(String, (error: Error) => error.message));
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  await runs[0]?.signal("go", "on");
  expect(await results[0]).toBe("on");
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  controller.abort(new Error("enough"));
  expect(await Promise.all(results)).toEqual(["on", ...runs.slice(1).map(() => "enough")]);
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
  await new Promise((resolve) => setImmediate(resolve));
  expect(warnings).toEqual([]);
  process.off("warning", note);
  await engine.close();
});
