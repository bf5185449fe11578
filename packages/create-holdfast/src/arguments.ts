// The arguments of `create-holdfast`.
// Owns: their names and help.
// Invariants: an unknown one is an error.

import { parseArgs } from "node:util";
import { CreateFailure } from "./failure.ts";
import type { Manager } from "./manager.ts";
import type { Store } from "./template.ts";

export interface Arguments {
  readonly folder: string | undefined;
  readonly store: Store | undefined;
  readonly yes: boolean;
  readonly help: boolean;
  readonly version: boolean;
}

export const DEFAULT_FOLDER = "holdfast-app";
export const DEFAULT_STORE: Store = "sqlite";

export const HELP = `Makes a project with a durable workflow, its test and a replay check for CI.

  npm create holdfast my-app -- --store sqlite --yes

  my-app                     the folder, which must not exist or be empty; default: ${DEFAULT_FOLDER}
  --store sqlite|postgres    where runs are kept; default: ${DEFAULT_STORE}
  -y, --yes                  ask nothing
  -v, --version              print the version
  -h, --help                 print this

On a terminal it asks for what is missing. Nothing is overwritten: exit code 4 if the folder has files. Wrong arguments are exit code 2.
`;

export function parsed(args: readonly string[], manager: Manager): Arguments {
  const { values, positionals } = read(args);
  const [folder, ...rest] = positionals;
  if (rest.length > 0) {
    // Without `--`, npm takes the options for its own and leaves their values.
    const advice = manager.name === "npm" ? " With npm, options go after two dashes: npm create holdfast my-app -- --store sqlite" : "";
    throw new CreateFailure(`There is one folder to name, and "${rest.join(" ")}" is left.${advice}`, { code: "HF_USAGE" });
  }
  if (folder?.trim() === "") throw new CreateFailure("The name of the folder is empty.", { code: "HF_USAGE" });
  return {
    folder,
    store: values.store === undefined ? undefined : storeOf(values.store),
    yes: values.yes,
    help: values.help,
    version: values.version,
  };
}

export function storeOf(text: string): Store {
  if (text === "sqlite" || text === "postgres") return text;
  throw new CreateFailure(`There is no store "${text}". Stores: sqlite, postgres.`, { code: "HF_USAGE" });
}

function read(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        store: { type: "string" },
        yes: { type: "boolean", short: "y", default: false },
        help: { type: "boolean", short: "h", default: false },
        version: { type: "boolean", short: "v", default: false },
      },
    });
  } catch (error) {
    throw new CreateFailure(error instanceof Error ? error.message : String(error), { code: "HF_USAGE", cause: error });
  }
}
