// How commands are defined: their text for people, and a body that is loaded when it is called.
// Owns: the types of bodies; the examples that help and docs/cli.md show.
// Invariants: a definition imports no body, so that `holdfast --help` loads none.

import type { Command } from "commander";
import type { Session } from "./session.ts";

/** `args`: the declared arguments, in order. `options`: those of the command, not the global ones. It returns the exit code; nothing is 0. */
export type Body<Args extends readonly unknown[], Options> = (
  session: Session,
  args: Args,
  options: Options,
) => Promise<number | undefined>;

export interface Traits {
  /** It runs until it is asked to end, and handles that itself (`session.io.signal`). */
  readonly service?: boolean;
  /** It uses neither a store nor the config: options that lead to one are refused. */
  readonly placeless?: boolean;
}

/** Makes the action of a command from what loads its body. */
export type Bind = <Args extends readonly unknown[], Options>(
  load: () => Promise<Body<Args, Options>>,
  traits?: Traits,
) => (...given: unknown[]) => void;

const examplesOf = new WeakMap<Command, readonly string[]>();

/** `summary` is what lists of commands show. */
export function describe(command: Command, summary: string, examples: readonly string[] = []): Command {
  examplesOf.set(command, examples);
  command.description(summary);
  if (examples.length > 0) command.addHelpText("after", () => `\nExamples:\n${examples.map((one) => `  ${one}`).join("\n")}`);
  return command;
}

export function examplesFor(command: Command): readonly string[] {
  return examplesOf.get(command) ?? [];
}

/** For options that may be given several times. */
export function repeated(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value];
}
