// The command `holdfast` as a function: arguments in, exit code out.
// Owns: parsing, the end of commands by errors, signals and timeouts.
// Invariants: it never ends the process; whatever was opened is closed when it returns; usage errors are 2, an interruption is 130.

import { readFileSync } from "node:fs";
import { type Command, CommanderError } from "commander";
import { coloursOf } from "../terminal/colours.ts";
import { Interruption, type Io } from "../terminal/io.ts";
import type { Bind, Body, Traits } from "./command.ts";
import { EXIT, type FailureStyle, failureOf, timedOut, usage } from "./failures.ts";
import { asksForJson, type Globals, globalsOf } from "./globals.ts";
import { buildProgram } from "./program.ts";
import { Session } from "./session.ts";

interface Call {
  readonly command: Command;
  readonly load: () => Promise<Body<readonly unknown[], unknown>>;
  readonly args: readonly unknown[];
  readonly options: unknown;
  readonly traits: Traits;
}

export async function main(argv: readonly string[], io: Io): Promise<number> {
  if (argv.length === 1 && (argv[0] === "--version" || argv[0] === "-V")) {
    io.stdout.write(`${version()}\n`);
    return EXIT.ok;
  }
  if (argv[0] === "__complete") return complete(argv.slice(1), io);
  if (argv[0] === "__reference") {
    (await import("./reference.ts")).printReference(io);
    return EXIT.ok;
  }
  const isJson = asksForJson(argv);
  let globals: Globals | undefined;
  try {
    const parsed = parse(argv.length === 0 ? ["--help"] : argv, io);
    if (parsed === undefined) return EXIT.ok;
    globals = globalsOf(parsed.command.optsWithGlobals(), io.env);
    refuseUnused(parsed, globals);
    return await run(parsed, new Session(io, globals));
  } catch (error) {
    const style: FailureStyle = {
      json: globals === undefined ? isJson : globals.output === "json" || globals.output === "jsonl",
      verbose: globals?.verbose ?? false,
      colours: coloursOf(io, io.isTTY.stderr, globals?.color ?? !argv.includes("--no-color")),
    };
    const { text, exitCode } = await failureOf(error, style);
    io.stderr.write(text);
    return exitCode;
  }
}

function version(): string {
  const { version: found } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  return found;
}

/** Undefined: help was asked for, and is printed. */
function parse(argv: readonly string[], io: Io): Call | undefined {
  let call: Call | undefined;
  const bind: Bind =
    (load, traits = {}) =>
    (...given) => {
      const [options, command] = given.slice(-2) as [unknown, Command];
      // The command knows the types of its arguments: they are those that it has declared.
      call = { command, load: load as unknown as Call["load"], args: given.slice(0, -2), options, traits };
    };
  const colours = coloursOf(io, io.isTTY.stdout, !argv.includes("--no-color"));
  const hasColours = colours.bold("") !== "";
  const program = buildProgram(bind, { out: (text) => void io.stdout.write(text), columns: io.columns, hasColours });
  try {
    program.parse(argv, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return undefined;
    throw usageOf(error, argv);
  }
  return call;
}

/** Commander's messages begin with "error: " and may have a second line with a suggestion. */
function usageOf({ code, message }: CommanderError, argv: readonly string[]): Error {
  if (code === "commander.help") {
    const words = argv.filter((arg) => !arg.startsWith("-")).join(" ");
    return usage(`"holdfast ${words}" needs a command.`, `See: holdfast ${words} --help`);
  }
  const [detail = "", ...rest] = message.replace(/^error: /, "").split("\n");
  return usage(`${detail}${/[.?)]$/.test(detail) ? "" : "."}`, rest.join("\n") || "See: holdfast --help");
}

/** An option without an effect is an error: its user expects one. */
function refuseUnused({ command, traits }: Call, { places, timeout }: Globals): void {
  const name = `\`holdfast ${command.name()}\``;
  const [place] = places;
  if (traits.placeless === true && place !== undefined)
    throw usage(`${place} has no effect on ${name}, which uses no store.`, "Leave it out.");
  if (traits.service === true && timeout !== undefined)
    throw usage(`--timeout has no effect on ${name}, which runs until it is stopped.`, "Leave it out.");
}

async function run({ load, args, options, traits }: Call, session: Session): Promise<number> {
  const limit = traits.service === true ? undefined : await session.timeout();
  const body = await load();
  // Nothing is begun that is not wanted any more.
  if (traits.service !== true && session.io.signal.aborted) await interrupted(session.io.signal, session.io.signal);
  const end = new AbortController();
  try {
    const work = body(session, args, options);
    if (traits.service === true) return (await work) ?? EXIT.ok;
    return (await Promise.race([work, interrupted(session.io.signal, end.signal), late(limit, end.signal)])) ?? EXIT.ok;
  } finally {
    end.abort();
    session.progress.end();
    await session.close();
  }
}

/** Rejects when the process is asked to end. `isOver`: nothing waits for it any more. */
function interrupted(signal: AbortSignal, isOver: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason instanceof Interruption ? signal.reason : new Interruption("SIGINT"));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true, signal: isOver });
  });
}

/** A little later than what a command itself waits for: that says more. */
const GRACE = 1_000;

function late(limit: number | undefined, isOver: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (limit === undefined) return;
    const timer = setTimeout(() => reject(timedOut("The command did not end in time.")), limit + GRACE);
    isOver.addEventListener("abort", () => clearTimeout(timer), { once: true });
  });
}

/** Completion says nothing about errors: the shell would show them in the middle of a line. */
async function complete(words: readonly string[], io: Io): Promise<number> {
  try {
    const { printCandidates } = await import("./completion/candidates.ts");
    await printCandidates(words, io);
  } catch {
    // No candidates.
  }
  return EXIT.ok;
}
