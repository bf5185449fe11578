// The Temporal server that some tests run on: whether there is one, and building it.
// It uses nothing but Node, because it runs before anything is compiled: packages/temporal-server/src/provide.mjs says what it needs.

import { join } from "node:path";
import { root, run } from "./setup.mjs";

const script = join(root, "packages", "temporal-server", "src", "provide.mjs");

/** Whether a server is at hand: TEMPORAL_ADDRESS, a program on the PATH or one that was built before. `output` is a line if none is. */
export const findServer = () => run(process.execPath, [script], { stdio: "pipe" });

/** Builds it where it is missing and Go is installed; minutes, with its progress on the terminal. */
export const provideServer = () => run(process.execPath, [script, "--build"], { stdio: "inherit" });

/** With CI=true every test runs, or `npm test` fails. */
export const isRequired = !["", "0", "false"].includes(process.env["CI"] ?? "");

/** For vitest.config.ts: the tests that need a server are not run. */
export function leaveOut() {
  process.env["HOLDFAST_TEST_TEMPORAL"] = "off";
}
