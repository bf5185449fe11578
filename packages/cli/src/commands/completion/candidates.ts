// What could come next on a command line: `holdfast __complete WORD… PARTIAL`.
// Owns: which words are offered where.
// Invariants: commands, options, their choices and workflow names; no user code is loaded; a store that does not answer at once offers nothing.

import type { Argument, Command, Option } from "commander";
import type { Io } from "../../terminal/io.ts";
import { globalsOf } from "../globals.ts";
import { buildProgram } from "../program.ts";
import { Session } from "../session.ts";

interface Candidate {
  readonly word: string;
  readonly about: string;
}

/** How long the names of workflows may take, in milliseconds. */
const PATIENCE = 3_000;

/** The last word is the one that is being written. */
export async function printCandidates(words: readonly string[], io: Io): Promise<void> {
  const found = await candidatesFor(joined(words), io);
  for (const { word, about } of found) io.stdout.write(`${word}\t${about.split("\n", 1)[0] ?? ""}\n`);
}

/** bash splits at "=" and ":": `--status = failed --url file : app.db --attr tenant = 42`. */
function joined(words: readonly string[]): string[] {
  const whole: string[] = [];
  let isInside = false;
  for (const word of words) {
    const before = whole.at(-1) ?? "";
    const isSplit = /^[=:]+$/.test(word) && whole.length > 0;
    // The value of an option is a word of its own.
    if (word === "=" && before.startsWith("--")) whole.push("");
    else if (isSplit || isInside) whole[whole.length - 1] = before + word;
    else whole.push(word);
    isInside = isSplit;
  }
  return whole;
}

async function candidatesFor(words: readonly string[], io: Io): Promise<readonly Candidate[]> {
  const program = buildProgram(() => () => undefined, { out: () => undefined, columns: undefined, hasColours: false });
  const partial = words.at(-1) ?? "";
  const place = walk(program, words.slice(0, -1));
  const [, name, value] = /^(--[^=]+)=(.*)$/s.exec(partial) ?? [];
  if (name !== undefined && value !== undefined) {
    const option = optionOf(place.command, name);
    const values = option === undefined ? [] : await valuesOf(option, value, place, io);
    return values.map(({ word, about }) => ({ word: `${name}=${word}`, about }));
  }
  if (place.pending !== undefined) return valuesOf(place.pending, partial, place, io);
  if (partial.startsWith("-")) return optionsOf(place.command).filter(({ word }) => word.startsWith(partial));
  const commands = place.command.commands.map((one) => ({ word: one.name(), about: one.description() }));
  if (commands.length > 0) return commands.filter(({ word }) => word.startsWith(partial));
  return matching(await argumentsOf(place, io), partial);
}

interface Place {
  readonly command: Command;
  /** Of the command, before the word. */
  readonly args: number;
  /** The option whose value comes next. */
  readonly pending: Option | undefined;
  /** The options so far, by attribute. */
  readonly given: Readonly<Record<string, string>>;
}

function walk(program: Command, words: readonly string[]): Place {
  let command = program;
  let args = 0;
  let pending: Option | undefined;
  const given: Record<string, string> = {};
  for (const word of words) {
    if (pending !== undefined) {
      given[pending.attributeName()] = word;
      pending = undefined;
      continue;
    }
    if (word.startsWith("-")) {
      const [, name = word, value] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
      const option = optionOf(command, name);
      if (option !== undefined && value !== undefined) given[option.attributeName()] = value;
      else if (option?.required === true) pending = option;
      continue;
    }
    const next = command.commands.find((one) => one.name() === word);
    if (next === undefined) args += 1;
    else command = next;
  }
  return { command, args, pending, given };
}

function lineage(command: Command): Command[] {
  return command.parent === null ? [command] : [command, ...lineage(command.parent)];
}
function optionOf(command: Command, word: string): Option | undefined {
  return lineage(command)
    .flatMap(({ options }) => options)
    .find((option) => option.long === word || option.short === word);
}
function optionsOf(command: Command): Candidate[] {
  const options = lineage(command).flatMap((one) => one.options);
  const own = options
    .filter(({ hidden }) => !hidden)
    .map(({ long, short, description }) => ({ word: long ?? short ?? "", about: description }));
  return [...own, { word: "--help", about: "show help" }];
}

const STATUSES = [
  "pending",
  "running",
  "sleeping",
  "blocked",
  "rolling_back",
  "completed",
  "failed",
  "canceled",
  "terminated",
  "continued",
];

async function valuesOf(option: Option, partial: string, place: Place, io: Io): Promise<readonly Candidate[]> {
  if (option.long === "--status") {
    const before = partial.slice(0, partial.lastIndexOf(",") + 1);
    return matching(
      STATUSES.map((status) => ({ word: before + status, about: "" })),
      partial,
    );
  }
  if (option.long === "--workflow") return matching(await workflowNames(place, io), partial);
  return matching(
    (option.argChoices ?? []).map((word) => ({ word, about: "" })),
    partial,
  );
}

async function argumentsOf(place: Place, io: Io): Promise<readonly Candidate[]> {
  const argument: Argument | undefined = place.command.registeredArguments[place.args];
  if (argument?.name() === "workflow") return workflowNames(place, io);
  if (argument?.name() === "shell") return ["bash", "zsh", "fish"].map((word) => ({ word, about: "" }));
  return [];
}

function matching(candidates: readonly Candidate[], partial: string): Candidate[] {
  return candidates.filter(({ word }) => word.startsWith(partial));
}

/** Those that workers have registered, of the store or console that the line names. */
async function workflowNames({ given }: Place, io: Io): Promise<readonly Candidate[]> {
  const session = new Session(io, globalsOf(given, io.env));
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<readonly Candidate[]>((resolve) => {
    timer = setTimeout(() => resolve([]), PATIENCE);
  });
  const names = async (): Promise<readonly Candidate[]> => {
    const { workflows } = await (await session.reader()).call("workflows.list");
    // Names with spaces or signs of the shell would need quotes, which differ from shell to shell.
    const plain = [...new Set(workflows.map(({ name }) => name))].filter((name) => /^[\w.@/-]+$/.test(name));
    return plain.map((word) => ({ word, about: "workflow" }));
  };
  try {
    return await Promise.race([names(), late]);
  } finally {
    clearTimeout(timer);
    await session.close();
  }
}
