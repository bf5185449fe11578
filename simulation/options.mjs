// The options of a simulation, as the command line has them, both ways.

/** @typedef {{ [name: string]: string | boolean | undefined }} Values */
/** @typedef {{ [name: string]: number }} Counts */

/** @param {Counts} to @param {Readonly<Counts>} counts */
export function add(to, counts) {
  for (const [name, count] of Object.entries(counts)) to[name] = (to[name] ?? 0) + count;
}

/** @param {string | boolean | undefined} text @param {string} name */
export function whole(text, name) {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0) throw new Error(`${name} is a whole number, not "${text}"`);
  return number;
}
/** @param {string | boolean | undefined} text @returns {string[] | undefined} */
const list = (text) => (typeof text === "string" ? text.split(",").filter((one) => one !== "") : undefined);

/**
 * @param {typeof import("holdfast/simulation")} code
 * @param {Values} values
 * @param {number} seed
 * @returns {import("holdfast/simulation").SimulationOptions}
 */
export function optionsOf(code, values, seed) {
  const kinds = list(values["scenes"]);
  for (const kind of kinds ?? []) if (!code.SCENES.includes(kind)) throw new Error(`--scenes: there is ${code.SCENES.join(", ")}`);
  const without = list(values["without"]);
  for (const kind of without ?? []) {
    if (!code.FAULT_KINDS.some((one) => one === kind)) throw new Error(`--without: there is ${code.FAULT_KINDS.join(", ")}`);
  }
  return {
    seed,
    scenes: (random) => code.drawnScenes(random, kinds),
    store: values["store"] === "sqlite" ? "sqlite" : "memory",
    ...(without !== undefined && { without: /** @type {any} */ (without) }),
    ...(values["only"] !== undefined && { only: (list(values["only"]) ?? []).map((one) => whole(one, "--only")) }),
    ...(values["workers"] !== undefined && { workers: whole(values["workers"], "--workers") }),
    ...(values["storm"] !== undefined && { storm: whole(values["storm"], "--storm") }),
    ...(values["disasters"] !== undefined && { disasters: whole(values["disasters"], "--disasters") }),
  };
}

/**
 * The command that does it again, exactly.
 * @param {import("holdfast/simulation").SimulationOptions} options
 * @param {Values} values
 */
export function commandOf(options, values) {
  const parts = [`npm run simulate -- --seed ${options.seed}`];
  if (options.store === "sqlite") parts.push("--store sqlite");
  if (values["scenes"] !== undefined) parts.push(`--scenes ${values["scenes"]}`);
  if (options.only !== undefined) parts.push(`--only ${options.only.join()}`);
  for (const name of /** @type {const} */ (["workers", "storm", "disasters"]))
    if (options[name] !== undefined) parts.push(`--${name} ${options[name]}`);
  if (options.without !== undefined && options.without.length > 0) parts.push(`--without ${options.without.join()}`);
  return parts.join(" ");
}
