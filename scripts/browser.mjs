// The browser that the tests of the dashboard run in: whether there is one, and installing it.
// It uses nothing but Node, because it runs before anything is compiled.

import { existsSync } from "node:fs";
import { run } from "./setup.mjs";

const CANDIDATES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/usr/bin/google-chrome-stable"];

/** The program, by HOLDFAST_CHROMIUM or where systems have it. */
function browserPath() {
  const given = process.env["HOLDFAST_CHROMIUM"];
  if (given) return existsSync(given) ? given : undefined;
  return CANDIDATES.find((path) => existsSync(path));
}

/** Finds the browser, or installs Debian's where that is possible. `output` is a line if there is none. */
export async function provideBrowser() {
  if (browserPath() === undefined && existsSync("/usr/bin/apt-get") && process.getuid?.() === 0) {
    await run("apt-get", ["update", "-qq"], { stdio: "pipe" });
    await run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", "chromium"], { stdio: "pipe" });
  }
  const path = browserPath();
  if (path === undefined) return { ok: false, output: "There is no Chromium: install it, or set HOLDFAST_CHROMIUM to its path.\n" };
  process.env["HOLDFAST_CHROMIUM"] = path;
  return { ok: true, output: "" };
}

/** For vitest.config.ts: the tests that need a browser are not run. */
export function leaveOutBrowser() {
  process.env["HOLDFAST_TEST_BROWSER"] = "off";
}
