// npm run screenshots: the pictures of the docs, taken in a browser from the orders of the demo, and from a run that a change of its code
// has blocked.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { provideBrowser } from "./browser.mjs";
import { root } from "./setup.mjs";

const folder = join(root, "docs", "images");

/** @typedef {[name: string, path: string, options?: { height?: number, of?: string }]} Picture */

/** @type {Picture[]} */
const OF_THE_DEMO = [
  ["crash", "runs/A-1?op=ship/lamp/parcel", { height: 860 }],
  ["rollback", "runs/A-2?axis=turns", { of: ".split" }],
  ["runs", "runs", { height: 300 }],
  ["state", "runs/A-1?view=state&turn=3", { of: "[role=tabpanel]" }],
];
/** @type {Picture[]} */
const OF_A_BLOCKED_RUN = [["blocked", "runs/ord-7", { of: ".blocked" }]];

/**
 * A program that serves the dashboard, from the line on which it says where.
 * @param {string[]} args @param {string} cwd
 */
async function dashboardOf(args, cwd) {
  const child = spawn(process.execPath, args, {
    cwd,
    env: { ...process.env, BROWSER: "none", NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  /** The next line that has it. @param {RegExp} pattern */
  const says = async (pattern) => {
    for (;;) {
      const { done, value } = await lines.next();
      if (done) throw new Error("The program has ended too early.");
      const [text] = pattern.exec(value) ?? [];
      if (text !== undefined) return text;
    }
  };
  return { child, says, url: new URL(await says(/http:[^\s"]+#token=[^\s"]+/)) };
}

/** @param {string} first the first step */
const orders = (first) => `import { workflow } from "holdfast";

export const order = workflow("order", async (ctx) => {
  await ctx.step("${first}", () => "done");
  await ctx.waitForSignal("approve");
});
`;

/**
 * A run that waits, then other code under it, then the signal that it waits for.
 * @param {string} at a folder @param {Awaited<ReturnType<typeof dashboardOf>>} dev
 */
async function block(at, { url, says }) {
  const authorization = `Bearer ${new URLSearchParams(url.hash.slice(1)).get("token")}`;
  /** @param {string} method @param {string} path @param {unknown} [body] */
  const call = async (method, path, body) => {
    const headers = { authorization, "content-type": "application/json" };
    const response = await fetch(`${url.origin}/api/v1/${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  };
  /** @param {string} status */
  const until = async (status) => {
    while ((await call("GET", "runs/ord-7")).status !== status) await new Promise((resolve) => setTimeout(resolve, 100));
  };
  await call("POST", "runs", { workflow: "order", id: "ord-7" });
  await until("sleeping");
  writeFileSync(join(at, "workflows.ts"), orders("check-stock"));
  await says(/"event":"reloaded"/);
  await call("POST", "runs/ord-7/signals/approve", {});
  await until("blocked");
}

/** @param {import("playwright-core").Browser} browser @param {URL} url @param {Picture[]} pictures */
async function take(browser, url, pictures) {
  for (const [name, path, { height = 800, of } = {}] of pictures) {
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
}

const found = await provideBrowser();
if (!found.ok) throw new Error(found.output);
const browser = await chromium.launch({ executablePath: process.env["HOLDFAST_CHROMIUM"] ?? "", args: ["--no-sandbox", "--disable-gpu"] });
const scratch = mkdtempSync(join(tmpdir(), "holdfast-screenshots-"));
/** @type {import("node:child_process").ChildProcess[]} */
const children = [];
try {
  mkdirSync(folder, { recursive: true });
  const demo = await dashboardOf([join(root, "examples", "order", "demo.mjs"), "--open"], root);
  children.push(demo.child);
  await take(browser, demo.url, OF_THE_DEMO);
  writeFileSync(join(scratch, "workflows.ts"), orders("charge"));
  writeFileSync(join(scratch, "package.json"), '{"type":"module"}\n');
  symlinkSync(join(root, "node_modules"), join(scratch, "node_modules"), "junction");
  const dev = await dashboardOf([join(root, "packages", "cli", "dist", "bin.js"), "dev", "-o", "jsonl", "--port", "4795"], scratch);
  children.push(dev.child);
  await block(scratch, dev);
  await take(browser, dev.url, OF_A_BLOCKED_RUN);
} finally {
  await browser.close();
  for (const child of children) {
    child.kill("SIGTERM");
    if (child.exitCode === null) await once(child, "exit");
  }
  rmSync(scratch, { recursive: true });
}
