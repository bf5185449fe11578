// What an open page costs the worker beside it: runs of five steps (W1) with and without it, in turns.
// On shared cores the browser, which draws without a graphics card, takes part of what the worker needs: that figure has no goal. With the
// worker on one core, and the dashboard's process and the browser on another, what is left is what the console itself does to a worker.

import { fork, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { command, median, openBrowser, project } from "./places.mjs";

/** The worker's process: runs of five steps, as many as it is asked for. */
const WORKER = `import { Holdfast, workflow } from "holdfast";
const engine = await Holdfast.open(process.argv[2]);
const five = workflow("five", async (ctx) => {
  for (let i = 0; i < 5; i++) await ctx.step("work", async () => i);
});
await engine.worker({ workflows: [five], concurrency: 100 });
process.on("message", async (count) => {
  const start = performance.now();
  const runs = await engine.startMany(five, Array.from({ length: count }, () => ({})));
  await Promise.all(runs.map((run) => run.result()));
  process.send(performance.now() - start);
});
process.send("ready");
`;

export async function costOfOpenPage({ isQuick }) {
  const name = "time of W1 on SQLite beside an open page, compared with a closed one";
  const shared = await measured({ isQuick });
  const figures = [
    { name, value: shared.percent, unit: "%", note: "all on the same cores" },
    { name: "the dashboard's process beside W1, with an open page", value: shared.cpu, unit: "ms of processor time per second" },
  ];
  const cores = coresOf(process.pid);
  const [own, others] = cores;
  if (own === undefined || others === undefined) return figures;
  // What this process starts inherits its core: the dashboard and the browser.
  pin(process.pid, [others]);
  try {
    const { percent } = await measured({ isQuick, core: own });
    figures.push({ name, value: percent, unit: "%", goal: 2, note: "the worker on a core of its own" });
  } finally {
    pin(process.pid, cores);
  }
  return figures;
}

/** @param {{ isQuick: boolean, core?: number }} options */
async function measured({ isQuick, core }) {
  const count = isQuick ? 200 : 10_000;
  const { folder, remove } = project({ "worker.mjs": WORKER });
  const url = `file:${folder}/app.db`;
  const pinned = core === undefined ? {} : { execPath: "taskset", execArgv: ["-c", String(core), process.execPath] };
  const child = fork(`${folder}/worker.mjs`, [url], { execArgv: [], ...pinned });
  const answer = () => new Promise((done) => child.once("message", done));
  await answer();
  const work = async () => {
    const answered = answer();
    child.send(count);
    return Number(await answered);
  };
  await work();
  const dashboard = command(["dashboard", "--url", url, "-o", "jsonl", "--port", "0"], folder);
  const { event } = await dashboard.next("ready");
  const browser = await openBrowser();
  const ratios = [];
  const loads = [];
  const beside = async () => {
    const page = await browser.newPage({ viewport: { width: 1_280, height: 800 } });
    await page.goto(String(event["url"]));
    await page.getByText("Live", { exact: true }).waitFor();
    // An open page is measured, and not one that opens.
    await page.waitForLoadState("load");
    await page.waitForTimeout(isQuick ? 0 : 1_500);
    const cpu = cpuOf(dashboard.pid);
    const ms = await work();
    loads.push((cpuOf(dashboard.pid) - cpu) / (ms / 1_000));
    await page.close();
    return ms;
  };
  try {
    // The store grows: which of the two comes first alternates.
    for (let round = 0; round < (isQuick ? 2 : 8); round++) {
      const first = round % 2 === 0 ? await work() : await beside();
      const second = round % 2 === 0 ? await beside() : await work();
      ratios.push(round % 2 === 0 ? second / first : first / second);
    }
  } finally {
    await browser.close();
    await dashboard.stop();
    child.kill("SIGKILL");
    remove();
  }
  return { percent: (median(ratios) - 1) * 100, cpu: median(loads) };
}

/** Milliseconds of processor time, or NaN where there is no /proc. @param {number} pid */
function cpuOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return Number.NaN;
  }
}
/** The cores that a process may use. None where they can't be chosen. @param {number} pid */
function coresOf(pid) {
  const { status, stdout } = spawnSync("taskset", ["-c", "-p", String(pid)], { encoding: "utf8" });
  if (status !== 0) return [];
  const parts = stdout
    .slice(stdout.lastIndexOf(":") + 1)
    .trim()
    .split(",");
  return parts.flatMap((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}
/** All threads of a process. @param {number} pid @param {readonly number[]} cores */
function pin(pid, cores) {
  spawnSync("taskset", ["-a", "-c", "-p", cores.join(","), String(pid)]);
}
