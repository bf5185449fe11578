// The options that every command has.
// Owns: their names, environment variables and defaults.
// Invariants: as in docs/cli.md; the token is never shown; an option that is given has a value.

import { type Command, Option } from "commander";
import type { Io } from "../terminal/io.ts";
import { usage } from "./failures.ts";

export const OUTPUTS = ["table", "wide", "json", "jsonl", "id"] as const;
export type Output = (typeof OUTPUTS)[number];

export interface Globals {
  readonly url: string | undefined;
  readonly config: string | undefined;
  readonly namespace: string | undefined;
  readonly token: string | undefined;
  /** Options that lead to a store or a console and were given as such: what the environment has is for many commands. */
  readonly places: readonly string[];
  readonly output: Output;
  readonly quiet: boolean;
  readonly verbose: boolean;
  readonly yes: boolean;
  /** As it was given. */
  readonly timeout: string | undefined;
  readonly color: boolean;
}

export function addGlobals(program: Command): void {
  program
    .option("--url <url>", "the store, or the address of a console: file:, postgres://, temporal://, https:// (HOLDFAST_URL)")
    .option("--config <file>", "the config file; default: the nearest holdfast.config.{ts,mts,js,mjs} (HOLDFAST_CONFIG)")
    .option("--namespace <name>", "the namespace of the store; the server of a console has its own")
    .option("--token <token>", "the token for a console (HOLDFAST_TOKEN)")
    .addOption(new Option("-o, --output <format>", "how results are printed").choices([...OUTPUTS]).default("table"))
    .option("--json", "the same as -o json")
    .option("-q, --quiet", "print only results and errors")
    .option("-v, --verbose", "print more about errors")
    .option("-y, --yes", "answer questions with yes")
    .option("--timeout <duration>", "how long to wait; default 30s where a command waits")
    .option("--no-color", "no colours (NO_COLOR)");
}

export function globalsOf(options: Readonly<Record<string, unknown>>, env: Io["env"]): Globals {
  const text = (name: string): string | undefined => {
    const value = options[name];
    // `--url "$URL"` of a script whose variable is not set must not lead to another store.
    if (value === "") throw usage(`--${name} is empty.`, "Give it a value, or leave it out.");
    return typeof value === "string" ? value : undefined;
  };
  return {
    url: text("url"),
    config: text("config"),
    namespace: text("namespace"),
    token: checkedToken(text("token") ?? env["HOLDFAST_TOKEN"]),
    places: ["url", "config", "namespace", "token"].filter((name) => text(name) !== undefined).map((name) => `--${name}`),
    output: options["json"] === true ? "json" : (options["output"] as Output),
    quiet: options["quiet"] === true,
    verbose: options["verbose"] === true,
    yes: options["yes"] === true,
    timeout: text("timeout"),
    color: options["color"] !== false,
  };
}

/** A token that was read from a file may end with a line break. One that can't be sent is refused before something quotes it. */
function checkedToken(given = ""): string | undefined {
  const token = given.trim();
  if (token === "") return undefined;
  if (!/^[\x21-\x7e]+$/.test(token)) throw usage("The token has characters that no token has.", "Pass it as `holdfast token` printed it.");
  return token;
}

/** Where the arguments can't be parsed: do they ask for JSON? */
export function asksForJson(argv: readonly string[]): boolean {
  const end = argv.indexOf("--");
  const given = end < 0 ? argv : argv.slice(0, end);
  return given.some((arg, i) => {
    if (arg === "--json" || /^(-o|--output=)jsonl?$/.test(arg)) return true;
    return (arg === "-o" || arg === "--output") && /^jsonl?$/.test(given[i + 1] ?? "");
  });
}
