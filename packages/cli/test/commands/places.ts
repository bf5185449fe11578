// The places that commands work on: a file, a Postgres database, and an engine in memory behind a console.
// Owns: an engine with a worker on each, and the options that lead a command there.
// Invariants: every test file has its own; all of it is closed after it.

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { startServer, type TestServer } from "@holdfast/postgres-server";
import { Holdfast, signal, update, workflow } from "holdfast";
import { afterAll, beforeAll } from "vitest";
import * as z from "zod";
import { createConsole, toNode } from "../../src/server/index.ts";
import { type Done, type Given, holdfast, newFolder } from "./run.ts";

export type PlaceName = "sqlite" | "postgres" | "http";
export const PLACES: readonly PlaceName[] = ["sqlite", "postgres", "http"];
export const TOKEN = "hf_test-token";

export interface Place {
  engine(): Holdfast;
  /** The options that name it. */
  url(): readonly string[];
  readonly cwd: string;
  call(...args: string[]): Promise<Done>;
  callWith(given: Given, ...args: string[]): Promise<Done>;
}

export function placeOf(name: PlaceName, options: { readonly worker?: boolean } = {}): Place {
  let engine: Holdfast | undefined;
  let url: readonly string[] = [];
  let server: TestServer | undefined;
  const closing: (() => Promise<unknown>)[] = [];
  const cwd = newFolder();
  beforeAll(async () => {
    if (name === "sqlite") url = ["--url", `file:${join(cwd, "app.db")}`];
    if (name === "postgres") {
      server = await startServer();
      url = ["--url", await server.createDatabase()];
    }
    engine = await Holdfast.open(name === "http" ? "memory:" : url[1]);
    if (name === "http") {
      const console = createConsole(engine, {
        tokens: [{ name: "test", hash: `sha256:${createHash("sha256").update(TOKEN).digest("hex")}`, role: "admin", values: true }],
      });
      const listener = createServer(toNode(console.fetch));
      await new Promise<void>((listening) => listener.listen(0, "127.0.0.1", listening));
      url = ["--url", `http://127.0.0.1:${(listener.address() as AddressInfo).port}/`, "--token", TOKEN];
      closing.push(async () => {
        await console.close();
        listener.closeAllConnections();
        listener.close();
      });
    }
    if (options.worker !== false) await engine.worker({ workflows });
  });
  afterAll(async () => {
    for (const close of closing) await close();
    await engine?.close();
    await server?.stop();
  });
  const callWith = (given: Given, ...args: string[]): Promise<Done> => holdfast([...args, ...url], { cwd, ...given });
  return {
    engine: () => {
      if (engine === undefined) throw new Error("The place is not open yet.");
      return engine;
    },
    url: () => url,
    cwd,
    call: (...args) => callWith({}, ...args),
    callWith,
  };
}

// ── workflows ──

const order = workflow(
  {
    name: "order",
    version: "2",
    input: z.object({ amount: z.number() }),
    signals: { approve: signal(z.object({ by: z.string() })) },
    updates: { add: update<{ n: number }, number>(z.object({ n: z.number() })) },
    queries: { total: (state: { total: number }) => state.total },
  },
  async (ctx, input) => {
    ctx.publishState({ total: input.amount });
    await ctx.step("charge", () => `charged ${input.amount}`);
    const { by } = await ctx.waitForSignal("approve");
    return { by, amount: input.amount };
  },
);
const cart = workflow(
  { name: "cart", signals: { close: signal() }, updates: { add: update<{ n: number }, number>(z.object({ n: z.number() })) } },
  async (ctx) => {
    const { state } = await ctx.receive(0, {
      signals: { close: (_payload, sum) => ({ result: "stop", state: sum }) },
      updates: {
        add: {
          validate: ({ n }) => {
            if (n < 0) throw new Error("only more");
          },
          handle: ({ n }, sum) => ({ result: "reply", value: sum + n, state: sum + n }),
        },
      },
    });
    return state;
  },
);
const echo = workflow("echo", async (_ctx, input: unknown) => input ?? null);
const fails = workflow("fails", async (ctx) => {
  await ctx.step("first", () => "fine");
  await ctx.step("breaks", () => Promise.reject(new Error("no \u001b[31mluck\u202e")), { retry: { maxAttempts: 2, initialInterval: 1 } });
});
const waits = workflow("waits", async (ctx) => {
  await ctx.waitForSignal("go");
  return "went";
});
const parent = workflow("parent", async (ctx) => ctx.child(echo, "from parent"));
export const workflows = { order, cart, echo, fails, waits, parent };
