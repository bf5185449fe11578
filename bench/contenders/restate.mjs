// Restate: its server, started on 127.0.0.1 with a new folder and killed at the end, and its SDK in this process. Calls go through its
// ingress, like those of a client.

import { spawn } from "node:child_process";
import { createServer } from "node:http2";
import { createRequire } from "node:module";
import { createServer as createSocket } from "node:net";
import { dirname, join } from "node:path";
import { createEndpointHandler, object, RestatePromise, service, workflow } from "@restatedev/restate-sdk";
import { connect } from "@restatedev/restate-sdk-clients";
import { byCallers, until } from "../statistics.mjs";

const CONCURRENCY = 100;
/** How long a waiting invocation is kept in memory: by default, and to have it evicted before it is signalled. */
const KEPT = 60_000;
const EVICTED = 50;

/** The server that npm installed for this platform. */
export function serverBinary() {
  const require = createRequire(import.meta.url);
  return join(
    dirname(require.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/package.json`)),
    "bin",
    "restate-server",
  );
}

async function freePort() {
  const socket = createSocket();
  await new Promise((resolve) => socket.listen(0, "127.0.0.1", resolve));
  const { port } = socket.address();
  await new Promise((resolve) => socket.close(resolve));
  return port;
}

async function startServer(folder) {
  const [ingress, admin, node] = [await freePort(), await freePort(), await freePort()];
  const child = spawn(serverBinary(), ["--no-logo", "--listen-mode", "tcp", "--base-dir", join(folder, "restate")], {
    stdio: "ignore",
    env: {
      ...process.env,
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_DISABLE_TELEMETRY: "true",
    },
  });
  const answers = async (url) => (await fetch(url).catch(() => undefined))?.ok === true;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`restate-server exited with code ${child.exitCode}.`);
    return (await answers(`http://127.0.0.1:${admin}/health`)) && (await answers(`http://127.0.0.1:${ingress}/restate/health`));
  }, 50);
  return {
    ingress: `http://127.0.0.1:${ingress}`,
    admin: `http://127.0.0.1:${admin}`,
    async stop() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await ended;
    },
  };
}

const long = { entered: 0, seen: () => {} };
let begun = 0;

const runs = service({
  name: "runs",
  handlers: {
    five: async (ctx, input) => {
      for (let i = 0; i < 5; i++) await ctx.run(`step-${i}`, async () => ({ ok: true, i, input }));
      return { done: true };
    },
    one: async (ctx) => ctx.run("only", async () => ({ ok: true })),
    chain: async (ctx, steps) => {
      for (let i = 0; i < steps; i++) await ctx.run("work", async () => ({ ok: true, i }));
      return steps;
    },
    wide: async (ctx, width) => {
      const steps = Array.from({ length: width }, (_, i) => ctx.run(`wide-${i}`, async () => ({ ok: true, i })));
      return (await RestatePromise.all(steps)).length;
    },
    parent: async (ctx, children) => {
      const calls = Array.from({ length: children }, () => ctx.serviceClient(runs).one());
      return (await RestatePromise.all(calls)).length;
    },
  },
});
const patientFor = (name, inactivityTimeout) =>
  workflow({
    name,
    handlers: {
      run: async (ctx, steps) => {
        long.entered++;
        for (let i = 0; i < steps; i++) await ctx.run("work", async () => ({ ok: true, i }));
        for (let i = 0; ; i++) {
          begun++;
          await ctx.promise(`go-${i}`);
          await ctx.run("next", async () => ({ ok: true }));
          await ctx.run("seen", async () => long.seen());
        }
      },
      go: async (ctx, i) => ctx.promise(`go-${i}`).resolve({ ok: true }),
    },
    options: { inactivityTimeout },
  });
const kept = patientFor("kept", KEPT);
const evictable = patientFor("evictable", EVICTED);
const parked = workflow({
  name: "parked",
  handlers: {
    run: async (ctx) => {
      await ctx.run("before", async () => ({ ok: true }));
      begun++;
      await ctx.promise("go");
      return ctx.run("after", async () => ({ ok: true }));
    },
    go: async (ctx) => ctx.promise("go").resolve({ ok: true }),
  },
  options: { inactivityTimeout: EVICTED },
});
const entity = object({
  name: "entity",
  handlers: {
    add: async (ctx, amount) => {
      const total = ((await ctx.get("total")) ?? 0) + amount;
      ctx.set("total", total);
      return total;
    },
  },
});

/** A failing handler is retried forever, and its log is the only sign of that, so an error ends the process. Suspensions are not failures. */
function logger({ level }, ...message) {
  if (level !== "error" || /abort|destroyed/.test(message.join(" "))) return;
  console.error(`Error: ${message.join(" ")}`);
  process.exit(1);
}

export async function open({ folder }) {
  const server = await startServer(folder);
  const http = createServer(createEndpointHandler({ services: [runs, kept, evictable, parked, entity], logger }));
  const port = await freePort();
  await new Promise((resolve) => http.listen(port, "127.0.0.1", resolve));
  const answer = await fetch(`${server.admin}/deployments`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ uri: `http://127.0.0.1:${port}` }),
  });
  if (!answer.ok) throw new Error(`Restate refused the deployment: ${await answer.text()}`);
  const client = connect({ url: server.ingress });
  const call = client.serviceClient(runs);
  /** How many of the evictable runs are evicted, according to the server. */
  async function suspended() {
    const query = "SELECT count(*) AS runs FROM sys_invocation WHERE target_service_name = 'evictable' AND status = 'suspended'";
    const reply = await fetch(`${server.admin}/query`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ query }),
    });
    return (await reply.json()).rows[0].runs;
  }

  return {
    throughput: (count) => byCallers(CONCURRENCY, count, (i) => call.five({ i })),
    latency: () => call.one(),
    depth: (steps) => call.chain(steps),
    width: (count) => call.wide(count),
    async longRun(steps, { evicted }) {
      const run = client.workflowClient(evicted ? evictable : kept, "long");
      begun = 0;
      await run.workflowSubmit(steps);
      await until(() => begun > 0);
      let next = 0;
      return async () => {
        if (evicted) await until(async () => (await suspended()) === 1, 20);
        const before = long.entered;
        const start = performance.now();
        const told = new Promise((resolve) => {
          long.seen = () => resolve(undefined);
        });
        await run.go(next++);
        await told;
        const ms = performance.now() - start;
        if (long.entered > before !== evicted) throw new Error(`The run was ${evicted ? "not " : ""}evicted.`);
        return ms;
      };
    },
    async crowd(from, count) {
      const before = begun;
      await byCallers(CONCURRENCY, count, (i) => client.workflowClient(parked, `parked-${from + i}`).workflowSubmit());
      await until(() => begun >= before + count);
    },
    async wake(numbers) {
      await byCallers(CONCURRENCY, numbers.length, async (i) => {
        const run = client.workflowClient(parked, `parked-${numbers[i]}`);
        await run.go();
        await run.workflowAttach();
      });
    },
    async entity() {
      const one = client.objectClient(entity, "one");
      return () => one.add(1);
    },
    async fanOut(children) {
      const done = await call.parent(children);
      if (done !== children) throw new Error(`${done} of ${children} children completed.`);
    },
    async close() {
      http.close();
      await server.stop();
    },
  };
}
