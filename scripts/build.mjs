// npm run build, npm run typecheck: installs the dependencies if necessary, then compiles everything.

import { build, install } from "./setup.mjs";

for (const step of [install, build]) {
  const { ok, output } = await step();
  if (!ok) {
    process.stderr.write(output);
    process.exit(1);
  }
}
