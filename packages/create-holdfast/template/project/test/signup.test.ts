import { testEngine } from "holdfast/testing";
import { expect, test } from "vitest";
import { signup } from "../src/workflows/signup.ts";

test("a confirmed signup", async () => {
  const engine = await testEngine({ workflows: [signup] });
  const run = await engine.start(signup, { email: "ann@example.com" });
  await run.signal("confirm", { by: "ann" });
  expect(await run.result()).toEqual({ account: "account of ann@example.com", status: "confirmed", by: "ann" });
  await engine.close(); // also replays the run, and throws if the code is not deterministic
});

test("a signup that is not confirmed expires after three days, at once in a test", async () => {
  const engine = await testEngine({ workflows: [signup] });
  const run = await engine.start(signup, { email: "bob@example.com" });
  expect(await run.result()).toEqual({ account: "account of bob@example.com", status: "expired" });
  await engine.close();
});
