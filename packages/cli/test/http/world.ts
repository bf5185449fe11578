// An engine with workflows that do a bit of everything, and a console over it.
// Owns: what it opens; all of it is closed after the tests of the file.
// Invariants: the same on every store; a secret is in every place where a value can be.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer, type TestServer } from "@holdfast/postgres-server";
import { FatalError, Holdfast, Receive, signal, update, workflow } from "holdfast";
import { afterAll, beforeAll } from "vitest";
import * as z from "zod";
import { type Console, type ConsoleInternals, type ConsoleOptions, createConsole, hashToken } from "../../src/server/index.ts";

export const STORES = ["memory", "sqlite", "postgres"] as const;
export type StoreName = (typeof STORES)[number];
/** Never to be seen without `values`. */
export const SECRET = "s3cr3t-value";

const order = workflow(
  {
    name: "order",
    version: "2",
    input: z.object({ n: z.number(), note: z.string().optional() }),
    signals: { approve: signal(z.object({ by: z.string() })) },
    updates: { add: update(z.object({ n: z.number() })) },
    queries: { total: (state: { total: number }, plus?: number) => state.total + (plus ?? 0) },
  },
  async (ctx, input) => {
    const charged = await ctx.step("charge", async () => ({ amount: input.n, note: SECRET }));
    ctx.publishState({ total: charged.amount, note: SECRET });
    let total = charged.amount;
    await ctx.receive(0, {
      signals: { approve: (_payload, state) => Receive.stop(state) },
      updates: {
        add: ({ n }, state, inner) => {
          total += n;
          inner.publishState({ total, note: SECRET });
          return Receive.reply({ total, note: SECRET } as never, state);
        },
      },
    });
    return { total, note: SECRET };
  },
);
const waiting = workflow("waiting", async (ctx, _input: unknown) => {
  await ctx.waitForSignal("go");
  return { went: true };
});
const failing = workflow("failing", async (ctx, input: unknown) => {
  await ctx.step("break", async () => {
    throw new FatalError(`${SECRET} is broken`, { data: { input }, cause: new Error(`${SECRET} caused it`) });
  });
});
const retrying = workflow("retrying", async (ctx, _input: unknown) => {
  await ctx.step(
    "again",
    async () => {
      throw new Error(`${SECRET} again`);
    },
    { retry: { maxAttempts: 5, initialInterval: "1h" } },
  );
});
/** Breaks a rule, so that it is blocked. */
const blocked = workflow("blocked", async (_ctx, _input: unknown) => {
  await new Promise((resolve) => setTimeout(resolve, 1));
});
const parent = workflow("parent", async (ctx, _input: unknown) => ctx.child(waiting, { of: "parent" }));
const echo = workflow("echo", async (_ctx, input: unknown) => input);
/** Its input may be left out. */
const maybe = workflow({ name: "maybe", input: z.object({ n: z.number() }).optional() }, async (_ctx, input) => input?.n ?? "nothing");

export interface World {
  readonly engine: Holdfast;
  readonly console: Console;
  readonly tokens: typeof TOKENS;
  /** One request; the path is below `/api/v1/`. */
  ask(method: string, path: string, options?: AskOptions): Promise<Response>;
}
export interface AskOptions {
  readonly token?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}
export const TOKENS = {
  admin: "token-of-the-admin",
  operator: "token-of-the-operator",
  reader: "token-of-the-reader",
  /** Without values. */
  blind: "token-of-the-blind-admin",
};
export const TOKEN_ENTRIES = [
  { name: "admin", hash: hashToken(TOKENS.admin), role: "admin" as const, values: true },
  { name: "operator", hash: hashToken(TOKENS.operator), role: "operate" as const, values: true },
  { name: "reader", hash: hashToken(TOKENS.reader), role: "read" as const, values: true },
  { name: "blind", hash: hashToken(TOKENS.blind), role: "admin" as const },
];
const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

/** One engine with a worker for all tests of this `describe`. */
export function worldOn(store: StoreName, options: ConsoleOptions = {}, internals: ConsoleInternals = {}): World {
  let server: TestServer | undefined;
  let folder: string | undefined;
  let engine: Holdfast | undefined;
  let console: Console | undefined;

  beforeAll(async () => {
    if (store === "postgres") server = await startServer();
    if (store === "sqlite") folder = mkdtempSync(join(tmpdir(), "holdfast-console-"));
    const url = (await server?.createDatabase()) ?? (folder === undefined ? "memory:" : `file:${join(folder, "app.db")}`);
    engine = await Holdfast.open(url, { logger: QUIET });
    await engine.worker({ workflows: [order, waiting, failing, retrying, blocked, parent, echo, maybe], determinism: "off" });
    console = createConsole(engine, { tokens: TOKEN_ENTRIES, ...options }, internals);
  });
  afterAll(async () => {
    await console?.close();
    await engine?.close();
    await server?.stop();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  });
  return {
    get engine() {
      return opened(engine);
    },
    get console() {
      return opened(console);
    },
    tokens: TOKENS,
    ask: (method, path, asked) => ask(opened(console).fetch, `http://localhost/api/v1/${path}`, { ...asked, method }),
  };
}
function opened<T>(it: T | undefined): T {
  if (it === undefined) throw new Error("The world is not open yet.");
  return it;
}

export function ask(
  fetch: Console["fetch"],
  url: string,
  { method = "GET", token = TOKENS.admin, body, headers = {} }: AskOptions & { readonly method?: string } = {},
): Promise<Response> {
  const all = { ...headers, ...(token !== "" && { authorization: `Bearer ${token}` }) };
  return fetch(new Request(url, { method, headers: all, ...(body !== undefined && { body: JSON.stringify(body) }) }));
}
