// The mix of runs: their inputs, what clients send to them, and how they must end.
// Owns: inputs, the model of each workflow, the clients, and what was acknowledged to them.
// Invariants: the model uses only inputs and acknowledgements, and knows nothing about the engine.

import {
  account,
  chain,
  collector,
  counter,
  courier,
  family,
  fan,
  ledger,
  racer,
  relay,
  resumed,
  saga,
  sleeper,
  stubborn,
  tree,
  waiter,
} from "./workflows.mjs";

/**
 * @typedef {import("./workflows.mjs").Work} Work
 * @typedef {import("./workflows.mjs").Tree} Tree
 * @typedef {import("./random.mjs").Random} Random
 * @typedef {{ status: string, output?: unknown, error?: RegExp }} Expected
 * @typedef {{ acknowledged: Map<string, unknown>, sent: string[], [key: string]: unknown }} Notes of the clients of one run
 * @typedef {object} Kind
 * @property {any} workflow
 * @property {(random: Random, lease: number) => any} plan its input
 * @property {(input: any) => object} [start] options of its start
 * @property {(input: any) => Expected} expect how it must end
 * @property {(run: any, input: any, notes: Notes, random: Random) => Promise<void>} [play] what clients do with it
 * @property {(output: any, input: any, notes: Notes) => string | undefined} [judge] what is wrong with its output
 * @property {boolean} [trims] it trims its history
 * @property {number} weight
 * @property {boolean} [tables] needs a database
 */

const sum = (/** @type {readonly Work[]} */ plans) => plans.reduce((total, { value }) => total + value, 0);
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @param {Random} random @param {number} [lease] some take longer than the lease @returns {Work} */
function oneWork(random, lease = 0) {
  const ms =
    lease > 0 && random.chance(0.03)
      ? Math.round(lease * (1 + 3 * random.next()))
      : random.chance(0.3)
        ? random.between(20, 150)
        : random.between(0, 10);
  return { value: random.between(1, 1_000), ms, failures: random.chance(0.15) ? random.between(1, 3) : 0 };
}
/** @param {Random} random @param {number} from @param {number} to @param {number} [lease] */
const works = (random, from, to, lease) => random.times(random.between(from, to), () => oneWork(random, lease));

/** @param {Random} random @param {number} depth @returns {Tree} */
const oneTree = (random, depth) => ({
  plan: oneWork(random),
  children: depth === 0 ? [] : random.times(random.between(1, 3), () => oneTree(random, depth - random.between(1, depth))),
});
/** @param {Tree} tree @returns {number} */
const treeSum = ({ plan, children }) => plan.value + children.reduce((total, child) => total + treeSum(child), 0);

/**
 * Sends an update until it is acknowledged. Some calls time out early and are repeated under the same key.
 * @param {any} run @param {string} name @param {{ id: string }} entry @param {Notes} notes @param {Random} random
 */
async function updateSurely(run, name, entry, notes, random) {
  for (;;) {
    try {
      const reply = await run.update(name, entry, {
        idempotencyKey: entry.id,
        timeout: random.chance(0.3) ? random.between(1, 500) : 60_000,
      });
      notes.acknowledged.set(entry.id, reply);
      return;
    } catch (error) {
      if (/** @type {any} */ (error).code !== "HF_WAIT_TIMEOUT") throw error;
    }
  }
}

/** @param {any} run @param {Notes} notes @param {Random} random */
async function talkToAccount(run, notes, random) {
  const client = async (/** @type {number} */ number) => {
    for (let i = 0; i < random.between(2, 5); i++) {
      const id = `u${number}.${i}`;
      const entry = { id, plan: oneWork(random) };
      notes.sent.push(id);
      await updateSurely(run, random.pick(["add", "post", "later"]), entry, notes, random);
      if (random.chance(0.5)) await signalMaybeTwice(run, "note", `n${number}.${i}`, notes, random);
      if (random.chance(0.5)) await pause(random.between(0, 200));
    }
  };
  await Promise.all(random.times(random.between(2, 4), client));
  await run.update("close", undefined, { idempotencyKey: "close" });
}

/** Sends a signal once without a key, or twice under the same key. @param {any} run @param {string} name @param {string} id @param {Notes} notes @param {Random} random */
async function signalMaybeTwice(run, name, id, notes, random) {
  const twice = random.chance(0.3);
  const sends = twice ? [{ idempotencyKey: id }, { idempotencyKey: id }] : [undefined];
  await Promise.all(sends.map((options) => run.signal(name, id, options)));
  notes.acknowledged.set(id, true);
}

/** @param {readonly unknown[]} got @param {readonly unknown[]} wanted @param {string} what */
function sameSet(got, wanted, what) {
  const counts = new Map();
  for (const one of got) counts.set(one, (counts.get(one) ?? 0) + 1);
  for (const one of wanted) if (!counts.has(one)) return `${what} ${one} was acknowledged, but is lost`;
  for (const [one, count] of counts) if (count > 1) return `${what} ${one} was applied ${count} times`;
  for (const one of counts.keys()) if (!wanted.includes(one)) return `${what} ${one} was applied, but never acknowledged`;
  return undefined;
}

/** @param {import("./workflows.mjs").Account} output @param {Notes} notes */
function judgeAccount({ order, notes: heard }, { acknowledged }) {
  const ids = [...acknowledged.keys()];
  const wrong =
    sameSet(order, ids.filter((id) => id.startsWith("u")), "update") ?? // biome-ignore format: beside the next
    sameSet(
      heard,
      ids.filter((id) => id.startsWith("n")),
      "signal",
    );
  if (wrong !== undefined) return wrong;
  const misplaced = order.find((id, place) => acknowledged.get(id) !== place);
  return misplaced === undefined
    ? undefined
    : `update ${misplaced} was answered ${acknowledged.get(misplaced)}, but is at position ${order.indexOf(misplaced)}`;
}

/** @type {Kind[]} */
export const kinds = [
  {
    workflow: chain,
    weight: 5,
    plan: (random, lease) => ({ steps: works(random, 1, 12, lease) }),
    expect: ({ steps }) => ({ status: "completed", output: sum(steps) }),
  },
  {
    workflow: fan,
    weight: 3,
    plan: (random, lease) => ({
      how: random.pick(["parallel", "join", "all"]),
      branches: random.times(random.between(2, 5), () => works(random, 1, 3, lease)),
    }),
    expect: ({ branches }) => ({ status: "completed", output: sum(branches.flat()) }),
  },
  {
    workflow: saga,
    weight: 3,
    plan: (random, lease) => {
      const steps = works(random, 2, 6, lease);
      return { steps, failAt: random.between(1, steps.length + 1), how: random.pick(["fatal", "rollback"]) };
    },
    expect: ({ steps, failAt }) =>
      failAt < steps.length
        ? { status: "failed", error: new RegExp(`stopped at ${failAt}`) }
        : { status: "completed", output: steps.length },
  },
  {
    workflow: account,
    weight: 3,
    trims: true,
    plan: (random) => ({ checkpointEvery: random.between(2, 6) }),
    expect: () => ({ status: "completed" }),
    play: (run, _, notes, random) => talkToAccount(run, notes, random),
    judge: (output, _, notes) => judgeAccount(output, notes),
  },
  {
    workflow: tree,
    weight: 2,
    plan: (random) => oneTree(random, 2),
    expect: (input) => ({ status: "completed", output: treeSum(input) }),
  },
  {
    workflow: counter,
    weight: 2,
    trims: true,
    plan: (random, lease) => ({ plans: works(random, 5, 30, lease / 4), every: random.between(1, 4) }),
    expect: ({ plans }) => ({ status: "completed", output: sum(plans) }),
  },
  {
    workflow: ledger,
    weight: 3,
    tables: true,
    plan: (random) => ({ entries: works(random, 2, 8) }),
    expect: ({ entries }) => ({ status: "completed", output: sum(entries) }),
  },
  {
    workflow: collector,
    weight: 3,
    plan: (random) => ({ items: random.between(1, 6), extras: random.between(0, 4), plan: oneWork(random), withStart: random.chance(0.3) }),
    start: ({ withStart }) => (withStart ? { signals: [{ name: "item", payload: "item0" }] } : {}),
    expect: () => ({ status: "completed" }),
    play: async (run, { items, extras, withStart }, notes, random) => {
      const send = async (/** @type {string} */ name, /** @type {number} */ count) => {
        for (let i = name === "item" && withStart ? 1 : 0; i < count; i++) {
          await signalMaybeTwice(run, name, `${name}${i}`, notes, random);
          if (random.chance(0.4)) await pause(random.between(0, 300));
        }
      };
      await Promise.all([send("item", items), send("extra", extras)]);
    },
    judge: (output, { items, extras }) => {
      const wanted = (/** @type {string} */ name, /** @type {number} */ count) =>
        Array.from({ length: count }, (_, i) => `${name}${i}`).join();
      if (output.items.join() !== wanted("item", items)) return `items were received as ${output.items.join()}`;
      return output.extras.join() === wanted("extra", extras) ? undefined : `extras were received as ${output.extras.join()}`;
    },
  },
  {
    workflow: sleeper,
    weight: 2,
    plan: (random) => ({ naps: random.times(random.between(1, 3), () => random.between(10, 1_500)), plan: oneWork(random) }),
    expect: () => ({ status: "completed", output: { early: 0 } }),
  },
  {
    workflow: relay,
    weight: 2,
    plan: (random) => ({ laps: random.between(1, 4), got: [], plan: oneWork(random) }),
    expect: () => ({ status: "completed" }),
    play: async (run, { laps }, notes, random) => {
      for (let i = 0; i < laps; i++) {
        await signalMaybeTwice(run, "baton", `b${i}`, notes, random);
        if (random.chance(0.3)) await pause(random.between(0, 300));
      }
    },
    judge: (output, _, { acknowledged }) =>
      output.join() === [...acknowledged.keys()].join() ? undefined : `batons were received as ${output.join()}`,
  },
  {
    workflow: courier,
    weight: 2,
    plan: (random, lease) => ({ errands: works(random, 1, 4, lease) }),
    expect: ({ errands }) => ({ status: "completed", output: sum(errands) }),
  },
  {
    workflow: waiter,
    weight: 1,
    plan: (random) => ({ plan: oneWork(random) }),
    expect: () => ({ status: "canceled" }),
    play: async (run, _, __, random) => {
      await pause(random.between(0, 1_000));
      await run.cancel("as planned");
    },
  },
  {
    workflow: racer,
    weight: 1,
    plan: (random, lease) => ({ plan: oneWork(random, lease), naps: random.times(2, () => random.between(1, 120)) }),
    expect: () => ({ status: "completed", output: true }),
  },
  {
    workflow: stubborn,
    weight: 1,
    plan: (random) => ({ plan: oneWork(random), failures: random.between(0, 5) }),
    expect: ({ plan, failures }) =>
      failures < 4 ? { status: "completed", output: 2 * plan.value } : { status: "failed", error: /run 4 fails as planned/ },
  },
  {
    workflow: resumed,
    weight: 1,
    plan: (random) => ({ plan: { ...oneWork(random), failures: 0 } }),
    expect: ({ plan }) => ({ status: "completed", output: 2 * plan.value }),
    play: async (run) => {
      while (!(await run.result().then(() => true, () => false))) await run.resume();
    }, // biome-ignore format: one line
  },
  {
    workflow: family,
    weight: 1,
    plan: (random) => ({ items: random.between(1, 4), plan: oneWork(random) }),
    expect: ({ items }) => ({ status: "completed", output: Array.from({ length: items }, (_, i) => `item${i}`).join() }),
  },
];

/** @type {ReadonlyMap<string, Kind>} */
export const kindOf = new Map(kinds.map((kind) => [kind.workflow.name, kind]));
