// Job: prove what options that are none get: a typed error that says what to give, and nothing is written.
// Owns: nothing.
// Invariants: the same treatment as in the embedded engine.

import { activity, InvalidInputError, MemoryDriver, openWorkflow, runWorkflow, UnsupportedError, workflow } from "@holdfast/kv";
import { describe, expect, test } from "vitest";

const echo = workflow("echo", async (_ctx, input: unknown) => input);
const work = activity("work", () => 1);

describe("what a run can't be run with", () => {
  test.each<[string, object | undefined, RegExp]>([
    ["nothing", undefined, /Expected an object/],
    ["an option that there is not", { idd: "x" }, /idd: .* Did you mean id\?/],
    ["an activity by itself", { activities: work }, /activities: Expected a list, got activity "work": put it in brackets/],
    ["a workflow by itself as activities", { activities: echo }, /The object contains no activity/],
    ["no activities in an object", { activities: { echo } }, /The object contains no activity/],
    ["a workflow among activities", { activities: [echo] }, /Expected an activity made by activity\(name, run\), got workflow "echo"/],
    ["activities that are none", { activities: 5 }, /Expected a list/],
    ["a codec that is none", { codec: {} }, /encode and decode/],
  ])("%s: an InvalidInputError", async (_, options, message) => {
    const driver = new MemoryDriver();
    const given = options === undefined ? undefined : { driver, workflow: echo, id: "r", input: 1, ...options };
    const call = async () => runWorkflow(given as never);
    await expect(call()).rejects.toThrow(InvalidInputError);
    await expect(call()).rejects.toThrow(message);
    expect(await driver.list(new Uint8Array())).toEqual([]);
  });

  test.each<[string, object]>([
    ["queue", { queue: "mail" }],
    ["key", { key: "acme" }],
    ["priority", { priority: 1 }],
    ["after", { after: "other" }],
    ["delay", { delay: "1h" }],
    ["startAt", { startAt: new Date() }],
    ["onConflict", { onConflict: "debounce" }],
    ["idempotencyKey", { idempotencyKey: "k" }],
    ["tx", { tx: {} }],
    ["retention of a workflow", { workflow: workflow({ name: "echo", retention: "1d" }, async () => 1) }],
  ])("%s: an UnsupportedError that says what to do instead", async (feature, options) => {
    const driver = new MemoryDriver();
    const call = async () => runWorkflow({ driver, workflow: echo, id: "r", input: 1, ...options } as never);
    await expect(call()).rejects.toThrow(UnsupportedError);
    await expect(call()).rejects.toMatchObject({ feature, host: "a key-value store", code: "HF_UNSUPPORTED" });
    expect(await driver.list(new Uint8Array())).toEqual([]);
  });

  test("options of sends that there are not", async () => {
    const driver = new MemoryDriver();
    await runWorkflow({ driver, workflow: workflow("wait", async (ctx) => ctx.waitForSignal("go")), id: "r" });
    const handle = openWorkflow({ driver, workflow: echo, id: "r" });
    await expect(handle.signal("go", 1, { idempotencykey: "x" } as never)).rejects.toThrow(/Did you mean idempotencyKey/);
    await expect(handle.update("go", 1, { timeOut: 5 } as never)).rejects.toThrow(/Did you mean timeout/);
  });
});
