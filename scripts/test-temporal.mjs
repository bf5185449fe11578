// npm run test:temporal [-- vitest arguments]: the tests of the Temporal host, with those that need a real server. Where no server is at
// hand, it is built first.

import { install, programOf, run } from "./setup.mjs";
import { provideServer } from "./temporal.mjs";

const tests = () =>
  run(
    process.execPath,
    [programOf("vitest", "vitest"), "run", "packages/temporal", "packages/holdfast/test/seed/temporal", ...process.argv.slice(2)],
    { stdio: "inherit" },
  );

for (const step of [install, provideServer, tests]) {
  const { ok, output } = await step();
  if (ok) continue;
  process.stderr.write(output);
  process.exit(1);
}
