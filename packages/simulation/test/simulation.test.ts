// Simulated worlds: a fixed set of seeds, at night fresh ones too, those that have found something, and proof that bugs are found.

import { spawn } from "node:child_process";
import { join, resolve } from "node:path";
import { signal, workflow } from "@holdfast/core";
import {
  drawnScenarios,
  explore,
  FAULT_KINDS,
  type FaultKind,
  type Random,
  type Scenario,
  SimulationFailed,
  shrink,
  simulate,
} from "@holdfast/simulation";
import { describe, expect, test } from "vitest";
import { isNight, PATIENCE, worlds } from "./night.ts";

const root = resolve(import.meta.dirname, "../../..");

const scenarios = (random: Random): Scenario[] => drawnScenarios(random);

test("X1 the same seed gives the same trace, byte for byte, on either store", async () => {
  for (const store of ["memory", "sqlite"] as const) {
    for (const seed of store === "memory" ? [1, 2, 3, 4, 5, 6] : [1, 2]) {
      const [first, second] = [await simulate({ seed, scenarios, store }), await simulate({ seed, scenarios, store })];
      expect(first.trace.length).toBeGreaterThan(10);
      expect(second.trace).toEqual(first.trace);
    }
  }
  const [one, other] = [await simulate({ seed: 1, scenarios }), await simulate({ seed: 2, scenarios })];
  expect(other.trace).not.toEqual(one.trace);
}, 60_000);

test(
  "D1 D2 D4 D5 D6 D7 D8 D9 D10 D11 W1 W3 M1 M2 M3 M7 M10 M12 K2 K3 K5 K6 K7 K8 S1 L4 V2 V4 Y1 hold in a fixed set of worlds",
  async () => {
    expect(await explore({ seeds: worlds(40), scenarios })).toBeGreaterThan(5_000);
  },
  PATIENCE,
);

test(
  "D1 D2 D4 D6 D7 D9 W3 M1 M3 M7 M10 K8 Y1 hold on the real SQLite store",
  async () => {
    expect(await explore({ seeds: worlds(6), scenarios, store: "sqlite" })).toBeGreaterThan(500);
  },
  PATIENCE,
);

if (isNight) {
  test(
    "D1 D4 D6 D9 M1 M7 Y1 hold in worlds that were never drawn before",
    async () => {
      const from = Date.now() % 2_000_000_000;
      expect(await explore({ seeds: 400, from, scenarios })).toBeGreaterThan(10_000);
    },
    PATIENCE,
  );
}

test(
  "K8 D9 M2 timers that fire while messages come and runs park are never lost",
  async () => {
    const crossings = (random: Random): Scenario[] => drawnScenarios(random, ["crossing"]);
    expect(await explore({ seeds: worlds(30), scenarios: crossings })).toBeGreaterThan(500);
  },
  PATIENCE,
);

test("W3 every kind of fault strikes", async () => {
  const left = new Set<FaultKind>(FAULT_KINDS);
  for (let seed = 1; left.size > 0 && seed <= 500; seed++) {
    const { faults } = await simulate({ seed, scenarios });
    for (const kind of FAULT_KINDS) if (faults[kind] > 0) left.delete(kind);
  }
  expect([...left]).toEqual([]);
}, 120_000);

describe("seeds that have found something", () => {
  // Each failed while the bug was there that it found (now planted as `outcome-taken-twice` and so on).
  test.each([
    ["D6 Y3 the outcome of a transaction was taken from its answer and from the inbox", "saga", 3],
    ["W5 Y1 a run left the cache between a claim and its answer, and was driven without its history", "errands", 27],
    ["K8 P7 a slow answer set the clock of a worker back, and a sleep seemed shorter than it was", "programs", 448],
    ["W1 a worker claimed before it had started, and after it had failed to", "chain", 4],
    ["D6 a transaction whose answer was lost was taken for failed", "transfers", 12],
    ["K8 D9 a timer that fired as its run parked was dropped with the next claim, and the run slept forever", "crossing", 16],
    ["K8 D9 the same, in another world", "crossing", 115],
    ["M2 L3 signals that came in the turn of two commits changed places in replay, and blocked the run", "", 529],
    ["M2 L3 Y1 the same, seen by replay at the end", "", 858],
    ["M7 M10 an update that was rejected by one worker was taken again by another", "", 3562],
    ["V4 a run that was being blocked while its worker stopped slept forever", "", 1932],
    ["P7 P10 the next execution of a run began before the last turn of the one before", "chain,again,looper", 393],
    ["C7 an activity that was abandoned in the turn that asked for it was carried out", "", 22],
    ["D6 D12 a transaction whose outcome was in the inbox before its answer came was listed as lost", "", 384],
    ["D6 D11 an activity whose claim was answered late began after another worker had made it", "", 812402724],
    ["W4 a worker that stopped before its lease was sure again was gone before it had given back the run", "", 843526872],
    ["C7 a step that its run had abandoned was notified late, while the lease was being confirmed", "", 959064689],
    ["D4 W3 the steps of a claim that was over were notified late, because the answer came late", "", 959073372],
    ["K8 P7 a sleep was counted from the estimate of the time, which was before that of its turn", "", 1240729153],
    ["D7 a claim of activities that was carried out late leased what had begun by then as the same attempt", "queues", 232],
    ["B1 B2 children that ended before a worker had claimed them were unknown to the check of lists", "", 296],
  ])("%s", async (_, kinds, seed) => {
    // As the worlds were then.
    const isLater = ({ name }: Scenario): boolean => kinds === "" && /^(?:relay|clockwork|queues)/.test(name);
    const report = await simulate({
      seed,
      scenarios: (random) => drawnScenarios(random, kinds === "" ? undefined : kinds.split(",")).filter((scenario) => !isLater(scenario)),
      without: ["clockSet"],
    });
    expect(report.violation).toBeUndefined();
  });
});

// ── workflows of users ──

const order = workflow({ name: "order", signals: { paid: signal<number>() } }, async (ctx, items: number) => {
  await ctx.step("reserve", async () => fetch("https://stock.example").then((reply) => reply.status));
  const amount = await ctx.waitForSignal("paid");
  await ctx.step("ship", async () => fetch("https://post.example").then((reply) => reply.status));
  return { items, amount };
});

function shop(amounts: readonly number[], check: (shipped: number) => void): Scenario {
  let shipped = 0;
  return {
    name: "shop",
    workflows: () => [order],
    replace: (bodies) => ({
      steps: {
        reserve: (info) => bodies.step(info, 200),
        ship: (info) => bodies.step(info, 200).finally(() => shipped++),
      },
    }),
    async play(clients) {
      await clients.start("order", 3, { id: "order-1" });
      for (const [i, amount] of amounts.entries()) await clients.signal("order-1", "paid", amount, `paid-${i}`);
      const told = await clients.end("order-1");
      if ("value" in told) expect(told.value).toEqual({ items: 3, amount: amounts[0] });
      check(shipped);
    },
  };
}

test("X1 a workflow of a user's, with stand-ins for its steps, is simulated like ours", async () => {
  expect(await explore({ seeds: 25, scenarios: () => [shop([10, 20], () => {})] })).toBeGreaterThan(500);
});

test("D6 an assumption that faults break is found, shrunk, and reported with the seed that reproduces it", async () => {
  // Steps run at least once: code that relies on exactly once is wrong.
  const options = {
    scenarios: () => [
      shop([10], (shipped) => {
        if (shipped > 1) throw new Error(`shipped ${shipped} times`);
      }),
    ],
  };
  const failure = await explore({ seeds: 400, ...options }).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(SimulationFailed);
  const { options: found, report, message } = failure as SimulationFailed;
  expect(message).toMatch(/shipped \d+ times/);
  expect(message).toContain(`"seed":${found.seed}`);
  expect((await simulate(found)).trace).toEqual(report.trace);
  const first = await simulate({ ...options, seed: found.seed });
  expect(report.trace.length).toBeLessThanOrEqual(first.trace.length);
  expect((await shrink({ ...options, seed: found.seed }, first)).report.trace).toEqual(report.trace);
}, 60_000);

const twice = workflow("twice", async (ctx) => {
  await ctx.step("a", () => 1);
  await ctx.sleep(50);
  await ctx.step("b", () => 1);
});

test("D6 of what was shrunk nothing more can be left out", async () => {
  const scenario = (): Scenario => {
    let begun = 0;
    return {
      name: "twice",
      workflows: () => [twice],
      replace: (bodies) => ({ steps: { a: (info) => bodies.step(info, ++begun), b: (info) => bodies.step(info, 1) } }),
      async play(clients) {
        await clients.start("twice", undefined, { id: "twice-1" });
        await clients.end("twice-1");
        if (begun > 1) throw new Error("It began twice.");
      },
    };
  };
  let failed = 0;
  for (let seed = 78; failed < 3; seed++) {
    const options = { seed, scenarios: () => [scenario()] };
    const report = await simulate(options);
    if (report.violation === undefined) continue;
    failed++;
    const shrunk = await shrink(options, report, 1_000);
    expect((await shrink(shrunk.options, shrunk.report, 1_000)).options).toEqual(shrunk.options);
  }
}, 60_000);

test("P1 a scenario that throws as it verifies fails with its seed and trace", async () => {
  const scenario: Scenario = {
    ...shop([10], () => {}),
    verify: () => {
      throw new Error("not what it should be");
    },
  };
  const failure = await explore({ seeds: 3, scenarios: () => [scenario] }).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(SimulationFailed);
  expect((failure as Error).message).toMatch(/not what it should be[\s\S]*"seed":1/);
});

test("P1 a scenario whose play throws before it waits for anything fails like one that throws later", async () => {
  const play = (): never => {
    throw new Error("no clients fright");
  };
  const { violation } = await simulate({ seed: 1, scenarios: () => [{ ...shop([10], () => {}), play }] });
  expect(violation).toMatchObject({ oracle: "scenario", rule: "P1", message: expect.stringContaining("shop: Error: no clients fright") });
});

const builds = (code: (build: number) => ReturnType<typeof changing>, mayBlock: boolean) => (): Scenario[] => [
  {
    name: "shop",
    mayBlock,
    needsBuilds: true,
    workflows: (_hands, build) => [code(build)],
    async play(clients) {
      const ids = ["order-1", "order-2", "order-3"];
      for (const id of ids) await clients.start("changing", undefined, { id });
      for (const id of ids) await clients.end(id);
    },
  },
];
/** Another step in every other build: they diverge. */
function changing(build: number) {
  return workflow("changing", async (ctx) => {
    await ctx.step(build % 2 === 0 ? "b" : "a", () => 1);
    await ctx.sleep(400);
    await ctx.step("z", () => 1);
  });
}

test("V4 runs of a scenario that may block are blocked in peace, whatever their ids; those of others are not", async () => {
  const faults = { deploy: 0.05 };
  await explore({ seeds: 30, faults, scenarios: builds(changing, true) });
  await expect(explore({ seeds: 30, faults, scenarios: builds(changing, false) })).rejects.toThrow(/V4 \(blocked\)/);
}, 60_000);

test("P1 a scenario that has no code for a later build has failed: the engine is not blamed", async () => {
  const none = (build: number) => {
    if (build > 1) throw new Error("no such build");
    return changing(build);
  };
  const failure = await explore({ seeds: 30, faults: { deploy: 0.05 }, scenarios: builds(none, true) }).catch((error: unknown) => error);
  expect(failure).toMatchObject({ name: "SimulationFailed", cause: { oracle: "scenario", rule: "P1" } });
  expect((failure as Error).message).toMatch(/scenario "shop": workflows: It threw Error: no such build/);
}, 60_000);

test("X1 scenarios that can't be repeated are refused, with the line at which their traces diverge", async () => {
  let number = 0;
  const scenario = (): Scenario => {
    number++;
    const { play, ...rest } = shop([number], () => {});
    return { ...rest, play: (clients) => clients.sleep(number).then(() => play(clients)) };
  };
  await expect(explore({ seeds: 3, scenarios: () => [scenario()] })).rejects.toMatchObject({
    name: "InvalidInputError",
    message: expect.stringMatching(/gave two traces, which diverge at line \d+/),
  });
});

test("V2 W6 a scenario that starts an unknown workflow gets an error that lists the known ones", async () => {
  const scenario: Scenario = { ...shop([10], () => {}), play: (clients) => clients.start("ordr", 3, { id: "order-1" }) };
  const { violation } = await simulate({ seed: 1, scenarios: () => [scenario] });
  expect(violation?.message).toContain('no scenario has a workflow "ordr". Known workflows: order.');
});

function fail(): never {
  throw new Error("not today");
}

test.each([
  [{ seed: 1.5 }, "seed must be a whole number"],
  [{ store: "postgres" }, "store must be one of memory, sqlite"],
  [{ without: ["crsh"] }, 'without has an unknown kind of fault, "crsh". Known kinds: crash'],
  [{ faults: { crash: 2 } }, "crash must be a rate from 0 to 1"],
  [{ workers: 0 }, "workers must be a whole number of at least 1"],
  [{ wihtout: ["crash"] }, "wihtout is not an option. Known options: seed, scenarios"],
  [{ only: [] }, "only must be a list of scenario indexes, with at least one"],
  [{ only: [0, 5] }, "only has index 5, but the last scenario of seed 1 has index 0"],
  [{ scenarios: () => [] }, "there is nothing to simulate"],
  [{ scenarios: () => undefined }, "scenarios must return a list of scenarios, not undefined"],
  [{ scenarios: () => Promise.reject(new Error("later")).catch(() => []) }, "scenarios must return a list of scenarios, not an object"],
  [{ scenarios: () => fail() }, "scenarios threw Error: not today"],
  [{ scenarios: () => [undefined] }, "scenarios[0] must be a scenario: { name, workflows, play }, not undefined"],
  [{ scenarios: () => [{}] }, "scenarios[0].name must be text, not undefined"],
  [{ scenarios: () => [{ ...shop([1], () => {}), play: undefined }] }, "scenarios[0].play must be a function, not undefined"],
  [{ scenarios: () => [{ ...shop([1], () => {}), verify: true }] }, "scenarios[0].verify must be a function, not true"],
  [{ scenarios: () => [{ ...shop([1], () => {}), mayBlock: "yes" }] }, 'scenarios[0].mayBlock must be a boolean, not "yes"'],
  [{ scenarios: () => [{ ...shop([1], () => {}), play: () => undefined }] }, 'scenario "shop" must have an async play'],
  [{ scenarios: () => [{ ...shop([1], () => {}), workflows: () => undefined }] }, 'scenario "shop": workflows: Pass a list, not undefined'],
  [{ scenarios: () => [{ ...shop([1], () => {}), workflows: () => [5] }] }, 'scenario "shop": workflows: Give only workflows, not 5'],
  [
    { scenarios: () => [{ ...shop([1], () => {}), activities: () => [order] }] },
    'scenario "shop": activities: Give only activities, not an object',
  ],
  [{ scenarios: () => [{ ...shop([1], () => {}), replace: () => fail() }] }, 'scenario "shop": replace: It threw Error: not today'],
  [
    { scenarios: () => [{ ...shop([1], () => {}), replace: () => ({ step: {} }) }] },
    'Only steps and activities can be replaced, not "step"',
  ],
  [
    { scenarios: () => [{ ...shop([1], () => {}), replace: () => ({ steps: { ship: 1 } }) }] },
    'The stand-in for "ship" must be a function',
  ],
  [{ scenarios: () => [shop([1], () => {}), shop([2], () => {})] }, 'two scenarios named "shop"'],
])("P9 options that can't be followed are refused: %o", async (options, message) => {
  const given = { seed: 1, scenarios: () => [shop([10], () => {})], ...options };
  await expect(simulate(given as never)).rejects.toMatchObject({ name: "InvalidInputError", message: expect.stringContaining(message) });
});

test("P9 without options nothing is simulated, and one seed is not many", async () => {
  const refused = (message: string): object => ({ name: "InvalidInputError", message: expect.stringContaining(message) });
  for (const options of [undefined, null, 5, []]) {
    await expect(simulate(options as never)).rejects.toMatchObject(refused("Pass an object with seed, scenarios"));
    await expect(explore(options as never)).rejects.toMatchObject(refused("Pass an object with seeds, from, scenarios"));
  }
  await expect(explore({ seeds: 2, seed: 7, scenarios } as never)).rejects.toMatchObject(
    refused("seed is not an option. Known options: seeds"),
  );
});

// ── proof that bugs are found ──

function command(...args: string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    let output = "";
    const child = spawn(process.execPath, [join(root, "simulation/run.mjs"), ...args], { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        output += chunk;
      });
    }
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, output }));
  });
}

test("every bug of the table in docs/reliability.md can still be planted", async () => {
  const { code, output } = await command("--check-planted");
  expect(output).toMatch(/simulate: ok, all \d+ bugs can be planted/);
  expect(code).toBe(0);
});

test("D1 D4 M1 bugs that are planted in the engine are found", async () => {
  const { code, output } = await command(
    "--planted",
    "no-epoch-check,step-before-commit,ack-before-durable",
    "--most",
    "100",
    "--jobs",
    "1",
  );
  expect(output).toMatch(/`no-epoch-check`\) \| (?:renewal|epoch) \| D4 \|/);
  expect(output).toMatch(/`step-before-commit`\) \| effects \| D1 \|/);
  expect(output).toMatch(/`ack-before-durable`\) \| acknowledged \| M1 \|/);
  expect(code, output).toBe(0);
}, 120_000);

test("X1 the command runs seeds, and prints the trace of one", async () => {
  const many = await command("--seeds", "6", "--jobs", "2");
  expect(many.output).toMatch(/simulate: ok, 6 simulations from seed 1 on, \d+ events/);
  expect(many.code).toBe(0);
  const one = await command("--seed", "2", "--trace", "--without", "crash");
  expect(one.output).toMatch(/the faults are over/);
  expect(one.output).toMatch(/simulate: ok, seed 2/);
  expect(many.output).toMatch(/^faults: crash \d+, /m);
  const help = await command("--help");
  expect(help.output).toContain("--seeds N");
  expect(help.code).toBe(0);
  const unknown = await command("--sedes", "2");
  expect(unknown.output).toMatch(/Unknown option '--sedes'[\s\S]*--seeds N/);
  expect(unknown.code).toBe(2);
}, 60_000);

test.each([
  ["--seed 2 --without nonsense", /--without: "nonsense" is unknown; known are crash/],
  ["--seed x", /--seed must be a whole number of at least 0, not "x"/],
  ["--seed 1 --only 9", /only has index 9, but the last scenario of seed 1 has index/],
  ["--seed 1 --seeds 5", /give --seed or --seeds, not both/],
  ["--only 0", /--only goes with --seed/],
  ["--seeds 0", /--seeds must be a whole number of at least 1, not "0"/],
  ["--scenarios nope", /--scenarios: "nope" is unknown; known are saga/],
  ["--workers 0", /--workers must be a whole number of at least 1, not "0"/],
  ["--jobs 0", /--jobs must be a whole number of at least 1, not "0"/],
  ["--store redis", /--store is memory or sqlite, not "redis"/],
  ["--planted trims-too-much,typo", /--planted: "typo" is unknown; known are /],
])(
  "P9 the command refuses %s, and tells how it is used",
  async (args, message) => {
    const { code, output } = await command(...args.split(" "));
    expect(output).toMatch(message);
    expect(output).toContain("npm run simulate -- [options]");
    expect(output).not.toMatch(/^ {4}at /m);
    expect(code).toBe(2);
  },
  30_000,
);

test("X1 the command that is printed with a trace prints the same trace", async () => {
  const found = await command("--seed", "1", "--planted", "no-epoch-check");
  expect(found.code).toBe(1);
  const again = /^reproduce: npm run simulate -- (.*)$/m.exec(found.output)?.[1] ?? "";
  expect(again).toContain("--no-shrink");
  expect(await command(...again.split(" "))).toEqual(found);
}, 60_000);
