// A separate server, which its supervisor starts and ends.
// Owns: the supervisor's process.
// Invariants: it does not keep this process alive, and does not outlive it.

import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}
type Order = "create" | "start" | "kill" | "stop";

export class Supervised {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  #orders = 0;
  #url = "";

  private constructor(options: { durable: boolean; settings: Record<string, string> }) {
    const script = fileURLToPath(new URL("./supervisor.mjs", import.meta.url));
    // In a separate process group: an interrupt at the terminal reaches only this process, and the supervisor notices its end.
    const child = spawn(process.execPath, [script, JSON.stringify(options)], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      detached: true,
    });
    this.#process = child;
    child.on("message", (answer: Answer) => this.#hear(answer));
    child.once("error", (error) => this.#fail(error));
    child.once("exit", (code, signal) => this.#fail(new Error(`The supervisor of PostgreSQL ended with ${code ?? signal}.`)));
    child.unref();
    child.channel?.unref();
  }
  static async start(options: { durable: boolean; settings: Record<string, string> }): Promise<Supervised> {
    const server = new Supervised(options);
    try {
      await server.#create();
    } catch (cause) {
      server.#process.disconnect();
      throw new Error(`PostgreSQL for the tests could not be started.\n${(cause as Error).message}`, { cause });
    }
    return server;
  }
  get url(): string {
    return this.#url;
  }
  async #create(): Promise<void> {
    this.#url = String(await this.#order("create"));
  }
  async start(): Promise<void> {
    await this.#order("start");
  }
  async kill(): Promise<void> {
    await this.#order("kill");
  }
  async stop(): Promise<void> {
    if (!this.#process.connected) return;
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.ref();
    await this.#order("stop");
    this.#process.disconnect();
    await ended;
  }

  #order(order: Order): Promise<unknown> {
    const id = ++this.#orders;
    return new Promise((resolve, reject) => {
      if (!this.#process.connected) return reject(new Error("The supervisor of PostgreSQL has ended."));
      this.#waiting.set(id, { resolve, reject });
      this.#process.channel?.ref();
      this.#process.send({ id, order });
    });
  }
  #hear({ id, value, error }: Answer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#process.channel?.unref();
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(new Error(error));
  }
  #fail(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
