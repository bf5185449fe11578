// Loads a configuration file in this process.
// Owns: nothing between calls.
// Invariants: an error names file and line.

import { relative } from "node:path";
import { pathToFileURL } from "node:url";
import { endsDuring, installHook, placeOf } from "../hook/index.ts";
import { checkedConfig } from "./check.ts";
import { UsageError } from "./errors.ts";
import type { HoldfastConfig } from "./index.ts";

/** `again`: a number that no load before it had, to read the file and what it imports anew. */
export async function loadConfig(file: string, cwd: string, again?: number): Promise<HoldfastConfig> {
  const shown = relative(cwd, file) || file;
  await installHook();
  const url = `${pathToFileURL(file).href}${again === undefined ? "" : `?holdfast-again=${again}`}`;
  const { value: module, ended, thrown } = await endsDuring<object>(() => import(url));
  if (module === undefined || ended !== undefined) {
    const { place, message } = placeOf(thrown, file, cwd);
    const why = ended === undefined ? message : `It ends the process: it calls ${ended}.`;
    throw new UsageError(`The configuration can't be loaded: ${place}: ${why}`, { code: "HF_CONFIG", cause: thrown });
  }
  if (!("default" in module))
    throw new UsageError(`${shown}: the default export is missing. Write \`export default defineConfig({ … })\`.`, { code: "HF_CONFIG" });
  return checkedConfig(module.default, shown);
}
