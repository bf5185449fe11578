// npm run demo: two orders on an SQLite file. The worker of the first is killed in the middle of a step, and another worker continues; the
// second can't be delivered, and its completed steps are rolled back. The demo checks its final claims, and exits with an error if one is
// wrong.
// npm run demo -- --open: then serves the dashboard on the demo's own file, until it is interrupted.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { Holdfast, RunFailedError } from "holdfast";

const folder = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
process.env["SHOP_BOOK"] = join(folder, "shop.jsonl");
process.env["DATABASE_URL"] = `file:${join(folder, "orders.db")}`;
const { order } = await import("../dist/order/order.js");
const { readBook } = await import("../dist/order/shop.js");

const LONGEST_MS = 28_000;

// ── the terminal ──

const { NO_COLOR, FORCE_COLOR } = process.env;
const isColourful = NO_COLOR ? false : FORCE_COLOR === undefined ? process.stdout.isTTY === true : FORCE_COLOR !== "0";
const style = (code) => (text) => (isColourful ? `\x1b[${code}m${text}\x1b[0m` : text);
const [bold, dim, red, green] = [1, 2, 31, 32].map(style);
const workerColours = [36, 35].map(style);

const say = (text = "") => console.log(text);
const title = (text) => say(`\n${bold(text)}\n`);

// ── workers: separate processes ──

const workers = [];

/** Starts a worker and prints its output. */
async function startWorker() {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../dist/order/worker.js")], { stdio: ["ignore", "pipe", "pipe"] });
  const colour = workerColours[workers.length % workerColours.length] ?? style(0);
  const worker = { child, pid: child.pid, colour, id: "" };
  workers.push(worker);
  const lines = createInterface({ input: child.stdout });
  const tell = (line) => say(`${colour(`worker ${worker.pid}`)} ${dim("│")} ${line}`);
  createInterface({ input: child.stderr }).on("line", (line) => tell(dim(line)));
  const ready = new Promise((resolve, reject) => {
    child.on("exit", (code, signal) => reject(new Error(`Worker ${worker.pid} ended before it was ready (${signal ?? code}).`)));
    lines.on("line", (line) => {
      tell(line);
      const [, id] = /^(\S+) is ready$/.exec(line) ?? [];
      if (id === undefined) return;
      worker.id = id;
      resolve(undefined);
    });
  });
  await ready;
  return worker;
}

async function killWorker({ child, pid }) {
  child.kill("SIGKILL");
  const [, signal] = await once(child, "exit");
  assert.equal(signal, "SIGKILL");
  say(`\n${red(`✗ worker ${pid} was killed (kill -9)`)}: it had no time to save anything\n`);
}

async function stopWorker({ child, pid }) {
  child.kill("SIGTERM");
  const [code] = await once(child, "exit");
  assert.equal(code, 0, `worker ${pid} should stop by itself`);
}

// ── what the demo observes ──

let waitingFor = "";

/** Polls until the condition is true. */
async function until(what, look) {
  waitingFor = what;
  while (!(await look())) await delay(25);
}
const operation = async (run, location) => (await run.operations()).find((one) => one.location === location);
/** How often an order requested something from a service, and how often the service did it. */
const countOf = (orderId, request) => {
  const entries = readBook().filter((entry) => entry.key.startsWith(`${orderId}/`) && entry.request === request);
  const count = (event) => entries.filter((entry) => entry.event === event).length;
  return { asked: count("asked"), done: count("done") };
};

const processOf = (workerId) => workers.find(({ id }) => id === workerId)?.pid ?? workerId;

/** Prints every operation: when and where it ran, how often, and in which process. */
async function printTimeline(run) {
  const { id, createdAt, status, finishedAt, historyLength } = await run.describe();
  const seconds = (date) => (date === undefined ? "" : `${((date.getTime() - createdAt.getTime()) / 1000).toFixed(2)}s`);
  title(`Timeline of order ${id}: ${status} after ${seconds(finishedAt)}, ${historyLength} records`);
  const rows = [["from", "to", "unit", "operation", "status", "attempts", "in process"]];
  for (const { unit, kind, name, status, attempts, scheduledAt, endedAt } of await run.operations()) {
    const results =
      attempts.length < 2 ? `${attempts.length || ""}` : `${attempts.length}: ${attempts.map((attempt) => attempt.status).join(", ")}`;
    const processes = [...new Set(attempts.map(({ workerId }) => processOf(workerId)))].join(", then ");
    const what = unit === "~rollback" ? `undo ${name}` : `${kind} ${name}`;
    rows.push([seconds(scheduledAt), seconds(endedAt), unit === "" ? "root" : unit, what, status, results, processes]);
  }
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  for (const [index, row] of rows.entries()) {
    const line = row.map((cell, column) => (column < 2 ? cell.padStart(widths[column]) : cell.padEnd(widths[column]))).join("  ");
    say(`  ${index === 0 ? dim(line.trimEnd()) : line.trimEnd()}`);
  }
}

// ── the demo ──

async function demo(engine) {
  title("1. An order, and a worker that dies in the middle of it");
  const first = await startWorker();
  const run = await engine.start(order, { id: "A-1", card: "unreliable", amount: 99, address: "Harbour Street 5" }, { id: "A-1" });

  await until("the order to wait for approval", async () => (await run.query("status")) === "waiting for approval");
  await delay(500);
  say(`${bold("demo")}          ${dim("│")} Ada approves the order`);
  await run.signal("approve", { by: "Ada" });

  const areBooksSent = async () => (await operation(run, "ship/books/parcel"))?.status === "completed";
  await until("one of two parcels", async () => (await areBooksSent()) && countOf("A-1", "ship lamp").asked === 1);
  await delay(300);
  await killWorker(first);
  const killedAt = new Date();
  const completed = (await run.operations()).filter(({ kind, status }) => kind === "step" && status === "completed");

  waitingFor = "another worker to take over";
  const second = await startWorker();
  const result = await run.result({ timeout: "20s" });
  say(`\n${green("✓ order A-1 is done")}: ${JSON.stringify(result)}`);

  title("2. An order that can't be delivered: its steps are rolled back");
  waitingFor = "the second order to be rolled back";
  const lost = await engine.start(
    order,
    { id: "A-2", card: "good", amount: 25, address: "nowhere" },
    { id: "A-2", signals: [{ name: "approve", payload: { by: "Ada" } }] },
  );
  const failure = await lost.result({ timeout: "20s" }).catch((error) => error);
  assert.ok(failure instanceof RunFailedError, `order A-2 should fail, but: ${failure}`);
  say(`\n${green("✓ order A-2 failed, and everything was rolled back")}: ${failure.message.split("\n")[0]}`);

  await stopWorker(second);
  await printTimeline(run);
  await printTimeline(lost);
  await checkAndSum({ run, lost, first, second, completed, killedAt });
}

/** Checks what happened, and prints the summary. */
async function checkAndSum({ run, lost, first, second, completed, killedAt }) {
  const attempts = async (location) => (await operation(run, location))?.attempts.map(({ status, workerId }) => [status, workerId]);
  assert.deepEqual(await attempts("reserve"), [["completed", first.id]]);
  assert.deepEqual(await attempts("charge"), [["failed", first.id], ["failed", first.id], ["completed", first.id]]); // biome-ignore format: a table
  assert.deepEqual(await attempts("ship/books/parcel"), [["completed", first.id]]);
  assert.deepEqual(await attempts("ship/lamp/parcel"), [["lost", first.id], ["completed", second.id]]); // biome-ignore format: a table
  const redone = completed.map(({ location }) => location);
  assert.deepEqual(redone.sort(), ["charge", "reserve", "ship/books/parcel"]);
  for (const { endedAt } of completed) assert.ok(endedAt < killedAt);

  assert.equal((await run.describe()).status, "completed");
  assert.deepEqual(countOf("A-1", "reserve A-1"), { asked: 1, done: 1 });
  assert.deepEqual(countOf("A-1", "charge 99 €"), { asked: 3, done: 1 });
  assert.deepEqual(countOf("A-1", "ship books"), { asked: 1, done: 1 });
  assert.deepEqual(countOf("A-1", "ship lamp"), { asked: 2, done: 1 });

  assert.equal((await lost.describe()).status, "failed");
  const undone = readBook().filter(({ event, request }) => event === "done" && /^(recall|refund|release)/.test(request));
  assert.deepEqual(undone.map(({ request }) => request.split(" ")[0]), ["recall", "refund", "release"]); // biome-ignore format: one line

  title("What would have happened without Holdfast");
  say(`  Worker ${first.pid} died while the lamp was being shipped. The progress of the order was only in its memory:`);
  say("    lost       that the goods were reserved, the card charged at the third attempt, Ada's approval given, the books sent");
  say("    or twice   reserve, charge and ship books, if the order had been run again from the start");
  say("    and A-2    charged and never delivered, without hand-written code to undo it");
  say(`  With Holdfast, worker ${second.pid} took over when the lease had expired, and repeated one step: the one that was interrupted.`);
  say("    charged    1 time (3 requests, 2 failed; none after the crash)");
  say("    books      1 parcel, 1 request");
  say("    lamp       1 parcel, 2 requests: the step ran again under the same idempotency key");
  say("    A-2        parcel recalled, money refunded, goods released: last step first");
}

// ── the end ──

function cleanUp() {
  for (const { child } of workers) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
function fail(error) {
  console.error(`\n${red("✗ the demo failed")}: ${error?.stack ?? error}`);
  process.exit(1);
}
process.on("exit", cleanUp);
process.on("SIGINT", () => process.exit(130));
process.on("SIGTERM", () => process.exit(143));
const timer = setTimeout(
  () => fail(new Error(`The demo did not end within ${LONGEST_MS / 1000} s. It was waiting for ${waitingFor}.`)),
  LONGEST_MS,
);
timer.unref();

/** The dashboard on the file of the demo, opened on the first order. BROWSER=none: the address is only printed. */
async function openDashboard(engine) {
  const { createConsole, hashToken, listen, newToken } = await import("@holdfast/cli/server");
  const token = newToken();
  const server = await listen(createConsole(engine, { tokens: [{ name: "demo", hash: hashToken(token), role: "admin", values: true }] }));
  const url = `${server.url}runs/A-1#token=${token}`;
  say(`\n${bold("The dashboard")}, until you press Ctrl-C: ${url}`);
  if (process.env["BROWSER"] === "none") return;
  const [program, ...args] = { darwin: ["open"], win32: ["cmd", "/c", "start", ""] }[process.platform] ?? ["xdg-open"];
  spawn(program, [...args, url], { stdio: "ignore", detached: true })
    .on("error", () => say("Open the address in a browser."))
    .unref();
}

const start = performance.now();
try {
  const engine = await Holdfast.open(process.env["DATABASE_URL"]);
  await demo(engine);
  clearTimeout(timer);
  say(`\n${green("✓")} everything checked, in ${((performance.now() - start) / 1000).toFixed(1)} s`);
  if (process.argv.includes("--open")) await openDashboard(engine);
  else {
    await engine.close();
    say(dim("  To look at both orders in the dashboard: npm run demo -- --open"));
  }
} catch (error) {
  fail(error);
}
