// Who waits for results, and what is looked up for them.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FatalError, Holdfast, workflow } from "holdfast";
import { expect, test } from "vitest";
import { realEnvironment } from "../../src/host/environment.ts";
import { Results } from "../../src/host/results.ts";
import { StoreCorruptError } from "../../src/store/errors.ts";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { RunRow, Store } from "../../src/store/port.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

test("M10 a row that can't be read keeps nobody from the result of another run", async () => {
  const get = async (ids: readonly string[]) => {
    if (ids.includes("damaged")) throw new StoreCorruptError({ where: "here" });
    return ids.map((id) => ({ id, status: "completed" }) as RunRow);
  };
  const results = new Results({ get } as Partial<Store> as Store, realEnvironment, quiet);
  const damaged = results.end("damaged", {}).catch((error: unknown) => error);
  expect(await results.end("healthy", {})).toMatchObject({ id: "healthy", status: "completed" });
  expect(await damaged).toBeInstanceOf(StoreCorruptError);
});

test("K6 M10 a run that its own process terminates is told of by that write, not by a look that comes later", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-results-"));
  const store = new SqliteStore(join(folder, "x.db"), { synchronous: "NORMAL" });
  // Nobody looks now and then: what is not told of at once never is.
  const environment = { ...realEnvironment, every: () => ({ cancel: () => {} }) };
  const engine = await Holdfast.with({ store, environment }, { logger: quiet });
  const waits = workflow("waits", async (ctx) => ctx.waitForSignal("never" as never));
  await engine.worker({ workflows: [waits], determinism: "off" });
  const run = await engine.start(waits, undefined);
  const ended = run.result({ timeout: "5s" }).catch((error: { code?: string }) => error.code);
  await run.terminate("enough");
  expect(await ended).toBe("HF_RUN_TERMINATED");
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

test("P7 D10 the turn of a resume is not before the turn that failed, though the store's clock has gone back", async () => {
  let time = 10_000;
  const store = new MemoryStore({ clock: () => time });
  const environment = { ...realEnvironment, now: () => time };
  const engine = await Holdfast.with({ store, environment }, { logger: quiet });
  let isMended = false;
  const fails = workflow("fails", async (ctx) =>
    ctx.step("once", () => {
      if (isMended) return "mended";
      time = 12_000;
      throw new FatalError("no");
    }),
  );
  const worker = await engine.worker({ workflows: [fails] });
  const run = await engine.start(fails, undefined);
  await run.result().catch(() => undefined);
  await worker.stop();
  time = 9_000;
  isMended = true;
  await engine.worker({ workflows: [fails] });
  await run.resume();
  expect(await run.result()).toBe("mended");
  const times = (await store.history(run.id)).map((turn) => turn.time);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  await engine.close();
});
