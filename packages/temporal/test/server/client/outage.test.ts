// A server that is killed and comes back: callers that wait continue to wait, other calls fail with a code.

import { randomUUID } from "node:crypto";
import { jsonCodec, type Logger } from "@holdfast/core";
import { needTemporalServer } from "@holdfast/temporal-server";
import { Holdfast, workflow } from "holdfast";
import { expect, test } from "vitest";
import { Connection } from "../../../src/bridge.ts";
import { TemporalClient } from "../../../src/client/client.ts";
import { PayloadCodecs } from "../../../src/payloadCodecs.ts";
import { Payloads } from "../../../src/payloads.ts";
import { signalOf, startOf, updateOf } from "../scripted.ts";

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

test("M10 D9: waits for results and updates outlast an outage of the server", async () => {
  const server = await needTemporalServer({ own: true, file: true });
  const { address, namespace } = server;
  const connection = await Connection.open({
    address,
    namespace,
    logger: silent,
    tls: undefined,
    apiKey: undefined,
    payloadCodecs: new PayloadCodecs(),
  });
  const client = new TemporalClient({
    connection,
    payloads: new Payloads(jsonCodec),
    codec: jsonCodec,
    logger: silent,
    queue: "no-worker",
    identity: "test",
    searchAttributes: new Map(),
  });
  const runId = randomUUID();
  await client.create([startOf(runId, "idle")]);
  await client.send({ runId, workflow: undefined, message: signalOf("before") });
  const result = client.ended(runId, {});
  const update = client.update({ runId, workflow: undefined, message: updateOf("u") }, {});
  await server.kill9();
  await expect(client.ended(runId, { timeout: 100 })).rejects.toMatchObject({ code: "HF_WAIT_TIMEOUT" });
  await server.restart();
  expect(await client.get([runId])).toMatchObject([{ status: "pending", historyLength: 3 }]);
  await client.terminate(runId, "over");
  expect(await result).toMatchObject({ status: "terminated", error: { data: { reason: "over" } } });
  expect(await update).toEqual({ status: "closed", runStatus: "terminated" });
  client.close();
  connection.close();
  await server.stop();
}, 120_000);

test("a worker does not start while the server is down, whatever this engine has asked it before", async () => {
  const server = await needTemporalServer({ own: true, file: true });
  const greet = workflow("greet", async (ctx) => ctx.step("greeting", () => "hello"));
  const holdfast = await Holdfast.open(server.url("first"), { logger: silent });
  await holdfast.worker({ workflows: [greet] });
  await server.kill9();
  const down = { code: "HF_TEMPORAL_UNAVAILABLE", retryable: true };
  await expect(holdfast.worker({ workflows: [greet], queue: "second" })).rejects.toMatchObject(down);
  await server.restart();
  // The queue is free again, and the worker that was there before goes on.
  await holdfast.worker({ workflows: [greet], queue: "second" });
  const runs = await Promise.all(["default", "second"].map((queue) => holdfast.start(greet, undefined, { queue })));
  expect(await Promise.all(runs.map((run) => run.result()))).toEqual(["hello", "hello"]);
  await holdfast.close();
  await server.stop();
}, 120_000);
