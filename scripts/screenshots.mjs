// npm run screenshots: the pictures of the docs, taken in a browser from the orders of the demo.

import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { provideBrowser } from "./browser.mjs";
import { root } from "./setup.mjs";

const folder = join(root, "docs", "images");

/** @type {[name: string, path: string, options?: { height?: number, of?: string }][]} */
const PICTURES = [
  ["crash", "runs/A-1?op=ship/lamp/parcel", { height: 860 }],
  ["rollback", "runs/A-2?axis=turns", { of: ".split" }],
  ["runs", "runs", { height: 300 }],
  ["state", "runs/A-1?view=state&turn=3", { of: "[role=tabpanel]" }],
];

/** Runs the demo up to its dashboard. */
async function demo() {
  const child = spawn(process.execPath, [join(root, "examples", "order", "demo.mjs"), "--open"], {
    cwd: root,
    env: { ...process.env, BROWSER: "none", NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const [url] = /http:\S+#token=\S+/.exec(line) ?? [];
    if (url !== undefined) return { child, url: new URL(url) };
  }
  throw new Error("The demo ended before it had opened its dashboard.");
}

const found = await provideBrowser();
if (!found.ok) throw new Error(found.output);
const { child, url } = await demo();
const browser = await chromium.launch({ executablePath: process.env["HOLDFAST_CHROMIUM"] ?? "", args: ["--no-sandbox", "--disable-gpu"] });
try {
  mkdirSync(folder, { recursive: true });
  for (const [name, path, { height = 800, of } = {}] of PICTURES) {
    const page = await browser.newPage({ colorScheme: "light", viewport: { width: 1_280, height } });
    await page.goto(`${url.origin}/${path}${url.hash}`);
    await page.getByRole("heading").first().waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    if (path.includes("op=")) await page.getByRole("complementary", { name: "Details" }).getByText("Attempts").waitFor();
    else if (path.startsWith("runs/") && !path.includes("view=")) await page.locator("canvas[data-frames]").waitFor();
    await page.waitForLoadState("networkidle", { timeout: 1_000 }).catch(() => {});
    const target = of === undefined ? page : page.locator(of);
    await target.screenshot({ path: join(folder, `${name}.png`) });
    await page.close();
    console.log(`docs/images/${name}.png`);
  }
} finally {
  await browser.close();
  child.kill("SIGTERM");
}
