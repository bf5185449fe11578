// A worker: runs orders until it is told to stop. Start as many as you like on the same database; each takes what it has room for.

import { Holdfast } from "holdfast";
import { order } from "./order.ts";

const engine = await Holdfast.open(process.env["DATABASE_URL"] ?? "file:orders.db");
const worker = await engine.worker({
  workflows: [order],
  lease: "2s", // how long others wait before they take over from a worker that is gone; the default is 30s
  stopOn: ["SIGTERM", "SIGINT"],
});
console.log(`${worker.id} is ready`);
