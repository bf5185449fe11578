// The server of `holdfast dev`, which may get another configuration while pages are open.
// Owns: the engine, the console and the port.
// Invariants: what is new is open before what is old is closed, so that a configuration that can't be used changes nothing. The port stays
// unless the configuration names another: open pages reconnect.

import { Holdfast } from "holdfast";
import type { CodeHost } from "../../api/context.ts";
import type { Settings } from "../../config/settings.ts";
import { type Console, createConsole, type Listening } from "../../server/index.ts";
import { listenAs, type ServerPlan } from "./server.ts";

interface Opened {
  readonly engine: Holdfast;
  readonly console: Console;
  readonly plan: ServerPlan;
}

export class DevServer {
  readonly #code: CodeHost;
  #opened: Opened;
  #listening: Listening | undefined;

  private constructor(code: CodeHost, opened: Opened) {
    this.#code = code;
    this.#opened = opened;
  }
  /** Opens the store. */
  static async open(settings: Settings, plan: ServerPlan, code: CodeHost): Promise<DevServer> {
    return new DevServer(code, await opened(settings, plan, code));
  }
  get plan(): ServerPlan {
    return this.#opened.plan;
  }
  /** The address of the page, without a token. */
  async listen(): Promise<string> {
    this.#listening ??= await this.#listen(this.plan);
    return this.#listening.url;
  }
  /** Each request goes to the console of the moment. */
  #listen(plan: ServerPlan): Promise<Listening> {
    return listenAs({ fetch: (request) => this.#opened.console.fetch(request), close: async () => {} }, plan);
  }

  /** Goes on with another configuration. If that can't be, everything stays as it is, and the error says why. */
  async replace(settings: Settings, plan: ServerPlan): Promise<void> {
    const next = await opened(settings, plan, this.#code);
    const before = this.#opened;
    const listening = this.#listening;
    try {
      if (!this.#isReached(plan)) this.#listening = await this.#listen(plan);
    } catch (error) {
      await closed(next);
      throw error;
    }
    this.#opened = next;
    if (this.#listening !== listening) await listening?.close();
    await closed(before); // its streams end, and pages open them again
  }
  #isReached({ host, port }: ServerPlan): boolean {
    const { plan } = this.#opened;
    return host === plan.host && (port === plan.port || port === this.#listening?.port);
  }
  /** Ends the connections of pages, and accepts no others. */
  async stop(): Promise<void> {
    await this.#opened.console.close();
    await this.#listening?.close();
  }
  async close(): Promise<void> {
    await this.#opened.engine.close();
  }
}

async function opened({ url, codec, namespace }: Settings, plan: ServerPlan, code: CodeHost): Promise<Opened> {
  const engine = await Holdfast.open(url, { ...(codec !== undefined && { codec }), ...(namespace !== undefined && { namespace }) });
  return { engine, console: createConsole(engine, { ...plan.options, code }), plan };
}
async function closed({ console, engine }: Opened): Promise<void> {
  await console.close();
  await engine.close();
}
