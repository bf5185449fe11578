// Plants bugs, one at a time, and reports which oracle found each bug, and after how many seeds.

import { fork } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { bundle } from "./bundle.mjs";
import { chosen } from "./options.mjs";
import { placesOf } from "./plant.mjs";
import { planted } from "./planted.mjs";

/** @typedef {{ seed: number, oracle: string, rule: string, message: string }} Found */

/**
 * @param {string} names "all", or a comma-separated list
 * @param {number} most the largest number of seeds to try for each bug
 * @param {number} jobs processes at a time
 * @returns {Promise<number>} the exit code
 */
export async function provePlanted(names, most, jobs) {
  const wanted = named(names);
  const clean = await bundle();
  const left = [...wanted];
  let missed = 0;
  console.log("| planted | found by | rule | seeds |\n|---|---|---|---|");
  const next = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const found = await hunt(one, most, clean);
      if (found === undefined) missed++;
      const how = found === undefined ? `**not found** | – | ${most}` : `${found.oracle} | ${found.rule} | ${found.seed}`;
      console.log(`| ${one.what} (\`${one.name}\`) | ${how} |`);
    }
  };
  try {
    await Promise.all(Array.from({ length: jobs }, next));
  } finally {
    rmSync(dirname(clean), { recursive: true, force: true });
  }
  console.log(
    missed === 0
      ? `simulate: ok, all ${wanted.length} planted bugs were found`
      : `simulate: FAILED, ${missed} of ${wanted.length} planted bugs were not found`,
  );
  return missed === 0 ? 0 : 1;
}

/** The bugs with these names. @param {string} names "all", or a comma-separated list */
export function named(names) {
  const known = planted.map(({ name }) => name);
  const wanted = names === "all" ? known : chosen(names, "--planted", known);
  return planted.filter(({ name }) => wanted?.includes(name));
}

/** Checks that the code that each bug replaces is still in its file, exactly once. @returns {number} the exit code */
export function checkPlanted() {
  let gone = 0;
  for (const { name, replacements } of planted) {
    for (const { file, from } of replacements) {
      const places = placesOf(readFileSync(join(import.meta.dirname, "..", file), "utf8"), { file, from }).length;
      if (places === 1) continue;
      gone++;
      console.log(`${name}: ${file} has ${places} places with this code instead of one:\n${from}`);
    }
  }
  console.log(
    gone === 0
      ? `simulate: ok, all ${planted.length} bugs can be planted`
      : `simulate: FAILED, ${gone} replacements do not fit the sources`,
  );
  return gone === 0 ? 0 : 1;
}

/**
 * @param {import("./planted.mjs").Planted} bug
 * @param {number} most
 * @param {string} clean the bundle without the bug
 * @returns {Promise<Found | undefined>}
 */
async function hunt({ replacements }, most, clean) {
  const path = await bundle(replacements);
  try {
    return await new Promise((resolve, reject) => {
      /** @type {Found | undefined} */
      let first;
      const child = fork(join(import.meta.dirname, "worker.mjs"), { stdio: "inherit" });
      child.send({ path, values: {}, from: 1, step: 1, end: most + 1, clean });
      child.on("message", (/** @type {{ found: Found[] }} */ { found }) => {
        first ??= found[0];
      });
      child.on("exit", (code) => (code === 0 ? resolve(first) : reject(new Error(`The simulating process exited with code ${code}.`))));
    });
  } finally {
    rmSync(dirname(path), { recursive: true, force: true });
  }
}
