// The host on a Temporal cluster keeps the model, on a real server.

import { hostConformance } from "@holdfast/conformance";
import { needTemporalServer, type TemporalServer } from "@holdfast/temporal-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TemporalHost } from "./host.ts";
import { LACKS } from "./lacks.ts";
import { Look } from "./look.ts";

/** Some tests let a process die at one write after the other, and wait each time until the server has noticed. */
const TIMEOUT = 300_000;
const TIMEOUT_OF_DEATHS = 600_000;
/** So that commits of loops and receives continue as new within a test. */
const SETTINGS = { "limit.historyCount.suggestContinueAsNew": 40 };

let server: TemporalServer;
let look: Look;
const ends: Promise<unknown>[] = [];

beforeAll(async () => {
  server = await needTemporalServer({ settings: SETTINGS, build: false });
  look = await Look.at(server.address, server.namespace);
});
afterAll(async () => {
  await Promise.allSettled(ends);
  look?.close();
  await server?.stop();
}, 60_000);

describe("the host on a Temporal cluster", () => {
  const listed: string[] = [];
  hostConformance({
    name: "Temporal",
    clock: "real",
    lacks: Object.keys(LACKS) as (keyof typeof LACKS)[],
    test: (title, run) =>
      test.concurrent(title, { timeout: /which(ever)? write|any of its writes/.test(title) ? TIMEOUT_OF_DEATHS : TIMEOUT }, run),
    skip: (title) => void listed.push(title),
    makeHost: (options) => TemporalHost.open(server, look, options, ends),
  });
  test("the tests that need an exact clock are listed", () => {
    expect(listed.length).toBeGreaterThan(5);
    for (const title of listed) expect(title).toMatch(/not applicable: /);
  });
});
