// Checks of what readers get, of the order of claims, of policies and of abandoned work: they pass on the engine, and find planted bugs.

import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { drawnScenarios, explore, type Random, type Scenario } from "@holdfast/simulation";
import { expect, test } from "vitest";
import { isNight, PATIENCE, worlds } from "./night.ts";

const root = resolve(import.meta.dirname, "../../..");

const only =
  (kind: string) =>
  (random: Random): Scenario[] =>
    drawnScenarios(random, [kind]);

test(
  "W2 W3 runs of several priorities are claimed in their order, and all of them end",
  async () => {
    expect(await explore({ seeds: worlds(20), scenarios: only("rush") })).toBeGreaterThan(1_000);
    expect(await explore({ seeds: worlds(2), scenarios: only("rush"), store: "sqlite" })).toBeGreaterThan(100);
  },
  PATIENCE,
);

test(
  "M11 a query of an entity shows what was acknowledged, and nothing that no commit has published",
  async () => {
    expect(await explore({ seeds: worlds(20), scenarios: only("entity") })).toBeGreaterThan(1_000);
    expect(await explore({ seeds: worlds(2), scenarios: only("entity"), store: "sqlite" })).toBeGreaterThan(100);
  },
  PATIENCE,
);

test(
  "B1 B2 lists and counts equal a look at every run, when all has ended",
  async () => {
    for (const kind of ["rush", "programs"]) {
      expect(await explore({ seeds: worlds(8), scenarios: only(kind) })).toBeGreaterThan(100);
      expect(await explore({ seeds: worlds(2), scenarios: only(kind), store: "sqlite" })).toBeGreaterThan(20);
    }
  },
  PATIENCE,
);

test(
  "D12 every attempt of steps, transactions and activities is listed, in order, with its worker",
  async () => {
    for (const kind of ["errands", "transfers", "saga", "again"])
      expect(await explore({ seeds: worlds(8), scenarios: only(kind) })).toBeGreaterThan(100);
    expect(await explore({ seeds: worlds(2), scenarios: only("errands"), store: "sqlite" })).toBeGreaterThan(100);
  },
  PATIENCE,
);

test(
  "D8 D11 C7 K7 M6 R1 R6 P10 trials end as they have to",
  async () => {
    expect(await explore({ seeds: worlds(20), scenarios: only("trials") })).toBeGreaterThan(1_000);
    expect(await explore({ seeds: worlds(2), scenarios: only("trials"), store: "sqlite" })).toBeGreaterThan(100);
  },
  PATIENCE,
);

test(
  "M1 D9 K1 runs that end as clients still send have heard all that was acknowledged",
  async () => {
    expect(await explore({ seeds: worlds(20), scenarios: only("drains") })).toBeGreaterThan(1_000);
    expect(await explore({ seeds: worlds(2), scenarios: only("drains"), store: "sqlite" })).toBeGreaterThan(100);
  },
  PATIENCE,
);

test(
  "M3 M8 starts get their own workflow's runs, and updates that wait are accepted once or rejected",
  async () => {
    for (const kind of ["namesakes", "patience"]) {
      expect(await explore({ seeds: worlds(13), scenarios: only(kind) })).toBeGreaterThan(1_000);
      expect(await explore({ seeds: worlds(2), scenarios: only(kind), store: "sqlite" })).toBeGreaterThan(100);
    }
  },
  PATIENCE,
);

test(
  "K7 nothing of a run past its deadline is handed out or begun",
  async () => {
    expect(await explore({ seeds: worlds(30), scenarios: only("limits") })).toBeGreaterThan(1_000);
  },
  PATIENCE,
);

test(
  "T1 T2 T4 T5 T6 T7 schedules tick once, in time and as the clock of their zone shows, while processes come and go",
  async () => {
    expect(await explore({ seeds: worlds(20), scenarios: only("clockwork") })).toBeGreaterThan(1_000);
    expect(await explore({ seeds: worlds(2), scenarios: only("clockwork"), store: "sqlite" })).toBeGreaterThan(100);
  },
  PATIENCE,
);

test(
  "Q1 Q2 Q3 Q4 Q5 Q6 Q7 Q8 Q9 Q10 B4 queues keep their limits, order and shares while clients change them and processes come and go",
  async () => {
    expect(await explore({ seeds: worlds(20), scenarios: only("queues") })).toBeGreaterThan(1_000);
    expect(await explore({ seeds: worlds(2), scenarios: only("queues"), store: "sqlite" })).toBeGreaterThan(100);
  },
  PATIENCE,
);

// `npm test` plants three bugs (simulation.test.ts) and checks that all can be planted; hunting these takes minutes.
if (isNight) {
  test(
    "M3 M8 bugs in keys of starts and in updates that wait are found",
    async () => {
      const output = await hunted("start-keys-shared,other-workflow-found,patient-update-dropped");
      expect(output).toMatch(/`start-keys-shared`\) \| (keys|namesakes) \| M3 \|/);
      expect(output).toMatch(/`other-workflow-found`\) \| (keys|namesakes) \| M3 \|/);
      expect(output).toMatch(/`patient-update-dropped`\) \| (consumption|patience) \| M[78] \|/);
    },
    PATIENCE,
  );

  test(
    "T1 a tick without compare-and-set is found",
    async () => {
      expect(await hunted("tick-not-compared")).toMatch(/`tick-not-compared`\) \| ticks \| T1 \|/);
    },
    PATIENCE,
  );

  test(
    "Q2 Q4 Q5 a count outside the lock, fixed windows and an idle key's old pass are found",
    async () => {
      const output = await hunted("counted-before-lock,fixed-windows,idle-key-keeps-pass");
      expect(output).toMatch(/`counted-before-lock`\) \| slots \| Q2 \|/);
      expect(output).toMatch(/`fixed-windows`\) \| rates \| Q4 \|/);
      expect(output).toMatch(/`idle-key-keeps-pass`\) \| shares \| Q5 \|/);
    },
    PATIENCE,
  );

  test(
    "D9 bugs in how runs end are found",
    async () => {
      const output = await hunted("late-end-written,overtaken-signal-lost,race-not-unmet");
      expect(output).toMatch(/`late-end-written`\) \| (ends|drains) \| (D9|K1) \|/);
      expect(output).toMatch(/`overtaken-signal-lost`\) \| drains \| D9 \|/);
      expect(output).toMatch(/`race-not-unmet`\) \| drains \| D9 \|/);
    },
    PATIENCE,
  );

  test(
    "W2 M11 D12 bugs in what readers get and in the order of claims are found",
    async () => {
      const output = await hunted("newest-first,query-remembered,lost-attempts-unlisted");
      expect(output).toMatch(/`newest-first`\) \| claim order \| W2 \|/);
      expect(output).toMatch(/`query-remembered`\) \| queries \| M11 \|/);
      expect(output).toMatch(/`lost-attempts-unlisted`\) \| operations \| D12 \|/);
      expect(output).toMatch(/simulate: ok, all 3 planted bugs were found/);
    },
    PATIENCE,
  );

  test(
    "D4 D8 K6 C7 W4 bugs in policies, in what is abandoned and in what is given back are found",
    async () => {
      const output = await hunted("no-backoff,lost-steps-go-on,one-attempt-too-many,children-not-canceled,given-up-activity-goes-on,lease-not-given-back"); // biome-ignore format: one line
      expect(output).toMatch(/`no-backoff`\) \| retries \| D8 \|/);
      expect(output).toMatch(/`lost-steps-go-on`\) \| aborts \| D4 \|/);
      expect(output).toMatch(/`one-attempt-too-many`\) \| retries \| D8 \|/);
      expect(output).toMatch(/`children-not-canceled`\) \| children \| K6 \|/);
      expect(output).toMatch(/`given-up-activity-goes-on`\) \| given up \| C7 \|/);
      expect(output).toMatch(/`lease-not-given-back`\) \| lease \| W4 \|/);
    },
    PATIENCE,
  );

  test(
    "D4 what a connection of SQLite remembers of a run is held against what others write",
    async () => {
      const { bundle, load } = (await import(pathToFileURL(join(root, "simulation/bundle.mjs")).href)) as Bundler;
      const path = await bundle([
        {
          file: "packages/holdfast/src/store/sqlite/leasedRunCache.ts",
          from: "    if (version !== this.#version) this.clear();\n",
          to: "",
        },
      ]);
      try {
        const broken = await load(path);
        const rules = new Set<string>();
        for (let seed = 1; seed <= 100 && rules.size === 0; seed++) {
          const { violation } = await broken.simulate({ seed, scenarios: (random) => broken.drawnScenarios(random), store: "sqlite" });
          if (violation !== undefined) rules.add(violation.rule);
        }
        expect(rules.size).toBe(1);
      } finally {
        rmSync(dirname(path), { recursive: true, force: true });
      }
    },
    PATIENCE,
  );

  test(
    "K7 a store that hands out what is past its deadline is found",
    async () => {
      const { bundle, load } = (await import(pathToFileURL(join(root, "simulation/bundle.mjs")).href)) as Bundler;
      const path = await bundle([
        {
          file: "packages/holdfast/src/store/memory/store.ts",
          from: "if (!this.#runs.isLate(run, now)) return false;",
          to: "if (!this.#runs.isLate(run, 0)) return false;",
        },
      ]);
      try {
        const broken = await load(path);
        const found = new Set<string>();
        for (let seed = 1; seed <= 100 && found.size === 0; seed++) {
          const { violation } = await broken.simulate({ seed, scenarios: (random) => broken.drawnScenarios(random, ["limits"]) });
          if (violation !== undefined) found.add(`${violation.oracle} ${violation.rule}`);
        }
        expect([...found]).toEqual(["deadlines K7"]);
      } finally {
        rmSync(dirname(path), { recursive: true, force: true });
      }
    },
    PATIENCE,
  );
}

interface Bundler {
  bundle(replacements: readonly { file: string; from: string; to: string }[]): Promise<string>;
  load(path: string): Promise<typeof import("@holdfast/simulation")>;
}

/** What the command says of these planted bugs. */
function hunted(names: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const args = [join(root, "simulation/run.mjs"), "--planted", names, "--most", "100", "--jobs", "1"];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    child.on("error", reject);
    child.on("close", () => resolve(text));
  });
}
