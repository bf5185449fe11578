// Where the console is measured: commands of `holdfast` as processes, folders with projects, and a browser.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { provideBrowser } from "../../scripts/browser.mjs";

export const root = resolve(import.meta.dirname, "..", "..");
const bin = join(root, "packages", "cli", "dist", "bin.js");

/** A folder with these files, in which `holdfast` can be imported. @param {Record<string, string>} files */
export function project(files) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-console-"));
  for (const [path, text] of Object.entries({ "package.json": `{ "type": "module" }`, ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** A command that prints an event in each line. @param {string[]} args @param {string} cwd */
export function command(args, cwd) {
  const started = performance.now();
  const child = spawn(process.execPath, [bin, ...args], { cwd, stdio: ["ignore", "pipe", "pipe"] });
  /** @type {{ event: Record<string, unknown>, at: number }[]} */
  const events = [];
  let said = "";
  let heard = () => {};
  const ended = new Promise((resolveEnd) => child.on("close", resolveEnd));
  child.on("close", () => heard());
  child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
  createInterface({ input: child.stdout }).on("line", (text) => {
    events.push({ event: JSON.parse(text), at: performance.now() });
    heard();
  });
  return {
    pid: child.pid ?? 0,
    started,
    ended,
    /** @param {string} name */
    async next(name) {
      for (;;) {
        const found = events.findIndex(({ event }) => event["event"] === name);
        if (found >= 0) return /** @type {(typeof events)[number]} */ (events.splice(0, found + 1).at(-1));
        if (child.exitCode !== null) throw new Error(`holdfast ${args.join(" ")} ended with ${child.exitCode}:\n${said}`);
        await new Promise((/** @type {(value?: unknown) => void} */ done) => (heard = done));
      }
    },
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

/** A command until its end, with the processor time of it and its children. @param {string[]} args @param {string} cwd */
export async function completed(args, cwd) {
  const script = `const { spawnSync } = require("node:child_process");
    const start = process.hrtime.bigint();
    const { status, stderr } = spawnSync(process.execPath, ${JSON.stringify([bin, ...args])}, { encoding: "utf8", maxBuffer: 1e9 });
    const usage = require("node:fs").readFileSync("/proc/self/stat", "utf8").split(") ")[1].split(" ");
    console.log(JSON.stringify({ status, stderr, ms: Number(process.hrtime.bigint() - start) / 1e6, cpuMs: (Number(usage[13]) + Number(usage[14])) * 10 }));`;
  const child = spawn(process.execPath, ["-e", script], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const chunk of child.stdout) text += chunk;
  const result = JSON.parse(text);
  if (result.status !== 0) throw new Error(`holdfast ${args.join(" ")} ended with ${result.status}:\n${result.stderr}`);
  return result;
}

export async function openBrowser() {
  const found = await provideBrowser();
  if (!found.ok) throw new Error(found.output);
  return chromium.launch({
    executablePath: process.env["HOLDFAST_CHROMIUM"] ?? "",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
}

/** @param {readonly number[]} given @param {number} share */
export function quantile(given, share) {
  const sorted = given.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
export const median = (/** @type {readonly number[]} */ given) => quantile(given, 0.5);
