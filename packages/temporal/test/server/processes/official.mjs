// node official.mjs <address> <namespace> <queue>: a worker of Temporal's TypeScript SDK, in a process of its own. Says "ready".

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const { ApplicationFailure } = require("@temporalio/activity");
const { NativeConnection, Runtime, Worker, DefaultLogger } = require("@temporalio/worker");

const [, , address, namespace, taskQueue] = process.argv;
Runtime.install({ logger: new DefaultLogger("ERROR") });
const connection = await NativeConnection.connect({ address });
const activities = {
  greet: async (who) => ({ text: `Hello, ${who.name}`, times: who.times ?? 1 }),
  bytes: async (data) => Uint8Array.from(data, (byte) => byte + 1),
  nothing: async () => undefined,
  breaks: async () => {
    throw ApplicationFailure.create({
      type: "Broken",
      message: "it broke",
      nonRetryable: true,
      details: [{ part: "wheel" }],
      cause: new RangeError("too far"),
    });
  },
};
const workflowsPath = fileURLToPath(new URL("./officialWorkflows.mjs", import.meta.url));
const worker = await Worker.create({ connection, namespace, taskQueue, workflowsPath, activities });
const running = worker.run();
process.send("ready");
process.once("message", () => worker.shutdown());
await running;
await connection.close();
process.disconnect();
