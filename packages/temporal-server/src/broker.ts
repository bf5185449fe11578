// One server for all processes of a test run, started when the first of them asks.
// Owns: the port at which they ask.
// Invariants: if no process asks, nothing is started; the server ends with the broker.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";

/** Where to ask; processes that are started later inherit it. */
const VARIABLE = "HOLDFAST_TEST_TEMPORAL_BROKER";

/** What a broker answers: where the server is, or why there is none. */
export interface Answer {
  readonly address?: string;
  readonly missing?: string;
  readonly error?: string;
}
interface Shared {
  readonly answer: Answer;
  stop(): Promise<void>;
}

export class Broker {
  readonly #server: Server;
  #shared: Promise<Shared> | undefined;

  constructor(start: () => Promise<Shared>) {
    this.#server = createServer(async (socket) => {
      socket.on("error", () => {});
      this.#shared ??= start();
      const { answer } = await this.#shared.catch((error: Error) => ({ answer: { error: error.message } }));
      socket.end(JSON.stringify(answer));
    });
  }
  async open(): Promise<void> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    this.#server.unref();
    process.env[VARIABLE] = String((this.#server.address() as AddressInfo).port);
  }
  async close(): Promise<void> {
    delete process.env[VARIABLE];
    this.#server.close();
    const shared = await this.#shared?.catch(() => undefined);
    await shared?.stop();
  }
}

/** What the broker of this test run says; undefined outside of a test run. */
export async function askBroker(): Promise<Answer | undefined> {
  const port = process.env[VARIABLE];
  if (port === undefined) return undefined;
  let text = "";
  for await (const chunk of connect(Number(port), "127.0.0.1").setEncoding("utf8")) text += chunk;
  return JSON.parse(text);
}
