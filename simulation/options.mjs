// The options of a simulation, as the command line has them, both ways.

/** @typedef {{ [name: string]: string | boolean | undefined }} Values */
/** @typedef {{ [name: string]: number }} Counts */

/** @param {Counts} to @param {Readonly<Counts>} counts */
export function add(to, counts) {
  for (const [name, count] of Object.entries(counts)) to[name] = (to[name] ?? 0) + count;
}

/** What was asked for can't be done: the message says why, and the usage how to ask. */
export class UsageError extends Error {}

/** @param {string | boolean | undefined} text @param {string} name */
export function whole(text, name, least = 0) {
  const number = Number(text);
  if (typeof text !== "string" || !/^\d+$/.test(text) || !Number.isSafeInteger(number) || number < least)
    throw new UsageError(`${name} is a whole number from ${least} on, not "${text}"`);
  return number;
}
/**
 * Names of a list, each one that there is.
 * @param {string | boolean | undefined} text
 * @param {string} name
 * @param {readonly string[]} known
 */
export function chosen(text, name, known) {
  if (text === undefined) return undefined;
  const names = String(text).split(",");
  for (const one of names) if (!known.includes(one)) throw new UsageError(`${name}: there is ${known.join(", ")}, and no "${one}"`);
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
 * The command that does it again, exactly.
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
  return [...parts, "--no-shrink"].join(" "); // it is as small as it gets
}
