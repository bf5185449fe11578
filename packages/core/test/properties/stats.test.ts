import { Harness } from "@holdfast/core/testing";
import fc from "fast-check";
import { it } from "vitest";
import { compile } from "./compile.ts";
import { programs } from "./program.ts";
import { play, schedules } from "./schedule.ts";

it("stats", { timeout: 60000 }, async () => {
  const counts: Record<string, number> = {};
  const status: Record<string, number> = {};
  let turns = 0;
  let cmds = 0;
  let big = 0;
  const N = 2000;
  const t = Date.now();
  for (const [p, s] of fc.sample(fc.tuple(programs, schedules), N)) {
    const h = new Harness(compile(p));
    await play(h, s);
    turns += h.transcript.length;
    cmds += h.commands.length;
    if (h.transcript.length > 8) big++;
    status[h.status] = (status[h.status] ?? 0) + 1;
    for (const ty of new Set(h.commands.map((c) => (c.type === "settle" ? `settle.${c.status}` : c.type))))
      counts[ty] = (counts[ty] ?? 0) + 1;
  }
  console.log(JSON.stringify({ turns: turns / N, cmds: cmds / N, big: big / N, status, counts, ms: Date.now() - t }, null, 1));
});
