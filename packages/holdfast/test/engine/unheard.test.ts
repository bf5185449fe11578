// Job: prove that the failure of an operation that no code awaits is in the log, and no other.
// Owns: the workflows in it.
// Invariants: X11, P3.

import { FatalError, Holdfast, type Logger, workflow } from "holdfast";
import { afterEach, expect, test } from "vitest";

const engines: Holdfast[] = [];
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

const fails = () => Promise.reject(new FatalError("disk full"));

const unheard = workflow("unheard", async (ctx, way: string) => {
  void ctx.step("audit", fails);
  if (way === "sleeps") await ctx.sleep(20);
  if (way === "steps") for (let i = 0; i < 3; i++) await ctx.step("other", () => 1);
  return "done";
});

test.each(["returns", "sleeps", "steps"])("X11 P3 a step that fails and is never awaited is in the log, once (%s)", async (way) => {
  const { engine, lines } = await open();
  await engine.worker({ workflows: [unheard] });
  expect(await (await engine.start(unheard, way)).result()).toBe("done");
  expect(lines.filter((line) => line.includes("step audit"))).toHaveLength(1);
  expect(lines.join("\n")).toContain("disk full");
});

const derived = workflow("derived", async (ctx, way: string) => {
  const helper = async () => {
    await ctx.step("audit", fails);
  };
  const wrapper = () =>
    ctx.step("audit", fails).catch((error: unknown) => {
      throw new Error("the audit failed", { cause: error });
    });
  if (way === "an async function") void helper();
  if (way === "then") void ctx.step("audit", fails).then(() => 1);
  if (way === "finally") void ctx.step("audit", fails).finally(() => {});
  if (way === "another error") void wrapper();
  if (way === "Promise.all") void Promise.all([ctx.step("audit", fails), ctx.sleep(5)]);
  await ctx.sleep(20);
  return "done";
});

test.each(["an async function", "then", "finally", "another error", "Promise.all"])(
  "X11 P3 so is one whose failure goes on to a promise that is never awaited (%s)",
  async (way) => {
    const { engine, lines } = await open();
    await engine.worker({ workflows: [derived] });
    expect(await (await engine.start(derived, way)).result()).toBe("done");
    expect(lines.filter((line) => line.includes("step audit"))).toHaveLength(1);
    expect(lines.join("\n")).toContain("disk full");
  },
);

const heard = workflow("heard", async (ctx, way: string) => {
  const audit = ctx.step("audit", fails);
  if (way === "ignored") {
    let isOver = false;
    void audit.catch(() => {
      isOver = true;
    });
    await ctx.condition(() => isOver);
  }
  if (way === "all settled") await Promise.allSettled([audit, ctx.sleep(20)]);
  if (way === "caught later") {
    await ctx.sleep(50);
    await audit.catch(() => {});
  }
  if (way === "by a helper, later") {
    const helper = (async () => {
      await audit;
    })();
    await ctx.sleep(50);
    await helper.catch(() => {});
  }
  return "done";
});

test.each(["ignored", "all settled", "caught later", "by a helper, later"])(
  "X11 a failure that code handles, sooner or later, is not (%s)",
  async (way) => {
    const { engine, lines } = await open();
    await engine.worker({ workflows: [heard] });
    expect(await (await engine.start(heard, way)).result()).toBe("done");
    expect(lines).toEqual([]);
  },
);

async function open() {
  const lines: string[] = [];
  const note = (message: string) => void lines.push(message);
  const logger: Logger = { debug() {}, info() {}, warn: note, error: note };
  const engine = await Holdfast.open("memory:", { logger });
  engines.push(engine);
  return { engine, lines };
}
