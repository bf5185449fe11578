// One contender, one workload, one process: prints one line of JSON. Each is warmed up first, as a server is.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [contender, workload, size, options] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
const { open } = await import(`./contenders/${contender}.mjs`);
const subject = await open(join(folder, "bench.db"), JSON.parse(options ?? "{}"));
const count = Number(size);
const timed = async (run) => {
  const start = performance.now();
  await run();
  return performance.now() - start;
};
const quantile = (values, q) => values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))];

async function latencies(times) {
  const values = [];
  for (let i = 0; i < times; i++) values.push(await timed(() => subject.latency()));
  return { p50: quantile(values, 0.5), p99: quantile(values, 0.99) };
}

let result;
switch (workload) {
  case "W1":
    for (let i = 0; i < 2; i++) await subject.throughput(count);
    result = { rate: count / ((await timed(() => subject.throughput(count))) / 1000) };
    break;
  case "W2":
    for (let i = 0; i < Math.min(20, count / 4); i++) await subject.latency();
    result = await latencies(count);
    break;
  case "W3":
    await subject.depth(900);
    result = { ms: await timed(() => subject.depth(count)) };
    break;
  case "W4":
    for (let i = 0; i < 8; i++) await subject.width(count);
    result = { ms: await timed(() => subject.width(count)) };
    break;
  case "crowd": {
    for (let i = 0; i < 50; i++) await subject.latency();
    const before = await latencies(200);
    await subject.crowd(count);
    result = { before, after: await latencies(200) };
    break;
  }
  default:
    throw new Error(`no workload ${workload}`);
}
console.log(JSON.stringify(result));
await subject.close();
rmSync(folder, { recursive: true, force: true });
