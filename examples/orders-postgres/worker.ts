// A worker: carries out orders until it is stopped. Start as many as you like, on any machine that reaches the database.

import { Holdfast } from "holdfast";
import { order } from "./order.ts";

const engine = await Holdfast.open(process.env["DATABASE_URL"]);
await engine.worker({
  workflows: [order],
  concurrency: 4, // orders at a time; the default is 100
  lease: "2s", // how long other workers wait before they take over from a dead one; the default is 30s
  stopOn: ["SIGTERM", "SIGINT"],
});
console.log("ready");
