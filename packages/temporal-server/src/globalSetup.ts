// For vitest's `globalSetup`: the server that all test files share.
// Owns: the broker.
// Invariants: those of the broker. It builds nothing: a test waits for seconds, a build takes minutes.

import { Broker } from "./broker.ts";
import { startTemporalServer } from "./index.ts";

export async function setup(): Promise<() => Promise<void>> {
  const broker = new Broker(async () => {
    const server = await startTemporalServer({ own: true, build: false });
    if (server.missing !== undefined) return { answer: { missing: server.missing }, stop: async () => {} };
    return { answer: { address: server.address }, stop: () => server.stop() };
  });
  await broker.open();
  return () => broker.close();
}
