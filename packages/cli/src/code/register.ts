// The door `@holdfast/cli/register`: `node --import @holdfast/cli/register file.ts` runs TypeScript.
// Owns: nothing.
// Invariants: the hook is installed before the next module is loaded.

import { installHook } from "../hook/index.ts";

await installHook();
