// The timeline of a run of 10,000 operations in a browser: until it is drawn, and frames while it is zoomed and scrolled.

import { Holdfast, workflow } from "holdfast";
import { command, median, openBrowser, project, quantile } from "./places.mjs";

export async function operationsFigures({ isQuick }) {
  const count = isQuick ? 500 : 10_000;
  const { folder, remove } = project({});
  const url = `file:${folder}/app.db`;
  const engine = await Holdfast.open(url);
  const many = workflow("many", async (ctx) => {
    for (let i = 0; i < count; i++) await ctx.step(`step-${i % 50}`, async () => i);
  });
  await engine.worker({ workflows: [many] });
  await (await engine.start(many, undefined, { id: "many" })).result({ timeout: "5m" });
  await engine.close();
  const dashboard = command(["dashboard", "--url", url, "-o", "jsonl", "--port", "0"], folder);
  const { event } = await dashboard.next("ready");
  const { origin, hash } = new URL(String(event["url"]));
  const browser = await openBrowser();
  const drawn = [];
  const loaded = [];
  let frames = [];
  try {
    for (let round = 0; round < (isQuick ? 1 : 5); round++) {
      const page = await browser.newPage({ viewport: { width: 1_280, height: 800 } });
      const start = performance.now();
      await page.goto(`${origin}/runs/many${hash}`);
      const canvas = page.locator("canvas[data-frames]");
      await canvas.waitFor();
      loaded.push(performance.now() - start);
      const data = await canvas.evaluate((element) => ({ ...element.dataset }));
      drawn.push(Number(data["layoutMs"]) + Number(data["paintMs"]));
      const box = await canvas.boundingBox();
      if (box === null) throw new Error("The canvas is not shown.");
      await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
      const watched = page.evaluate(
        () =>
          new Promise((done) => {
            const gaps = [];
            let last = performance.now();
            const look = (/** @type {number} */ now) => {
              gaps.push(now - last);
              last = now;
              if (gaps.length < 120) requestAnimationFrame(look);
              else done(gaps.slice(2));
            };
            requestAnimationFrame(look);
          }),
      );
      for (let i = 0; i < 60; i++) {
        if (i % 2 === 0) await page.keyboard.down("Control");
        await page.mouse.wheel(i % 3 === 0 ? 40 : 0, i % 2 === 0 ? -60 : 80);
        if (i % 2 === 0) await page.keyboard.up("Control");
      }
      frames = frames.concat(await watched);
      await page.close();
    }
  } finally {
    await browser.close();
    await dashboard.stop();
    remove();
  }
  const note = `${count.toLocaleString("en")} operations`;
  return [
    { name: "laid out and drawn", value: median(drawn), unit: "ms", goal: 150, note },
    { name: "from the address to the drawn timeline", value: median(loaded), unit: "ms", note },
    { name: "frame while zooming and scrolling, p95", value: quantile(frames, 0.95), unit: "ms", goal: 16.7, note },
  ];
}
