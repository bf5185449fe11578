// A real Temporal server to test with: `startTemporalServer`.
// Owns: the handle on a server; where one is looked for.
// Invariants: a server of TEMPORAL_ADDRESS is never started or ended by us; a file that the caller did not name is gone after `stop`.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { askBroker } from "./broker.ts";
import { DevServer } from "./devServer.ts";
import { whyNotReady } from "./probe.ts";
import { findProgram, provideProgram } from "./program.mjs";

export { Line, type LineOptions } from "./line.ts";
export { findProgram } from "./program.mjs";

export interface TemporalServer {
  /** "127.0.0.1:12345" */
  readonly address: string;
  readonly namespace: string;
  readonly missing?: undefined;
  /** For `Holdfast.open`. */
  url(queue: string): string;
  /** Ends the server at once, as a crash would. What is in memory is lost. Only of a server that was asked for with `own`. */
  kill9(): Promise<void>;
  /** Starts it again at the same address, killing it first if it runs. Only of a server that was asked for with `own`. */
  restart(): Promise<void>;
  /** Ends a server that was asked for with `own`, and removes its file; a shared one goes on. */
  stop(): Promise<void>;
}
export interface MissingServer {
  /** One line: what is missing, and how to get it. */
  readonly missing: string;
}
export interface TemporalServerOptions {
  /** A server that no other test uses: it can be killed. By default all of a test run share one. The other options imply it. */
  readonly own?: boolean;
  /** Keeps everything in a file, so that it outlives the server's process: a path, or true for a temporary one. */
  readonly file?: string | true;
  /** Registered at the start: name → type ("Keyword", "Int", "Double", "Bool", "Datetime", "Text"). */
  readonly searchAttributes?: Readonly<Record<string, string>>;
  /** Dynamic configuration, by name: "limit.historyCount.suggestContinueAsNew". */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** False: where only Go is installed, the server is missing. By default it is built, which takes minutes. */
  readonly build?: boolean;
}

/** What every development server has. */
const NAMESPACE = "default";

export async function startTemporalServer(options: TemporalServerOptions = {}): Promise<TemporalServer | MissingServer> {
  const { own, file, searchAttributes, settings } = options;
  if (own === true || file !== undefined || searchAttributes !== undefined || settings !== undefined) return startOwn(options);
  const address = process.env["TEMPORAL_ADDRESS"] || undefined;
  if (address !== undefined) return findNamed(address, process.env["TEMPORAL_NAMESPACE"] || NAMESPACE);
  const answer = await askBroker();
  if (answer === undefined) return startOwn(options);
  if (answer.error !== undefined) throw new Error(answer.error);
  return answer.address === undefined ? { missing: answer.missing ?? "" } : new Handle(answer.address, NAMESPACE);
}
/** The same, for those that can't go on without one. */
export async function needTemporalServer(options: TemporalServerOptions = {}): Promise<TemporalServer> {
  const server = await startTemporalServer(options);
  if (server.missing !== undefined) throw new Error(server.missing);
  return server;
}

async function findNamed(address: string, namespace: string): Promise<TemporalServer | MissingServer> {
  const why = await whyNotReady(address, namespace);
  return why === undefined
    ? new Handle(address, namespace)
    : { missing: `TEMPORAL_ADDRESS is ${address}, but the namespace ${namespace} is not ready there: ${why}` };
}

async function startOwn(options: TemporalServerOptions): Promise<TemporalServer | MissingServer> {
  const { program, missing } = options.build === false ? findProgram() : await provideProgram((line) => process.stderr.write(`${line}\n`));
  if (program === undefined) return { missing };
  const { file, searchAttributes = {}, settings = {} } = options;
  const folder = file === true ? mkdtempSync(join(tmpdir(), "holdfast-temporal-")) : undefined;
  const path = folder === undefined ? undefined : join(folder, "temporal.db");
  const server = await DevServer.start(program, { namespace: NAMESPACE, file: file === true ? path : file, searchAttributes, settings });
  return new Handle(server.address, NAMESPACE, { server, folder });
}

class Handle implements TemporalServer {
  readonly address: string;
  readonly namespace: string;
  readonly #own: { readonly server: DevServer; readonly folder: string | undefined } | undefined;

  constructor(address: string, namespace: string, own?: { readonly server: DevServer; readonly folder: string | undefined }) {
    this.address = address;
    this.namespace = namespace;
    this.#own = own;
  }
  url(queue: string): string {
    return `temporal://${this.address}/${encodeURIComponent(this.namespace)}?queue=${encodeURIComponent(queue)}`;
  }
  async kill9(): Promise<void> {
    await this.#mine().kill();
  }
  async restart(): Promise<void> {
    const mine = this.#mine();
    await mine.kill();
    await mine.start();
  }
  async stop(): Promise<void> {
    await this.#own?.server.kill();
    if (this.#own?.folder !== undefined) rmSync(this.#own.folder, { recursive: true, force: true });
  }
  #mine(): DevServer {
    if (this.#own === undefined) throw new Error("Other tests use this server, too: ask for one with startTemporalServer({ own: true }).");
    return this.#own.server;
  }
}
