// Heartbeats on a store that is slow to take them.

import { activity, Holdfast, workflow } from "holdfast";
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";

test("D11 what an attempt has reported is there for the next one, however slow the store is to take it", async () => {
  const store = new MemoryStore();
  const heartbeat = store.heartbeat.bind(store);
  store.heartbeat = async (tasks) => {
    // A store of several connections: what is asked for later may overtake it.
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
    return heartbeat(tasks);
  };
  const engine = await Holdfast.with({ store });
  const resize = activity(
    "resize",
    async (_: undefined, info) => {
      info.heartbeat(info.attempt);
      if (info.attempt < 3) throw new Error("busy");
      return info.lastHeartbeat;
    },
    { retry: { initialInterval: 1, jitter: 0 } },
  );
  const image = workflow("image", (ctx) => ctx.activity(resize, undefined));
  await engine.worker({ workflows: [image], activities: [resize] });
  expect(await (await engine.start(image, undefined)).result()).toBe(2);
  await engine.close();
});
