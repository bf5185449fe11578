// The runs behind the recorded histories, on a real server: they end as they should, and their histories replay.

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { replay } from "holdfast";
import { expect, test } from "vitest";
import { children, double, recordings } from "../recordings.ts";
import { engines, LONG } from "./engines.ts";

/** Stack traces in the recorded files should not name this machine. */
const root = fileURLToPath(new URL("../../../../", import.meta.url));
const { open } = engines();

for (const [name, { workflow, input, drive, ends }] of Object.entries(recordings)) {
  test(`Y5 "${name}" runs and replays`, { timeout: LONG }, async () => {
    const holdfast = await open();
    await holdfast.worker({ workflows: [workflow, ...children], activities: [double] });
    const run = await holdfast.start(workflow, input as never);
    await drive?.(run);
    await run.result().catch(() => {});
    expect((await run.describe()).status).toBe(ends);
    const history = await run.history();
    await replay(workflow, history);
    if (process.env["RECORD"] === "1")
      writeFileSync(
        new URL(`../histories/${name}.json`, import.meta.url),
        `${JSON.stringify(history, undefined, 1).replaceAll(root, "/app/")}\n`,
      );
  });
}
