// What a Temporal cluster can't offer is refused, never ignored: see REFUSED in lacks.ts.

import { Holdfast, UnsupportedError, update, workflow } from "holdfast";
import { expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

const server = engines();
const { open } = server;
const child = workflow("child", async () => 1);
const updated = workflow({ name: "updated", updates: { add: update<number, number>() } }, async () => 1);

test("what the server has no equal for is refused, with a way out", { timeout: LONG }, async () => {
  const engine = await open();
  const kept = workflow({ name: "kept", retention: "1d" }, async () => 1);
  const calls: readonly (() => Promise<unknown>)[] = [
    () => engine.queues.set("q", { concurrency: 1 }),
    () => engine.queues.get("q"),
    () => engine.queues.list(),
    () => engine.queues.pause("q"),
    () => engine.queues.resume("q"),
    () => engine.start(child, undefined, { after: "x" }),
    () => engine.start(child, undefined, { id: "x", onConflict: "replace" }),
    () => engine.start(child, undefined, { id: "x", onConflict: "debounce", delay: "1s", maxDelay: "2s" }),
    () => engine.updateWithStart(updated, undefined, { name: "add", input: 1 }, { delay: "1s" }),
    () => engine.updateWithStart(updated, undefined, { name: "add", input: 1 }, { startAt: new Date(Date.now() + 60_000) }),
    () => engine.start(kept, undefined),
    () => engine.worker({ workflows: [child, kept] }),
    () => engine.list({ key: "x" }),
    () => engine.count({ version: "1" }),
    () => engine.bulk({ workflow: "child" }, { do: "cancel" }),
    () => engine.workers(),
    async () => (await engine.start(child, undefined)).fork({ before: "x" }),
  ];
  for (const call of calls) {
    const error = await call().catch((reason: unknown) => reason);
    expect(error, String(call)).toBeInstanceOf(UnsupportedError);
    expect(String((error as UnsupportedError).message), String(call)).toContain("Temporal");
  }
});

test("the retention of an engine is refused", { timeout: LONG }, async () => {
  await expect(Holdfast.open(server.server.url("q"), { retention: "1d" })).rejects.toThrow(UnsupportedError);
});
