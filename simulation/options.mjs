// Converts the command line to the options of a simulation, and options back to a command line.

/** @typedef {{ [name: string]: string | boolean | undefined }} Values */
/** @typedef {{ [name: string]: number }} Counts */

/** @param {Counts} to @param {Readonly<Counts>} counts */
export function add(to, counts) {
  for (const [name, count] of Object.entries(counts)) to[name] = (to[name] ?? 0) + count;
}

/** The command line is invalid. The message says why; the usage is printed below it. */
export class UsageError extends Error {}

/** @param {string | boolean | undefined} text @param {string} name */
export function whole(text, name, least = 0) {
  const number = Number(text);
  if (typeof text !== "string" || !/^\d+$/.test(text) || !Number.isSafeInteger(number) || number < least)
    throw new UsageError(`${name} must be a whole number of at least ${least}, not "${text}"`);
  return number;
}
/**
 * The names in a comma-separated list. Throws if one of them is unknown.
 * @param {string | boolean | undefined} text
 * @param {string} name
 * @param {readonly string[]} known
 */
export function chosen(text, name, known) {
  if (text === undefined) return undefined;
  const names = String(text).split(",");
  for (const one of names) if (!known.includes(one)) throw new UsageError(`${name}: "${one}" is unknown; known are ${known.join(", ")}`);
  return names;
}

/**
 * @param {typeof import("@holdfast/simulation")} code
 * @param {Values} values
 * @param {number} seed
 * @returns {import("@holdfast/simulation").SimulationOptions}
 */
export function optionsOf(code, values, seed) {
  const kinds = chosen(values["scenarios"], "--scenarios", code.SCENARIOS);
  const without = chosen(values["without"], "--without", code.FAULT_KINDS);
  const { only } = values;
  return {
    seed,
    scenarios: (random) => code.drawnScenarios(random, kinds),
    store: values["store"] === "sqlite" ? "sqlite" : "memory",
    ...(without !== undefined && { without: /** @type {any} */ (without) }),
    ...(typeof only === "string" && { only: only.split(",").map((one) => whole(one, "--only")) }),
    ...(values["workers"] !== undefined && { workers: whole(values["workers"], "--workers", 1) }),
    ...(values["storm"] !== undefined && { storm: whole(values["storm"], "--storm") }),
    ...(values["disasters"] !== undefined && { disasters: whole(values["disasters"], "--disasters") }),
  };
}

/**
 * The command that runs exactly this simulation again.
 * @param {import("@holdfast/simulation").SimulationOptions} options
 * @param {Values} values
 */
export function commandOf(options, values) {
  const parts = [`npm run simulate -- --seed ${options.seed}`];
  if (values["planted"] !== undefined) parts.push(`--planted ${values["planted"]}`);
  if (options.store === "sqlite") parts.push("--store sqlite");
  if (values["scenarios"] !== undefined) parts.push(`--scenarios ${values["scenarios"]}`);
  if (options.only !== undefined) parts.push(`--only ${options.only.join()}`);
  for (const name of /** @type {const} */ (["workers", "storm", "disasters"]))
    if (options[name] !== undefined) parts.push(`--${name} ${options[name]}`);
  if (options.without !== undefined && options.without.length > 0) parts.push(`--without ${options.without.join()}`);
  return [...parts, "--no-shrink"].join(" "); // these options are already shrunk
}
