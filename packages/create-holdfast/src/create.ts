// `npm create holdfast`: asks for what is missing, writes the files, and says what to type next.
// Owns: nothing.
// Invariants: nothing is overwritten; it installs nothing and uses no network.

import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { DEFAULT_FOLDER, DEFAULT_STORE, HELP, parsed, storeOf } from "./arguments.ts";
import { CreateFailure, EXIT } from "./failure.ts";
import { managerOf } from "./manager.ts";
import { version } from "./manifest.ts";
import { beginning, projectFiles } from "./template.ts";

export interface Surroundings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly write: (text: string) => void;
  readonly complain: (text: string) => void;
  /** Asks on the terminal; the answer is "" for the default. Undefined if there is no terminal. */
  readonly ask: ((question: string) => Promise<string>) | undefined;
}

/** Returns the exit code. */
export async function create(args: readonly string[], world: Surroundings): Promise<number> {
  try {
    return await created(args, world);
  } catch (error) {
    if (!(error instanceof CreateFailure)) throw error;
    world.complain(`error: ${error.message} (${error.code})\n`);
    return error.exitCode;
  }
}

async function created(args: readonly string[], { cwd, env, write, ask }: Surroundings): Promise<number> {
  const manager = managerOf(env["npm_config_user_agent"]);
  const given = parsed(args, manager);
  if (given.help || given.version) {
    write(given.help ? HELP : `${version}\n`);
    return EXIT.ok;
  }
  const question = given.yes ? undefined : ask;
  if (given.folder === undefined && !given.yes && question === undefined)
    throw new CreateFailure("Name a folder, or --yes for the defaults.", { code: "HF_USAGE" });
  const folder = given.folder ?? ((await question?.(`Folder (${DEFAULT_FOLDER}): `)) || DEFAULT_FOLDER);
  const target = resolve(cwd, folder);
  refuseFiles(target, folder);
  const store = given.store ?? storeOf((await question?.(`Store, sqlite or postgres (${DEFAULT_STORE}): `)) || DEFAULT_STORE);
  const files = projectFiles({ target, store, manager });
  for (const [path, content] of files) {
    mkdirSync(dirname(join(target, path)), { recursive: true });
    // A file that has come up meanwhile is an error.
    writeFileSync(join(target, path), content, { flag: "wx" });
    write(`wrote ${join(relative(cwd, target), path)}\n`);
  }
  const enter = target === cwd ? [] : [`cd ${shellWord(relative(cwd, target))}`];
  write(`\nNext:\n${[...enter, ...beginning(store, manager)].map((line) => `  ${line}\n`).join("")}`);
  return EXIT.ok;
}

/** What a new repository has is not in the way. */
const HARMLESS = [".git", ".DS_Store"];

function refuseFiles(target: string, shown: string): void {
  if (!existsSync(target)) return;
  if (!statSync(target).isDirectory())
    throw new CreateFailure(`"${shown}" is a file. Nothing was written. Use another name.`, { code: "HF_FILE_EXISTS" });
  const present = readdirSync(target).filter((name) => !HARMLESS.includes(name));
  if (present.length === 0) return;
  const [first = "", second, third, ...rest] = present;
  const some = [first, second, third].filter((name) => name !== undefined).join(", ");
  const more = rest.length > 0 ? ` and ${rest.length} more` : "";
  throw new CreateFailure(
    `"${shown}" has files already: ${some}${more}. Nothing was written. Use another folder, or \`holdfast init\` in a project that exists.`,
    { code: "HF_FILE_EXISTS" },
  );
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `"${text}"`;
}
