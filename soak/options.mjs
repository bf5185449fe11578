// The command-line options of a soak.
// Owns: the options, their validation, and the help text.
// Invariants: an invalid option ends the process before the soak has begun.

import { parseArgs } from "node:util";
import { kinds } from "./mix.mjs";
import { LEFT_OUT } from "./temporal.mjs";

/** @typedef {{ lease: string, drain: string, faults: string }} Defaults */
/** @type {Defaults} */
const USUAL = { lease: "1000", drain: "60", faults: "0.5" };
/** The defaults of each store. On Temporal a lost worker is noticed after many seconds. @type {Record<string, Defaults>} */
const STORES = { file: USUAL, memory: USUAL, postgres: USUAL, temporal: { lease: "5000", drain: "240", faults: "30" } };
const names = kinds.map(({ workflow }) => workflow.name);

const HELP = `npm run soak -- [options]

  --minutes 1        how long faults occur; then all runs end and are checked
  --store file       the store: ${Object.keys(STORES).join(", ")}
  --url postgres://… use this server (of PostgreSQL or Temporal), which is never killed; by default a server is started
  --workers 3        worker processes
  --open 40          how many runs are open at a time
  --only chain,saga  only these workflows: ${names.join(", ")}
  --lease 1000       the lease of workers, in milliseconds (on Temporal 5000)
  --faults 0.5       seconds from one fault of a worker to the next, on average; on Temporal 30: every 30 s a worker is killed, and in between
                     another is frozen or stopped
  --drain 60         how long runs may take to end after the faults, in seconds (on Temporal 240)
  --seed 1           the seed of inputs and faults; by default a new one each time
  --folder path      the folder for the database and the findings; by default a new one, which is removed if nothing was found
  --keep             keeps the folder
  --help
`;

/** @param {string} message @returns {never} */
function refuse(message) {
  console.error(`${message}\n\n${HELP}`);
  process.exit(2);
}
function parsed() {
  const text = (/** @type {string} */ value) => /** @type {const} */ ({ type: "string", default: value });
  try {
    return parseArgs({
      options: {
        minutes: text("1"),
        store: text("file"),
        url: { type: "string" },
        workers: text("3"),
        seed: text(String(Date.now() % 1_000_000)),
        lease: { type: "string" },
        open: text("40"),
        drain: { type: "string" },
        faults: { type: "string" },
        only: { type: "string" },
        folder: { type: "string" },
        keep: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    return refuse(/** @type {Error} */ (error).message);
  }
}

export function readOptions() {
  const given = parsed();
  if (given.help) {
    console.log(HELP);
    process.exit(0);
  }
  const defaults = STORES[given.store];
  if (defaults === undefined) return refuse(`--store: "${given.store}" is unknown; known are ${Object.keys(STORES).join(", ")}.`);
  const values = {
    ...given,
    lease: given.lease ?? defaults.lease,
    drain: given.drain ?? defaults.drain,
    faults: given.faults ?? defaults.faults,
  };
  /** @param {"minutes" | "workers" | "seed" | "lease" | "open" | "drain" | "faults"} name */
  const number = (name) => {
    const value = Number(values[name]);
    if (values[name].trim() === "" || !Number.isFinite(value) || value < 0)
      refuse(`--${name} must be a number of at least 0, not "${values[name]}".`);
    return value;
  };
  const { store, url, folder, keep } = values;
  if (url !== undefined && store !== "postgres" && store !== "temporal") refuse("--url needs --store postgres or --store temporal.");
  const unknown = values.only?.split(",").filter((name) => !names.includes(name)) ?? [];
  if (unknown.length > 0) refuse(`--only: unknown ${unknown.map((name) => `"${name}"`).join(", ")}; known are ${names.join(", ")}.`);
  const wanted = values.only?.split(",") ?? names;
  const isPossible = (/** @type {import("./mix.mjs").Kind} */ { workflow, tables }) =>
    store === "temporal" ? !LEFT_OUT.has(workflow.name) : !(tables === true && store === "memory");
  const mix = kinds.filter((kind) => wanted.includes(kind.workflow.name) && isPossible(kind));
  if (mix.length === 0) refuse(`--only: ${values.only} can't run on ${store}.`);
  const [minutes, workers, seed] = [number("minutes"), number("workers"), number("seed")];
  return {
    minutes,
    workers,
    seed,
    lease: number("lease"),
    faults: number("faults") * 1_000,
    mostOpen: number("open"),
    drain: number("drain"),
    store,
    url,
    folder,
    keep,
    mix,
  };
}
