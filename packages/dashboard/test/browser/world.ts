// A console on a real engine, and a real browser that opens it.
// Owns: both, and everything that a test has to end.

import { fileURLToPath } from "node:url";
import { createConsole, hashToken, type Listening, listen } from "@holdfast/cli/server";
import { type AnyWorkflow, Holdfast, type Worker } from "holdfast";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { build } from "vite";

export const ADMIN = "admin-token";
export const READER = "reader-token";
/** A token that may see no values. */
export const BLIND = "blind-token";

const TOKENS = [
  { name: "admin", hash: hashToken(ADMIN), role: "admin", values: true },
  { name: "reader", hash: hashToken(READER), role: "read", values: true },
  { name: "blind", hash: hashToken(BLIND), role: "admin", values: false },
] as const;

/** Chromium as servers have it: as root, without a graphics card, with no calls to anywhere. */
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];

export async function openBrowser(): Promise<Browser> {
  const executablePath = process.env["HOLDFAST_CHROMIUM"] ?? "/usr/bin/chromium";
  return chromium.launch({ executablePath, args: ARGUMENTS });
}

/** The page, built from the sources as they are. */
export async function buildPage(folder: string): Promise<string> {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  await build({ root, configFile: `${root}vite.config.ts`, logLevel: "error", build: { outDir: folder, emptyOutDir: true } });
  return folder;
}

export interface World {
  readonly engine: Holdfast;
  readonly url: string;
  /** Opens a page with a token, in a tab of `context` or of a new one. */
  open(path: string, options?: OpenOptions): Promise<Page>;
  /** Starts another worker. */
  worker(workflows: readonly AnyWorkflow[]): Promise<Worker>;
  /** The server goes away, and comes back on the same port. */
  stopServer(): Promise<void>;
  startServer(): Promise<void>;
  close(): Promise<void>;
}
export interface OpenOptions {
  readonly token?: string | undefined;
  readonly context?: BrowserContext;
  readonly theme?: "light" | "dark";
  readonly width?: number;
}

/** What went wrong in a page: violations of the content security policy, errors, requests to other hosts. */
export const complaints: string[] = [];

export async function openWorld(
  browser: Browser,
  assets: string,
  options: { basePath?: string; workflows?: readonly AnyWorkflow[] } = {},
): Promise<World> {
  const { basePath = "/", workflows = [] } = options;
  const engine = await Holdfast.open("memory:");
  const workers: Worker[] = [];
  const serve = (port: number): Promise<Listening> => listen(createConsole(engine, { basePath, tokens: TOKENS }, { assets }), { port });
  let server = await serve(0);
  const worker: World["worker"] = async (served) => {
    const started = await engine.worker({ workflows: served });
    workers.push(started);
    return started;
  };
  if (workflows.length > 0) await worker(workflows);
  const port = String(server.port);
  return {
    engine,
    url: `http://127.0.0.1:${port}${basePath}`,
    worker,
    async open(path, { token = ADMIN, context: given, theme = "light", width = 1_280 } = {}) {
      const context = given ?? (await browser.newContext({ colorScheme: theme, viewport: { width, height: 800 } }));
      const page = await context.newPage();
      watch(page, port);
      const fragment = token === "" ? "" : `#token=${token}`;
      await page.goto(`http://127.0.0.1:${port}${basePath}${path}${fragment}`);
      return page;
    },
    stopServer: () => server.close(),
    async startServer() {
      server = await serve(Number(port));
    },
    async close() {
      for (const one of workers) await one.stop();
      await server.close();
      await engine.close();
    },
  };
}

function watch(page: Page, port: string): void {
  page.on("console", (message) => {
    const text = message.text();
    if (/content security policy/i.test(text)) complaints.push(text);
  });
  page.on("pageerror", (error) => complaints.push(error.stack ?? error.message));
  page.on("request", (request) => {
    const { hostname, port: to, protocol } = new URL(request.url());
    if (protocol !== "data:" && (hostname !== "127.0.0.1" || to !== port)) complaints.push(`A request to ${request.url()}`);
  });
}
