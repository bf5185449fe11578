// One Temporal development server: its process, its port.
// Owns: the flags that it is started with; what it has said last.
// Invariants: it listens on 127.0.0.1 alone; it does not keep this process alive, and does not outlive it.

import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { whyNotReady } from "./probe.ts";

export interface DevServerOptions {
  readonly namespace: string;
  /** The file that holds everything; undefined keeps it in memory. */
  readonly file: string | undefined;
  /** Name → type: "Keyword", "Int" … */
  readonly searchAttributes: Readonly<Record<string, string>>;
  /** Dynamic configuration besides that of `SETTINGS`, as JSON values. */
  readonly settings: Readonly<Record<string, unknown>>;
}

/**
 * A development server dispatches 20 tasks a second, and its timers have a grain of one second. With these: 600 a second, 20 ms. One
 * partition of each queue, because with four a task waits for two seconds now and then.
 */
const SETTINGS: Readonly<Record<string, unknown>> = {
  "history.transferProcessorMaxPollRPS": 200,
  "history.timerProcessorMaxPollRPS": 200,
  "history.timerProcessorMaxTimeShift": "20ms",
  "matching.numTaskqueueReadPartitions": 1,
  "matching.numTaskqueueWritePartitions": 1,
};
/** It takes half a second on an idle machine. */
const PATIENCE = 60_000;
const LOOK_EVERY = 25;
const IN_USE = "address already in use";

export class DevServer {
  readonly #program: string;
  readonly #options: DevServerOptions;
  #port = 0;
  #guard: ChildProcess | undefined;
  /** The end of what it has said. */
  #said = "";

  private constructor(program: string, options: DevServerOptions) {
    this.#program = program;
    this.#options = options;
  }
  static async start(program: string, options: DevServerOptions): Promise<DevServer> {
    const server = new DevServer(program, options);
    await server.#findPort();
    return server;
  }
  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }
  async #findPort(): Promise<void> {
    for (let tries = 0; ; tries++) {
      this.#port = await freePort();
      try {
        return await this.start();
      } catch (error) {
        if (tries === 5 || !this.#said.includes(IN_USE)) throw error;
      }
    }
  }
  /** On the same port, and with what the file holds. */
  async start(): Promise<void> {
    if (this.#guard !== undefined) return;
    this.#said = "";
    const guard = this.#launch();
    let how: unknown;
    guard.once("exit", (code, signal) => {
      how = code ?? signal;
      if (this.#guard === guard) this.#guard = undefined;
    });
    const end = Date.now() + PATIENCE;
    for (;;) {
      const why = await whyNotReady(this.address, this.#options.namespace);
      if (how !== undefined) throw new Error(`The Temporal server ended with ${how}. It said:\n${this.#said.trim()}`);
      if (why === undefined) return;
      if (Date.now() > end) {
        await this.kill();
        throw new Error(`The Temporal server was not ready after ${PATIENCE / 1_000} s: ${why}\n${this.#said.trim()}`);
      }
      await pause(LOOK_EVERY);
    }
  }
  /** As if the power of its process had been cut. */
  async kill(): Promise<void> {
    const guard = this.#guard;
    if (guard === undefined) return;
    const ended = new Promise((resolve) => guard.once("exit", resolve));
    guard.ref();
    guard.disconnect();
    await ended;
  }

  #launch(): ChildProcess {
    const { namespace, file, searchAttributes, settings } = this.#options;
    const args = ["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", String(this.#port), "--log-level", "error"];
    args.push("--namespace", namespace);
    if (file !== undefined) args.push("--db-filename", file);
    for (const [name, type] of Object.entries(searchAttributes)) args.push("--search-attribute", `${name}=${type}`);
    for (const [name, value] of Object.entries({ ...SETTINGS, ...settings }))
      args.push("--dynamic-config-value", `${name}=${JSON.stringify(value)}`);
    const script = fileURLToPath(new URL("./guard.mjs", import.meta.url));
    // In a process group of its own: an interrupt at the terminal is for us, and the guard sees us go.
    const guard = spawn(process.execPath, [script, this.#program, ...args], { stdio: ["ignore", "pipe", "pipe", "ipc"], detached: true });
    this.#guard = guard;
    for (const stream of [guard.stdout, guard.stderr]) {
      stream?.setEncoding("utf8").on("data", (chunk: string) => {
        this.#said = (this.#said + chunk).slice(-8_000);
      });
      unref(stream);
    }
    guard.unref();
    guard.channel?.unref();
    return guard;
  }
}
/** The pipe of a child keeps this process alive, though its type does not say that it can be told not to. */
function unref(stream: unknown): void {
  (stream as { unref?(): void } | null)?.unref?.();
}

/**
 * A port that no process has, below those that outgoing connections are given: a client that tries again and again while the server is
 * down would otherwise connect to itself one day.
 */
async function freePort(): Promise<number> {
  for (let tries = 0; ; tries++) {
    const port = randomInt(12_000, 32_000);
    const server = createServer();
    const isFree = await new Promise((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
    if (tries === 100) throw new Error("There is no free port between 12000 and 32000.");
  }
}
