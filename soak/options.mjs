// The command-line options of a soak.
// Owns: the options, their validation, and the help text.
// Invariants: an invalid option ends the process before the soak has begun.

import { parseArgs } from "node:util";
import { kinds } from "./mix.mjs";

const STORES = ["file", "memory", "postgres"];
const names = kinds.map(({ workflow }) => workflow.name);

const HELP = `npm run soak -- [options]

  --minutes 1        how long faults occur; then all runs end and are checked
  --store file       the store: ${STORES.join(", ")}
  --url postgres://… use this server, which is never killed; by default a server is started
  --workers 3        worker processes
  --open 40          how many runs are open at a time
  --only chain,saga  only these workflows: ${names.join(", ")}
  --lease 1000       the lease of workers, in milliseconds
  --drain 60         how long runs may take to end after the faults, in seconds
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
    if (values[name].trim() === "" || !Number.isFinite(value) || value < 0)
      refuse(`--${name} must be a number of at least 0, not "${values[name]}".`);
    return value;
  };
  const { store, url, folder, keep } = values;
  if (!STORES.includes(store)) refuse(`--store: "${store}" is unknown; known are ${STORES.join(", ")}.`);
  if (url !== undefined && store !== "postgres") refuse("--url needs --store postgres.");
  const unknown = values.only?.split(",").filter((name) => !names.includes(name)) ?? [];
  if (unknown.length > 0) refuse(`--only: unknown ${unknown.map((name) => `"${name}"`).join(", ")}; known are ${names.join(", ")}.`);
  const wanted = values.only?.split(",") ?? names;
  const mix = kinds.filter(({ workflow, tables }) => wanted.includes(workflow.name) && !(tables === true && store === "memory"));
  if (mix.length === 0) refuse(`--only: ${values.only} can't run on ${store}.`);
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
