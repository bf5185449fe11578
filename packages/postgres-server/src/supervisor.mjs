// node supervisor.mjs <options>: keeps one PostgreSQL for the process that started it, and ends with that process, however it ends.
// Owns: the cluster.
// Invariants: when the channel to the parent closes, the server is ended and its folder removed.

import { Cluster } from "./cluster.mjs";

/** @typedef {{ id: number, order: "create" | "start" | "kill" | "stop" }} Order */

/** @type {Cluster | undefined} */
let cluster;

/** @param {Order["order"]} order */
async function obey(order) {
  switch (order) {
    case "create":
      cluster = new Cluster(JSON.parse(process.argv[2] ?? "{}"));
      await cluster.create();
      return cluster.url;
    case "start":
      return cluster?.start();
    case "kill":
      return cluster?.kill();
    case "stop":
      return cluster?.stop();
  }
}

async function end() {
  cluster?.abandon();
  await cluster?.kill();
  cluster?.remove();
  process.exit();
}

process.on("message", (/** @type {Order} */ { id, order }) => {
  obey(order).then(
    (value) => process.send?.({ id, value }),
    (error) => process.send?.({ id, error: String(error.message ?? error) }),
  );
});
process.once("disconnect", end);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, end);
