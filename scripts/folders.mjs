// Checks that imports between the folders of a package go one way.
// Owns: what is compared: folders with the same parent; directly in `src` also files, except for index.ts, which imports from all of them.
// Invariants: imports inside a folder, or between a folder and its subfolders, may go any way.

/** A relative import: both files from the root. @typedef {{ from: string, to: string }} Import */

/**
 * The cycles of folders that import one another, with an import from each folder.
 * @param {readonly Import[]} imports
 */
export function roundTrips(imports) {
  /** By parent folder and entry: the other entries that it imports, each with one of the imports. @type {Map<string, Map<string, Map<string, Import>>>} */
  const levels = new Map();
  for (const one of imports) {
    const step = stepOf(one);
    if (step === undefined) continue;
    const level = entry(levels, step.parent, () => new Map());
    const targets = entry(level, step.from, () => new Map());
    entry(targets, step.to, () => one);
  }
  return [...levels].flatMap(([parent, level]) =>
    circlesOf(level).map((circle) => {
      const ways = circle.flatMap((name) =>
        [...(level.get(name) ?? [])].filter(([to]) => circle.includes(to)).map(([to, { from }]) => `${name} imports ${to} in ${from}`),
      );
      return `${parent}: imports between folders go one way, but ${ways.join(", ")}`;
    }),
  );
}

/** The two entries of a common parent folder that an import connects. @param {Import} one */
function stepOf({ from, to }) {
  if (!/^packages\/[^/]+\/src\//.test(from) || /^packages\/[^/]+\/src\/index\.ts$/.test(from)) return undefined;
  const here = from.split("/");
  const there = to.split("/");
  const depth = here.findIndex((part, i) => part !== there[i]);
  const [source, target] = [here[depth], there[depth]];
  if (depth < 3 || source === undefined || target === undefined) return undefined;
  // Directly in `src` files count too: a folder must not import itself through one of them.
  const areFolders = depth < here.length - 1 && depth < there.length - 1;
  if (depth > 3 && !areFolders) return undefined;
  return { parent: here.slice(0, depth).join("/"), from: source, to: target };
}

/**
 * The strongly connected sets with more than one member.
 * @param {Map<string, Map<string, Import>>} level
 */
function circlesOf(level) {
  /** @param {string} name @param {Set<string>} seen @returns {Set<string>} */
  const reached = (name, seen = new Set()) => {
    for (const [to] of level.get(name) ?? []) {
      if (seen.has(to)) continue;
      seen.add(to);
      reached(to, seen);
    }
    return seen;
  };
  const reach = new Map([...level.keys()].map((name) => [name, reached(name)]));
  /** @type {string[][]} */
  const circles = [];
  for (const [name, others] of reach) {
    if (circles.some((circle) => circle.includes(name))) continue;
    const circle = [...others].filter((other) => other === name || reach.get(other)?.has(name) === true).sort();
    if (others.has(name) && circle.length > 1 && circle.some((one) => !one.includes("."))) circles.push(circle);
  }
  return circles;
}

/** @template K, V @param {Map<K, V>} map @param {K} key @param {() => V} make @returns {V} */
function entry(map, key, make) {
  const found = map.get(key) ?? make();
  map.set(key, found);
  return found;
}
