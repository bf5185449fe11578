// node soak/worker.mjs <url> <effects> <lease>: a worker that runs until it is killed or stopped.

import { Holdfast } from "holdfast";
import { note, openEffects, workAs } from "./effects.mjs";
import { activities, workflows } from "./workflows.mjs";

const [url = "", effects = "", lease = "1000"] = process.argv.slice(2);
openEffects(effects);

const tell = (/** @type {string} */ level) => (/** @type {string} */ message, /** @type {any} */ fields) => {
  const error = fields?.error === undefined ? "" : ` ${fields.error?.stack ?? fields.error}`;
  note({ e: "log", level, message: `${message}${error} ${fields?.runId ?? ""}`, pid: process.pid });
};
const logger = { debug() {}, info() {}, warn: tell("warn"), error: tell("error") };

const engine = await Holdfast.open(url, { logger });
const worker = await engine.worker({
  workflows,
  activities,
  lease: Number(lease),
  concurrency: 25,
  cachedRuns: 40,
  gracePeriod: 300,
  determinism: "error",
  // A turn of a process that was frozen takes long. Temporal gives the run to another worker after 10 s.
  turnTimeout: url.startsWith("temporal") ? "9s" : "60s",
  stopOn: ["SIGTERM"],
});
workAs(worker.id);
process.once("disconnect", () => process.exit(1));
process.send?.("ready");
