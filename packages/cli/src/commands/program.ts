// The command line: all commands with their arguments, options and help.
// Owns: their order, and how help looks.
// Invariants: building it loads definitions only.

import { Command } from "commander";
import type { Bind } from "./command.ts";
import { addDashboard } from "./dashboard.ts";
import { addDev } from "./dev.ts";
import { addGlobals } from "./globals.ts";
import { addInit, addOperating } from "./operating.ts";
import { addQueues } from "./queues/index.ts";
import { addReplay } from "./replay.ts";
import { addRuns } from "./runs/index.ts";
import { addSchedules } from "./schedules/index.ts";
import { addWorker } from "./worker.ts";

export interface Writing {
  readonly out: (text: string) => void;
  readonly columns: number | undefined;
  readonly hasColours: boolean;
}

const DEFAULT_WIDTH = 100;

export function buildProgram(bind: Bind, writing: Writing): Command {
  const program = new Command("holdfast");
  const width = (): number => writing.columns ?? DEFAULT_WIDTH;
  program
    .description("Durable execution for TypeScript.")
    .usage("<command> [options]")
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: writing.out,
      // Errors are thrown, and printed where all others are.
      writeErr: () => undefined,
      outputError: () => undefined,
      getOutHelpWidth: width,
      getErrHelpWidth: width,
      getOutHasColors: () => writing.hasColours,
      getErrHasColors: () => writing.hasColours,
    })
    .addHelpText("after", "\nholdfast <command> --help says more. holdfast --version prints the version.")
    .showSuggestionAfterError(true);
  addGlobals(program);
  addInit(program, bind);
  addDev(program, bind);
  addWorker(program, bind);
  addDashboard(program, bind);
  addRuns(program, bind);
  addSchedules(program, bind);
  addQueues(program, bind);
  addReplay(program, bind);
  addOperating(program, bind);
  program.helpCommand("help [command]", "show help for a command");
  return program;
}
