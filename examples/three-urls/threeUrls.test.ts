import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RunFailedError, UpdateRejectedError } from "holdfast";
import { testEngine } from "holdfast/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { build, runDemo } from "../support/runDemo.ts";
import { trip } from "./trip.ts";

describe("a trip", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-trips-"));
  beforeAll(() => {
    process.env["AGENCY_LOG"] = join(folder, "agency.txt");
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it("is booked, confirmed, and gets its tickets", async () => {
    const engine = await testEngine({ workflows: [trip], skipTime: false });
    const run = await engine.start(trip, { to: "Rome", travellers: 2 });
    await engine.advance("1d");
    expect(await run.query("phase")).toBe("waiting for confirmation");
    await expect(run.update("confirm", { by: "" })).rejects.toThrow(UpdateRejectedError);
    expect(await run.update("confirm", { by: "Ada" })).toBe("confirmed by Ada");
    await engine.advance("1s");
    expect(await run.result()).toEqual({ flight: "a flight to Rome", hotel: "a hotel in Rome", by: "Ada", tickets: 2 });
    await engine.close();
  });

  it("is undone without a confirmation", async () => {
    const engine = await testEngine({ workflows: [trip] });
    const run = await engine.start(trip, { to: "Rome", travellers: 2 });
    await expect(run.result()).rejects.toThrow(RunFailedError);
    const undone = (await run.operations()).filter(({ unit }) => unit.includes("rollback"));
    expect(undone.map(({ status }) => status)).toEqual(["completed", "completed"]);
    await engine.close();
  });
});

describe("npm run example -- three-urls", () => {
  beforeAll(build, 60_000);

  it("has the same outcome on SQLite and Postgres", { timeout: 120_000 }, async () => {
    const { code, stdout, stderr, left } = await runDemo("three-urls", "SQLite", "Postgres");
    expect({ code, stderr, left }).toEqual({ code: 0, stderr: "", left: [] });
    expect(stdout.match(/✗ process \d+ was killed/g)).toHaveLength(2);
    expect(stdout).toContain("The same outcome on 2 url(s)");
  });
});
