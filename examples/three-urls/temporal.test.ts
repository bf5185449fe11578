import { beforeAll, expect, it } from "vitest";
import { build, runDemo } from "../support/runDemo.ts";

beforeAll(build, 60_000);

it("npm run example -- three-urls runs on Temporal, too", { timeout: 120_000 }, async () => {
  const { code, stdout, stderr, left } = await runDemo("three-urls", "Temporal");
  expect({ code, stderr, left }).toEqual({ code: 0, stderr: "", left: [] });
  expect(stdout).toMatch(/✗ process \d+ was killed/);
  expect(stdout).toContain('{"flight":"a flight to Lisbon","hotel":"a hotel in Lisbon","by":"Ada","tickets":3}');
});
