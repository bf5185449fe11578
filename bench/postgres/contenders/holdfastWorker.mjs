// node holdfastWorker.mjs <url>: a worker in a process of its own, until it is told to stop.
import { Holdfast } from "holdfast";
import { workflows } from "./holdfastWorkflows.mjs";

const engine = await Holdfast.open(process.argv[2]);
await engine.worker({ workflows, concurrency: 100, determinism: "off", stopOn: ["SIGTERM"] });
process.once("disconnect", () => process.exit(1));
process.send("ready");
