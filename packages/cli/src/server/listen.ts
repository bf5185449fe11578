// The console on a port of its own, for `dev` and `dashboard`.
// Owns: the server and its connections.
// Invariants: without a port it takes the next free one from 4747; a given port that is taken is an error that names it; closing ends all
// connections.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { refusal } from "../api/problem.ts";
import type { Console } from "./console.ts";
import { toNode } from "./node.ts";

/** Options of `listen`. */
export interface ListenOptions {
  /**
   * The port.
   * @defaultValue the next free one from 4747
   */
  readonly port?: number | undefined;
  /**
   * The address to listen on.
   * @defaultValue `"127.0.0.1"`, loopback
   */
  readonly host?: string | undefined;
}
/** A server that `listen` has started. */
export interface Listening {
  /** The address of the page, without a token. */
  readonly url: string;
  /** The port that it listens on. */
  readonly port: number;
  /** Closes the server and the console. */
  close(): Promise<void>;
}

const FIRST_PORT = 4_747;
const TRIED = 100;

/**
 * Serves a console on a port of its own.
 * @throws `ConsoleError` with the code HF_PORT_TAKEN if the port is taken.
 */
export async function listen(console: Console, options: ListenOptions = {}): Promise<Listening> {
  const { port, host = "127.0.0.1" } = options;
  const server = createServer({ keepAliveTimeout: 5_000 }, toNode(console.fetch));
  const taken = port === undefined ? await firstFree(server, host) : await bound(server, port, host);
  return {
    url: `http://${shownHost(host)}:${taken}/`,
    port: taken,
    close: async () => {
      await console.close();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}
async function firstFree(server: Server, host: string): Promise<number> {
  for (let port = FIRST_PORT; port < FIRST_PORT + TRIED; port++) {
    try {
      return await bound(server, port, host);
    } catch (error) {
      if ((error as { code?: unknown }).code !== "HF_PORT_TAKEN") throw error;
    }
  }
  throw refusal("HF_PORT_TAKEN", `The ports ${FIRST_PORT} to ${FIRST_PORT + TRIED - 1} are all taken.`);
}
async function bound(server: Server, port: number, host: string): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException): void => {
      server.off("listening", ready);
      const isTaken = error.code === "EADDRINUSE";
      reject(isTaken ? refusal("HF_PORT_TAKEN", `Port ${port} of ${host} is taken.`) : cannot(port, host, error));
    };
    const ready = (): void => {
      server.off("error", failed);
      resolve();
    };
    server.once("error", failed);
    server.once("listening", ready);
    server.listen(port, host);
  });
  return (server.address() as AddressInfo).port;
}
function cannot(port: number, host: string, error: NodeJS.ErrnoException): Error {
  return refusal("HF_PORT_TAKEN", `The server can't listen on port ${port} of ${host}: ${error.code ?? error.message}.`);
}
/** An address that means "all" can't be opened in a browser. */
function shownHost(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "localhost";
  return host.includes(":") ? `[${host}]` : host;
}
