// One server for all processes of a test run, started when the first of them asks.
// Owns: the socket at which they ask.
// Invariants: no server is started until a process asks for it; the server ends with the broker.

import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Supervised } from "./supervised.ts";

/** Where to ask; processes that are started later inherit it. */
const VARIABLE = "HOLDFAST_TEST_POSTGRES_BROKER";

interface Reply {
  readonly url?: string;
  readonly error?: string;
}

export class Broker {
  readonly #folder = mkdtempSync(join(tmpdir(), "holdfast-broker-"));
  readonly #server: Server = createServer((socket) => void this.#answer(socket));
  #starting: Promise<Supervised> | undefined;

  async open(): Promise<void> {
    const path = process.platform === "win32" ? `\\\\.\\pipe\\holdfast-broker-${process.pid}` : join(this.#folder, "ask");
    await new Promise<void>((resolve, reject) => this.#server.once("error", reject).listen(path, resolve));
    this.#server.unref();
    process.env[VARIABLE] = path;
  }
  async close(): Promise<void> {
    delete process.env[VARIABLE];
    await new Promise((resolve) => this.#server.close(resolve));
    const server = await this.#starting?.catch(() => undefined);
    await server?.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
  async #answer(socket: Socket): Promise<void> {
    socket.on("error", () => {});
    const reply = await this.#reply();
    socket.end(JSON.stringify(reply));
  }
  async #reply(): Promise<Reply> {
    this.#starting ??= Supervised.start({ durable: false, settings: {} });
    try {
      return { url: (await this.#starting).url };
    } catch (error) {
      return { error: (error as Error).message };
    }
  }
}

/** The url of the server that this test run shares; undefined outside of a test run. */
export async function sharedUrl(): Promise<string | undefined> {
  const path = process.env[VARIABLE];
  if (path === undefined) return undefined;
  let text = "";
  for await (const chunk of connect(path).setEncoding("utf8")) text += chunk;
  const { url, error }: Reply = JSON.parse(text);
  if (error !== undefined) throw new Error(error);
  return url;
}
