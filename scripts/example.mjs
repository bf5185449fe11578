// npm run example -- <name>: runs an example. Without a name: lists them.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root, run } from "./setup.mjs";

const folder = join(root, "examples");

/** Each folder with a README, and its heading. */
const examples = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && existsSync(join(folder, entry.name, "README.md")))
  .map(({ name }) => {
    const [, about = ""] = /^# (.*)/.exec(readFileSync(join(folder, name, "README.md"), "utf8")) ?? [];
    return { name, about };
  });

/** A demo is TypeScript, which is compiled, or a script that runs as it is. @param {string} name */
const demoOf = (name) => [join(folder, "dist", name, "demo.js"), join(folder, name, "demo.mjs")].find((path) => existsSync(path));

const [name, ...rest] = process.argv.slice(2);
const demo = examples.some((example) => example.name === name) ? demoOf(name ?? "") : undefined;
if (demo !== undefined) {
  const { ok } = await run(process.execPath, [demo, ...rest], { stdio: "inherit" });
  process.exitCode = ok ? 0 : 1;
} else {
  if (name !== undefined) console.error(`There is no example "${name}".\n`);
  console.log("npm run example -- <name>\n");
  for (const { name, about } of examples) console.log(`  ${name.padEnd(16)} ${about}`);
  process.exitCode = name === undefined ? 0 : 1;
}
