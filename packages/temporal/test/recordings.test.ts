// Recorded histories of Temporal replay on this code, without a server; changed code is noticed.

import { readdirSync, readFileSync } from "node:fs";
import { NondeterminismError, replay, workflow } from "holdfast";
import { expect, test } from "vitest";
import { recordings } from "./recordings.ts";

const folder = new URL("./histories/", import.meta.url);
const historyOf = (name: string) => JSON.parse(readFileSync(new URL(`${name}.json`, folder), "utf8"));

test("there is a history for each recording, and no other", () => {
  expect(readdirSync(folder).sort()).toEqual(
    Object.keys(recordings)
      .map((name) => `${name}.json`)
      .sort(),
  );
});

for (const [name, { workflow: code }] of Object.entries(recordings)) {
  test(`Y1 Y5 the recorded history "${name}" replays, in both forms`, async () => {
    const history = historyOf(name);
    expect(history.format).toBe("temporal-history/1");
    await replay(code, history);
    await replay(code, { events: history.turns });
  });
  test(`Y2 other code does not replay "${name}"`, async () => {
    const other = workflow(code.name, async (ctx) => {
      await ctx.step("something else", () => 1);
    });
    await expect(replay(other, historyOf(name))).rejects.toBeInstanceOf(NondeterminismError);
  });
}
