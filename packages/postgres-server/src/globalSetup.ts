// For vitest's `globalSetup`: the server that all test files share.
// Owns: the broker.
// Invariants: those of the broker.

import { Broker } from "./broker.ts";
import { canOwnServers } from "./index.ts";

export async function setup(): Promise<() => Promise<void>> {
  if (!canOwnServers) process.stderr.write("HOLDFAST_TEST_POSTGRES_URL is set: tests that end a server are skipped.\n");
  const broker = new Broker();
  await broker.open();
  return () => broker.close();
}
