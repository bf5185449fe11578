// npm run example -- three-urls: the same program on SQLite, PostgreSQL and Temporal. Only the url differs. On each of them the process is
// killed while the trip waits for a confirmation, and another one continues.
// With names, such as "npm run example -- three-urls SQLite": only on these.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { startServer } from "@holdfast/postgres-server";
import { startTemporalServer } from "@holdfast/temporal-server";
import { Holdfast } from "holdfast";
import { demo, until } from "../support/demo.ts";
import { Program } from "../support/program.ts";
import { dim, green, say, title } from "../support/terminal.ts";
import { trip } from "./trip.ts";

const script = join(import.meta.dirname, "main.js");

/** A place to keep runs: its url, and what ends a server that was started for it. */
interface Place {
  readonly url: string;
  readonly stop?: () => Promise<void>;
}
const places: Record<string, (folder: string) => Promise<Place | { readonly missing: string }>> = {
  SQLite: async (folder) => ({ url: `file:${join(folder, "trips.db")}` }),
  Postgres: async () => {
    const server = await startServer();
    return { url: await server.createDatabase(), stop: () => server.stop() };
  },
  Temporal: async () => {
    const server = await startTemporalServer({ build: false });
    return server.missing !== undefined ? server : { url: server.url(`trips-${process.pid}`), stop: () => server.stop() };
  },
};

await demo(async (folder) => {
  const wanted = process.argv.slice(2);
  const outcomes: string[] = [];
  for (const [name, open] of Object.entries(places)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    title(name);
    say(dim("  starting …"));
    const place = await open(folder);
    if ("missing" in place) {
      say(`  Not run. ${place.missing}`);
      continue;
    }
    outcomes.push(await playOn(place.url, join(folder, `${name}.txt`)));
    await place.stop?.();
  }
  assert.ok(outcomes.length > 0, "no place was found to run on");
  assert.equal(new Set(outcomes).size, 1, "the outcome is the same everywhere");
  title(`The same outcome on ${outcomes.length} url(s)`);
  say(`  ${outcomes[0]}`);
});

async function playOn(url: string, log: string): Promise<string> {
  const id = `trip-${randomUUID()}`; // a Temporal server may know others
  const options = { args: [url, id], env: { AGENCY_LOG: log }, name: "process" };
  say(`  ${green("node main.js")} ${url}`);
  const first = await Program.start(script, options);
  await using engine = await Holdfast.open(url);
  const run = engine.run(id, trip);
  await until("the bookings", async () => (await run.query("phase")) === "waiting for confirmation");
  say(`    ${await run.query("phase")}`);
  await first.kill();

  const second = await Program.start(script, options);
  say(`    ${await run.update("confirm", { by: "Ada" }, { acceptWithin: "30s" })}`);
  const outcome = await second.line(/^\{/);

  const booked = readFileSync(log, "utf8").trim().split("\n").sort();
  assert.deepEqual(booked, ["a flight to Lisbon", "a hotel in Lisbon", "ticket 1", "ticket 2", "ticket 3"]);
  say(`    each of the ${booked.length} bookings was made once`);
  return outcome;
}
