// The tests of a project, for any runner.

import { testEngine } from "holdfast/testing";
import { play, trip } from "./trip.mjs";

export function define(test, equal) {
  test("testEngine", async () => {
    if (process.env.SMOKE === "begin") return;
    const engine = await testEngine({ workflows: [trip] });
    const run = await engine.start(trip, 20);
    equal(await run.result(), 42);
    await engine.close();
  });
  test("a run whose process was killed", async () => {
    equal(await play(), 42);
  });
}
