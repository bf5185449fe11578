// What a soak is asked to do.
// Owns: the options of the command, and what it says to those that it does not understand.
// Invariants: nothing has begun when an option is refused.

import { parseArgs } from "node:util";
import { kinds } from "./mix.mjs";

const STORES = ["file", "memory", "postgres"];
const names = kinds.map(({ workflow }) => workflow.name);

const HELP = `npm run soak -- [options]

  --minutes 1        how long there are faults; then everything ends and is checked
  --store file       the store: ${STORES.join(", ")}
  --url postgres://… a server to use, which is not killed; by default one is started
  --workers 3        worker processes
  --open 40          runs that are open at a time
  --only chain,saga  these workflows: ${names.join(", ")}
  --lease 1000       the lease of workers, in milliseconds
  --drain 60         how long runs have to end after the faults, in seconds
  --seed 1           what happens when; by default another each time
  --folder path      where the database and what was found go; by default a new one, which is removed if nothing was found
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
        lease: text("1000"),
        open: text("40"),
        drain: text("60"),
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
  const values = parsed();
  if (values.help) {
    console.log(HELP);
    process.exit(0);
  }
  /** @param {"minutes" | "workers" | "seed" | "lease" | "open" | "drain"} name */
  const number = (name) => {
    const value = Number(values[name]);
    if (values[name].trim() === "" || !Number.isFinite(value) || value < 0) refuse(`--${name}: "${values[name]}" is no number from 0.`);
    return value;
  };
  const { store, url, folder, keep } = values;
  if (!STORES.includes(store)) refuse(`--store: there is no ${store}; there are ${STORES.join(", ")}.`);
  if (url !== undefined && store !== "postgres") refuse("--url goes with --store postgres.");
  const unknown = values.only?.split(",").filter((name) => !names.includes(name)) ?? [];
  if (unknown.length > 0) refuse(`--only: there is no ${unknown.join(", ")}; there are ${names.join(", ")}.`);
  const wanted = values.only?.split(",") ?? names;
  const mix = kinds.filter(({ workflow, tables }) => wanted.includes(workflow.name) && !(tables === true && store === "memory"));
  if (mix.length === 0) refuse(`--only: ${values.only} can't be done on ${store}.`);
  const [minutes, workers, seed] = [number("minutes"), number("workers"), number("seed")];
  return {
    minutes,
    workers,
    seed,
    lease: number("lease"),
    mostOpen: number("open"),
    drain: number("drain"),
    store,
    url,
    folder,
    keep,
    mix,
  };
}
