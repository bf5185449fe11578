// A million runs in a SQLite file: lists and counts over HTTP, and the first paint of the page.

import { Holdfast, workflow } from "holdfast";
import { command, median, openBrowser, project, quantile } from "./places.mjs";

const LISTS = ["", "status=completed", "status=pending", "workflow=quick", "workflow=slow&status=pending", "attr.tenant=17"];
const COUNTS = ["", "workflow=quick"];

export async function crowdFigures({ isQuick }) {
  const count = isQuick ? 10_000 : 1_000_000;
  const { folder, remove } = project({});
  const url = `file:${folder}/app.db`;
  const engine = await Holdfast.open(`${url}?synchronous=NORMAL`); // so that a million runs are written in a minute or two
  const quick = workflow("quick", async () => "done");
  const slow = workflow("slow", async () => "done");
  const start = (/** @type {typeof quick} */ one, /** @type {number} */ from) =>
    engine.startMany(
      one,
      Array.from({ length: 1_000 }, (_, i) => ({ attributes: { tenant: (from + i) % 997 } })),
    );
  for (let i = 0; i < count; i += 1_000) await start(i % 10_000 === 0 ? quick : slow, i);
  const worker = await engine.worker({ workflows: [quick] });
  while ((await engine.count({ workflow: "quick", status: "pending" })).pending > 0) await new Promise((done) => setTimeout(done, 100));
  await worker.stop();
  const byAttribute = [];
  for (let i = 0; i < 200; i++) {
    const began = performance.now();
    const { runs } = await engine.list({ attributes: { tenant: (i * 7) % 997 }, limit: 50 });
    byAttribute.push(performance.now() - began);
    if (runs.length === 0) throw new Error("No run has the attribute.");
  }
  await engine.close();
  const dashboard = command(["dashboard", "--url", url, "-o", "jsonl", "--port", "0"], folder);
  const { event } = await dashboard.next("ready");
  const { origin, hash } = new URL(String(event["url"]));
  const headers = { authorization: `Bearer ${hash.slice("#token=".length)}` };
  const timed = async (/** @type {string} */ path) => {
    const began = performance.now();
    const response = await fetch(`${origin}/api/v1/${path}`, { headers });
    await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return performance.now() - began;
  };
  const times = async (/** @type {readonly string[]} */ paths, /** @type {number} */ rounds) => {
    const all = [];
    for (const path of paths) await timed(path);
    for (let i = 0; i < rounds; i++) for (const path of paths) all.push(await timed(path));
    return all;
  };
  const lists = await times(
    LISTS.map((query) => `runs?limit=50&${query}`),
    40,
  );
  const counts = await times([`runs/count?${COUNTS[0]}`], 20);
  const filtered = await times([`runs/count?${COUNTS[1]}`], 20);
  const browser = await openBrowser();
  const firsts = [];
  const paints = [];
  const shown = [];
  // In a tab that is open already. The browser's own clock begins with the navigation.
  const visit = async (/** @type {import("playwright-core").BrowserContext} */ context) => {
    const page = await context.newPage();
    const began = performance.now();
    await page.goto(`${origin}/runs${hash}`);
    await page.getByRole("row").nth(2).waitFor();
    const rows = performance.now() - began;
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN);
    await page.close();
    return { rows, paint };
  };
  try {
    for (let round = 0; round < 3; round++) {
      // A context has a cache of its own: empty at the first visit.
      const context = await browser.newContext({ viewport: { width: 1_280, height: 800 } });
      firsts.push((await visit(context)).paint);
      for (let again = 0; again < 3; again++) {
        const { rows, paint } = await visit(context);
        paints.push(paint);
        shown.push(rows);
      }
      await context.close();
    }
  } finally {
    await browser.close();
    await dashboard.stop();
    remove();
  }
  const note = `${count.toLocaleString("en")} runs`;
  return [
    { name: "a page of a list, p95", value: quantile(lists, 0.95), unit: "ms", goal: 20, note },
    { name: "a page by an attribute, in the process, p95", value: quantile(byAttribute.slice(20), 0.95), unit: "ms", goal: 3, note },
    { name: "counts by status", value: median(counts), unit: "ms", goal: 50, note },
    { name: "counts of one workflow", value: median(filtered), unit: "ms", goal: 50, note },
    { name: "first paint", value: median(paints), unit: "ms", goal: 400, note },
    { name: "first paint of a browser that has not been here before", value: median(firsts), unit: "ms", note },
    { name: "rows on the screen", value: median(shown), unit: "ms", note },
  ];
}
