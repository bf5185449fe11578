// node scripts/with-setup.mjs <script> [args]: installs and builds if necessary, then runs the script.

import "./build.mjs";
import { run } from "./setup.mjs";

const { ok } = await run(process.execPath, process.argv.slice(2), { stdio: "inherit" });
process.exitCode = ok ? 0 : 1;
