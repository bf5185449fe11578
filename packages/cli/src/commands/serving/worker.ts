// `holdfast worker`: a worker as a process of its own.
// Owns: the process with the code, and the health port.
// Invariants: SIGTERM lets running steps end, then 0; if the process with the code ends by itself, so does this one, with 1.

import { createServer } from "node:http";
import { loadRequest } from "../../code/codeHost.ts";
import { Entries } from "../../code/entries.ts";
import { type CodeProcess, endText } from "../../code/process.ts";
import { startCode } from "../../code/replayPool.ts";
import type { WorkerConfig } from "../../config/index.ts";
import { printableUrl } from "../../config/url.ts";
import { printable } from "../../terminal/escape.ts";
import { numberOption } from "../arguments.ts";
import { CommandFailure, EXIT } from "../failures.ts";
import type { Session } from "../session.ts";
import { asked, needsStore } from "./ending.ts";

interface WorkerFlags {
  readonly queue?: string;
  readonly concurrency?: string;
  readonly healthPort?: string;
}

export async function runWorker(session: Session, _: readonly [], flags: WorkerFlags): Promise<number> {
  const concurrency = flags.concurrency === undefined ? undefined : numberOption("--concurrency", flags.concurrency, { least: 1 });
  const port = flags.healthPort === undefined ? undefined : numberOption("--health-port", flags.healthPort, { least: 0, most: 65_535 });
  const { io } = session;
  const settings = await session.settings();
  needsStore("worker", settings.url);
  const workers = workersOf(settings.workers, flags.queue, concurrency);
  const files = new Entries(settings).required();
  const ended = asked(io.signal);
  const begun = await Promise.race([startCode(loadRequest(settings, files, io.cwd), io.signal), ended]);
  if (typeof begun === "number") return begun;
  const { process: code, loaded } = begun;
  const health =
    port === undefined
      ? undefined
      : await serveHealth(code, port).catch((error: unknown) => {
          code.kill();
          throw error;
        });
  try {
    await Promise.race([code.call("work", { workers }), ended]);
    const { workflows } = loaded;
    const queues = workers.map(({ queue = "default" }) => queue).join(", ");
    if (session.globals.output === "jsonl" || session.globals.output === "json")
      session.line({ event: "ready", workflows, store: printableUrl(settings.url), pid: process.pid, healthPort: health?.port ?? null });
    else
      session.note(
        `Serving ${workflows.map(printable).join(", ")} (queue ${printable(queues)}) from ${printable(printableUrl(settings.url))}.`,
      );
    const outcome = await Promise.race([ended, code.ended]);
    if (typeof outcome === "number") {
      session.note("Stopping: running steps may end …");
      await code.retire();
      return outcome;
    }
    throw new CommandFailure({
      code: "HF_CODE",
      status: 500,
      title: "The worker has ended",
      detail: `The process with the code has ended (${endText(outcome)}).`,
      advice: "Its log says why. What it was doing is taken over when its leases expire.",
      exitCode: EXIT.failed,
    });
  } catch (error) {
    if (code.isAlive) await code.retire();
    throw error;
  } finally {
    await health?.close();
  }
}

/** Flags win over the configuration. A queue that the configuration names keeps its other settings. */
function workersOf(configured: readonly WorkerConfig[], queue: string | undefined, concurrency: number | undefined): WorkerConfig[] {
  const wanted = queue === undefined ? configured : [configured.find((one) => (one.queue ?? "default") === queue) ?? { queue }];
  return wanted.map((one) => ({ ...one, ...(concurrency !== undefined && { concurrency }) }));
}

/** Milliseconds that the process with the code has to answer: one that is stuck is not healthy. */
const PATIENCE = 2_000;

async function serveHealth(code: CodeProcess, port: number): Promise<{ readonly port: number; close(): Promise<void> }> {
  const isClaiming = async (): Promise<boolean> => {
    const { promise: late, resolve: giveUp } = withResolver<boolean>();
    const timer = setTimeout(() => giveUp(false), PATIENCE);
    const answer = await Promise.race([code.call("ping", undefined).catch(() => false), late]);
    clearTimeout(timer);
    return answer;
  };
  const server = createServer((request, response) => {
    const isKnown = request.url === "/" || request.url?.startsWith("/?") === true;
    if (!isKnown || (request.method !== "GET" && request.method !== "HEAD")) {
      response.writeHead(isKnown ? 405 : 404).end();
      return;
    }
    void isClaiming().then((claims) => {
      response.writeHead(claims ? 200 : 503, { "content-type": "application/json", "cache-control": "no-store" });
      response.end(`${JSON.stringify({ claiming: claims })}\n`);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(portFailure(port, error)));
    server.listen(port, resolve);
  });
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
function withResolver<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
function portFailure(port: number, error: NodeJS.ErrnoException): CommandFailure {
  const why = error.code === "EADDRINUSE" ? "is taken" : `can't be used: ${error.code ?? error.message}`;
  return new CommandFailure({
    code: "HF_PORT_TAKEN",
    status: 503,
    title: "The port is taken",
    detail: `Port ${port} ${why}.`,
    advice: "Choose another --health-port.",
    exitCode: EXIT.failed,
  });
}
