// node scripts/cli-doc.mjs: generates docs/cli.md from the commands.
// It runs the built command line, which `npm run docs` builds first.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "..");
const { status, stdout } = spawnSync(process.execPath, [join(root, "packages/cli/dist/bin.js"), "__reference"], {
  encoding: "utf8",
  stdio: ["ignore", "pipe", "inherit"],
});
if (status === 0) writeFileSync(join(root, "docs/cli.md"), stdout);
else process.exitCode = 1;
