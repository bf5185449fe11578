// A process that runs agents: one worker for their workflows and tools, one for the calls to the model.

import { Holdfast } from "holdfast";
import { agent, askModel } from "./agent.ts";

const engine = await Holdfast.open(process.env["DATABASE_URL"] ?? "file:agent.db");

// For all processes together. Calls beyond it wait in the queue, and no agent notices.
await engine.queues.set("models", { concurrency: 4, rate: { limit: 60, per: "1m" } });

const lease = "2s"; // how long other workers wait before they take over from a dead one; the default is 30s
await engine.worker({ workflows: [agent], lease, stopOn: ["SIGTERM", "SIGINT"] });
await engine.worker({ workflows: [], activities: [askModel], queue: "models", lease });
console.log("ready");
