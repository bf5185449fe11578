// The server of `dev` and `dashboard`: the console on a port, with a token.
// Owns: the token of this process, and the `ready` line.
// Invariants: the token is random and kept in memory; another host than loopback needs `server.tokens`.

import { spawn } from "node:child_process";
import type { ServerConfig } from "../../config/index.ts";
import { printableUrl } from "../../config/url.ts";
import { type Console, type ConsoleOptions, hashToken, type Listening, listen, newToken } from "../../server/index.ts";
import { printable } from "../../terminal/escape.ts";
import { numberOption } from "../arguments.ts";
import { usage } from "../failures.ts";
import type { Session } from "../session.ts";

export interface ServerFlags {
  readonly port?: string;
  readonly host?: string;
  readonly readOnly?: boolean;
}
export interface ServerPlan {
  readonly port: number | undefined;
  readonly host: string;
  /** Null: tokens of the configuration are in use. */
  readonly token: string | null;
  readonly options: Pick<ConsoleOptions, "tokens" | "allowedHosts" | "readOnly">;
}

/** Flags win over the configuration. `known`: a token that pages have already. */
export function planServer(flags: ServerFlags, config: ServerConfig, known: string | null = null): ServerPlan {
  const port = flags.port === undefined ? config.port : numberOption("--port", flags.port, { least: 0, most: 65_535 });
  const host = flags.host ?? config.host ?? "127.0.0.1";
  const hasTokens = config.tokens !== undefined && config.tokens.length > 0;
  if (!isLoopback(host) && !hasTokens)
    throw usage(
      `The host ${printable(host)} can be reached by others, and no token is configured.`,
      "Make one with `holdfast token --role operate` and put its hash into server.tokens of the config.",
    );
  const token = hasTokens ? null : (known ?? newToken());
  return {
    port,
    host,
    token,
    options: {
      tokens: token === null ? config.tokens : [{ name: "local", hash: hashToken(token), role: "admin", values: true }],
      // The host that the server listens on is one that it is called by.
      allowedHosts: [...(config.allowedHosts ?? []), ...(isLoopback(host) || isAny(host) ? [] : [host])],
      readOnly: flags.readOnly === true || config.readOnly === true,
    },
  };
}
function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
function isAny(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

export function listenAs(console: Console, { port, host }: ServerPlan): Promise<Listening> {
  return listen(console, { port, host });
}

export interface Ready {
  readonly url: string;
  readonly token: string | null;
  readonly store: string;
  readonly workflows: readonly string[];
}
export function sayReady(session: Session, what: string, { url, token, store, workflows }: Ready): void {
  const page = token === null ? url : `${url}#token=${token}`;
  const shown = printableUrl(store);
  if (isForPrograms(session)) return session.line({ event: "ready", url: page, token, store: shown, workflows, pid: process.pid });
  const { bold, dim } = session.colours;
  const served = workflows.length === 0 ? "no workflows yet" : workflows.map(printable).join(", ");
  session.show({
    json: null,
    human: () => [`${bold(what)} ${page}`, dim(`  store      ${printable(shown)}`), dim(`  workflows  ${served}`)],
  });
}
/** A stream of events: `json` is the same as `jsonl` here. */
export function isForPrograms({ globals }: Session): boolean {
  return globals.output === "json" || globals.output === "jsonl";
}
export function sayError(session: Session, message: string): void {
  if (isForPrograms(session)) return session.line({ event: "error", message });
  const { red } = session.colours;
  session.io.stderr.write(`${red("error:")} ${message.split("\n").map(printable).join("\n")}\n`);
}

/** In the browser of the user. That there is none is not an error. */
export function openPage(url: string): void {
  const [command, ...args] =
    process.platform === "darwin" ? ["open"] : process.platform === "win32" ? ["cmd", "/c", "start", '""'] : ["xdg-open"];
  const child = spawn(command, [...args, url], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}
