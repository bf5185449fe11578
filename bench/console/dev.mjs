// `holdfast dev`: from the command to its ready line, from a save to the new code, from a commit to the screen.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Holdfast } from "holdfast";
import { command, median, openBrowser, project } from "./places.mjs";

const CODE = `import { signal, workflow } from "holdfast";
export const order = workflow({ name: "order", signals: { next: signal<number>() } }, async (ctx) => {
  for (;;) {
    const value = await ctx.waitForSignal("next");
    ctx.publishState(value);
  }
});
`;

export async function devFigures({ isQuick }) {
  const rounds = isQuick ? 2 : 7;
  const ready = [];
  const reloads = [];
  const commits = [];
  for (let round = 0; round < rounds; round++) {
    const { folder, remove } = project({ "workflows/order.ts": CODE });
    const dev = command(["dev", "-o", "jsonl", "--port", "0"], folder);
    const { at } = await dev.next("ready");
    ready.push(at - dev.started);
    const saved = performance.now();
    writeFileSync(join(folder, "workflows", "order.ts"), `${CODE}// ${round}\n`);
    reloads.push((await dev.next("reloaded")).at - saved);
    await dev.stop();
    remove();
  }
  const { folder, remove } = project({ "workflows/order.ts": CODE });
  const dev = command(["dev", "-o", "jsonl", "--port", "0"], folder);
  const { event } = await dev.next("ready");
  const browser = await openBrowser();
  const engine = await Holdfast.open(`file:${folder}/.holdfast/holdfast.db`);
  try {
    const run = await engine.start("order", undefined, { id: "a" });
    await run.signal("next", 0);
    const url = new URL(String(event["url"]));
    const page = await browser.newPage({ viewport: { width: 1_280, height: 800 } });
    await page.goto(`${url.origin}/runs/a?view=state${url.hash}`);
    await page.getByText("Live", { exact: true }).waitFor();
    for (let i = 0; i < rounds * 3; i++) {
      const value = 7_000_000 + i;
      // Both clocks are the machine's: the page says when it has painted the value, in milliseconds since 1970.
      const seen = page.evaluate(
        (text) =>
          new Promise((done) => {
            const look = () => (document.body.textContent?.includes(text) ? done(Date.now()) : requestAnimationFrame(look));
            look();
          }),
        String(value),
      );
      await run.signal("next", value);
      const committed = Date.now();
      commits.push(Math.max(0, Number(await seen) - committed));
    }
  } finally {
    await browser.close();
    await engine.close();
    await dev.stop();
    remove();
  }
  return [
    { name: "`dev` until it is ready", value: median(ready), unit: "ms", goal: 1_500 },
    { name: "`dev`, from a save until the new code has the runs", value: median(reloads), unit: "ms", goal: 800 },
    { name: "a signal is acknowledged until the state it leads to is on the screen", value: median(commits), unit: "ms", goal: 300 },
  ];
}
