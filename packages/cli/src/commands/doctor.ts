// `holdfast doctor`
// Owns: what is checked, and what to do about it.
// Invariants: it writes nothing; a check that can't be made says why; exit code 6 if a check fails.

import { consoleError } from "../api/problem.ts";
import type { ResponseOf } from "../api/routes.ts";
import type { Client } from "../client/client.ts";
import type { Settings } from "../config/settings.ts";
import { isConsole, printableUrl } from "../config/url.ts";
import { roughly } from "../terminal/times.ts";
import { type Check, failed, passed, showChecks, warned } from "./checks.ts";
import { checkEntry } from "./entryCheck.ts";
import type { Session } from "./session.ts";

type Health = ResponseOf<"health">;

const OLDEST_NODE = [20, 19] as const;
/** Milliseconds by which clocks may differ. */
const MOST_SKEW = 5_000;

export async function examine(session: Session): Promise<number> {
  const checks: Check[] = [nodeCheck(process.versions.node)];
  const settings = await session.settings().catch((error: unknown) => error);
  if (!isSettings(settings)) {
    const [text = "", ...fix] = messageOf(settings).split("\n");
    checks.push(failed("config", text, fix.join(" ") || "Fix the config file or the options."));
    return showChecks(session, checks);
  }
  checks.push(configCheck(settings));
  session.progress.say("Loading the workflows …");
  checks.push(await checkEntry(settings, session.io.cwd));
  session.progress.say("Asking the store …");
  checks.push(...(await storeChecks(session, settings)));
  session.progress.end();
  return showChecks(session, checks);
}

function isSettings(found: unknown): found is Settings {
  return typeof found === "object" && found !== null && !(found instanceof Error) && "url" in found;
}
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function nodeCheck(version: string): Check {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [leastMajor, leastMinor] = OLDEST_NODE;
  if (major > leastMajor || (major === leastMajor && minor >= leastMinor)) return passed("node", `Node ${version}`);
  return failed("node", `Node ${version} is too old`, `Install Node ${leastMajor}.${leastMinor} or newer.`);
}

function configCheck({ configFile, url }: Settings): Check {
  const where = configFile === undefined ? "no config file, using defaults" : configFile;
  return passed("config", `${where}; store ${printableUrl(url)}`);
}

async function storeChecks(session: Session, { url }: Settings): Promise<Check[]> {
  const isRemote = isConsole(url);
  const began = Date.now();
  let client: Client;
  let health: Health;
  try {
    client = await session.reader();
    health = await client.call("health");
  } catch (error) {
    const { detail, advice } = consoleError(error);
    return [failed("store", detail, advice ?? "Check the url, and that the store can be reached from here.")];
  }
  const ended = Date.now();
  const checks = [storeCheck(health, printableUrl(url)), schemaCheck(health)];
  if (!health.store.exists) return checks;
  checks.push(clockCheck(health, { began, ended, isRemote }));
  checks.push(await workersCheck(client, health), blockedCheck(health));
  return checks;
}

function storeCheck({ store }: Health, where: string): Check {
  if (store.exists) return passed("store", `${store.host} at ${where} can be read`);
  return warned("store", `There is no store at ${where} yet`, "It is made by `holdfast migrate`, or by the first worker or start.");
}

export function schemaCheck({ store, schema }: Pick<Health, "store" | "schema">): Check {
  if (!store.exists) return warned("schema", "There is no schema yet", "Run: holdfast migrate");
  if (schema === null) return passed("schema", "This host has no schema");
  const { found, known } = schema;
  if (found === known) return passed("schema", `Schema version ${found}`);
  if (found < known) return failed("schema", `Schema version ${found}; this Holdfast needs ${known}`, "Run: holdfast migrate");
  return failed("schema", `Schema version ${found}; this Holdfast knows ${known}`, "Update @holdfast/cli and holdfast.");
}

/** Between when this machine asked and when it had the answer: as far as that can tell, clocks within it agree. */
interface Asked {
  readonly began: number;
  readonly ended: number;
  /** Over HTTP the server's clock counts, too. */
  readonly isRemote: boolean;
}
/** What differs most is what is said. */
export function clockCheck({ store, now }: Pick<Health, "store" | "now">, { began, ended, isRemote }: Asked): Check {
  const clocks = [
    ...(store.now === null ? [] : [{ whose: "store", time: Date.parse(store.now) }]),
    ...(isRemote ? [{ whose: "server", time: Date.parse(now) }] : []),
  ].map(({ whose, time }) => ({ whose, ahead: time > ended ? time - ended : Math.min(0, time - began) }));
  const [worst] = clocks.toSorted((a, b) => Math.abs(b.ahead) - Math.abs(a.ahead));
  if (worst === undefined) return passed("clock", `${store.host} does not tell its time`);
  const { whose, ahead } = worst;
  if (Math.abs(ahead) <= MOST_SKEW)
    return passed("clock", `The clocks of this machine${clocks.length > 1 ? ", the store" : ""} and the ${clocks.at(-1)?.whose} agree`);
  const text = `The clock of the ${whose} is ${roughly(Math.abs(ahead))} ${ahead < 0 ? "behind" : "ahead of"} this machine's`;
  const effect =
    whose === "store"
      ? "timers and leases follow the store's clock, and times shown here are wrong by as much."
      : "times and durations that are shown are wrong by as much.";
  return warned("clock", text, `Synchronize the clocks (NTP): ${effect}`);
}

async function workersCheck(client: Client, { workers }: Health): Promise<Check> {
  if (workers === null) return passed("workers", "This host does not list workers");
  if (workers > 0) return passed("workers", `${workers} ${workers === 1 ? "worker is" : "workers are"} alive`);
  const { counts } = await client.call("runs.count", { query: { status: ["pending", "running", "sleeping", "rolling_back"] } });
  const open = Object.values(counts).reduce((sum, { n }) => sum + n, 0);
  const text = open === 0 ? "No worker is alive" : `No worker is alive, and ${open} ${open === 1 ? "run is" : "runs are"} open`;
  return warned("workers", text, "Start one: holdfast worker, or holdfast dev.");
}

export function blockedCheck({ blocked }: Pick<Health, "blocked">): Check {
  if (blocked.n === 0) return passed("blocked", "No run is blocked");
  const text = `${blocked.n}${blocked.capped ? " or more" : ""} ${blocked.n === 1 ? "run is" : "runs are"} blocked`;
  return failed(
    "blocked",
    text,
    "Look: holdfast runs list --status blocked, then holdfast runs why ID. Fix the code, then holdfast runs resume.",
  );
}
