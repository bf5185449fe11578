// A worker: runs orders until it is stopped. Start as many as you like on the same database; each claims as many runs as it has slots for.

import { Holdfast } from "holdfast";
import { order } from "./order.ts";

const engine = await Holdfast.open(process.env["DATABASE_URL"] ?? "file:orders.db");
const worker = await engine.worker({
  workflows: [order],
  lease: "2s", // how long other workers wait before they take over from a dead one; the default is 30s
  stopOn: ["SIGTERM", "SIGINT"],
});
console.log(`${worker.id} is ready`);
