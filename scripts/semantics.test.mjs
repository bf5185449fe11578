// docs/proofs.md is up to date, and every rule of docs/semantics.md has a test.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  coreTestsIn,
  hostRules,
  idsIn,
  proofsIn,
  proofsPage,
  proofsPageOf,
  rulesOn,
  rulesPage,
  testFiles,
  titlesIn,
  unprovenInCore,
  unprovenOn,
} from "./semantics.mjs";
import { root } from "./setup.mjs";

const text = readFileSync(join(root, rulesPage), "utf8");

describe("docs/semantics.md", () => {
  test("every rule has a test with its id in the title", () => {
    expect(unprovenOn(text, proofsIn(root))).toEqual([]);
  });

  test("every rule of the core has a test in the core", () => {
    expect(unprovenInCore(text, proofsIn(root))).toEqual([]);
  });

  test("contains every rule once, and numbers each group without gaps", () => {
    const rules = rulesOn(text);
    const groups = grouped(rules);
    expect([...groups.keys()].join("")).toBe("PMRANCLKVXYDWSHTQFBE");
    for (const [group, ids] of groups) {
      expect(ids).toEqual(group === "N" ? ["N"] : ids.map((_, i) => `${group}${i + 1}`));
    }
  });

  test("the list of rules for hosts contains only existing rules", () => {
    const rules = new Set(rulesOn(text));
    expect([...hostRules.keys()].filter((id) => !rules.has(id))).toEqual([]);
  });

  test("no title names a rule that does not exist", () => {
    const rules = new Set(rulesOn(text));
    const unknown = testFiles(root).flatMap((path) =>
      titlesIn(path, readFileSync(join(root, path), "utf8")).flatMap((title) => {
        const [leading = ""] = /^((N|[A-Z]\d+)[\s,:–-]+)*/.exec(title) ?? [];
        return idsIn(leading)
          .filter((id) => !rules.has(id))
          .map((id) => `${path}: ${id} in "${title}"`);
      }),
    );
    expect(unknown).toEqual([]);
  });
});

test("docs/proofs.md is up to date: run `npm run docs`", () => {
  expect(readFileSync(join(root, proofsPage), "utf8")).toBe(proofsPageOf(text, proofsIn(root), coreTestsIn(root)));
});

describe("titles", () => {
  test.each([
    [`test("M4 pops the oldest", () => {});`, ["M4"]],
    [`it("M4 M5 waits", () => {});`, ["M4", "M5"]],
    [`it("M4, M5: waits", () => {});`, ["M4", "M5"]],
    [`it("L1–L3 iterates", () => {});`, ["L1", "L2", "L3"]],
    [`it("keeps the order of emission (Y6)", () => {});`, ["Y6"]],
    [`describe("R11 checkpoints", () => { it("trims", () => {}); });`, ["R11"]],
    [`it(\`X7 \${name} throws\`, () => {});`, ["X7"]],
    [`it("X7 " + name, () => {});`, ["X7"]],
    [`it.each([1, 2])("P8 %s comes back", () => {});`, ["P8"]],
    [`it.each<[number]>([[1]])("P8 %s comes back", () => {});`, ["P8"]],
    ["it.each`a | b`('P8 $a comes back', () => {});", ["P8"]],
    [`it.each([["C1 parallel"], ["C2 join"]])("%s", () => {});`, ["C1", "C2"]],
    [`for (const [rule, run] of [["C1", f], ["C2", g]]) it(\`\${rule} holds\`, run);`, ["C1", "C2"]],
    [`crashing("S2 goes on", async () => {});`, ["S2"]],
    [`it("N no receive in a branch", () => {});`, ["N"]],
    [`it("M3 N signals are N deliveries", () => {});`, ["M3"]],
    [`it.skip("M4 pops", () => {}); it.todo("M5 listens"); describe.skip("R1", () => { it("R2", () => {}); });`, []],
    [`// M4\nconst x = "M5"; step("M6", x); it("waits", () => {});`, []],
  ])("%s", (source, ids) => {
    expect([...new Set(titlesIn("a.test.ts", source).flatMap(idsIn))]).toEqual(ids);
  });
});

test("the page of proofs lists the tests of each rule, marks those that only check types, and names rules without a test", () => {
  const repository = mkdtempSync(join(tmpdir(), "holdfast-semantics-"));
  onTestFinished(() => rmSync(repository, { recursive: true }));
  const write = (/** @type {string} */ path, /** @type {string} */ source) => {
    mkdirSync(dirname(join(repository, path)), { recursive: true });
    writeFileSync(join(repository, path), source);
  };
  write(
    "packages/core/test/rules/a.test.ts",
    `it("M2 M3 buffers", () => {}); it("N no", () => {}); it("M4 types, at compile time", () => {});`,
  );
  write("packages/core/test/helper.ts", `it("M6 is not a test file", () => {});`);
  write("packages/kv/src/storeConformance.ts", `export const suite = () => it("D2 M6 one commit", () => {});`);

  const rules = [
    ...["# Semantics", "", "## M. Messages", "- M2 Two", "- M3 Three", "- M4 Four", "- M6 Six", "- M7 Seven", ""],
    ...["## N. Nesting", "| a table |", "", "## D. Durability", "- D2 Two", ""],
  ].join("\n");
  const proofs = proofsIn(repository);
  const file = "[core/rules/a.test.ts](../packages/core/test/rules/a.test.ts)";
  const suite = "[kv/storeConformance.ts](../packages/kv/src/storeConformance.ts)";
  expect(proofsPageOf(rules, proofs, []).split("\n").slice(4)).toEqual([
    ...["## M. Messages", "", `- **M2**: ${file}`, `- **M3**: ${file}`, `- **M4**: ${file} (types)`],
    ...[`- **M6**: ${suite}`, "- **M7**: (no test)", ""],
    ...["## N. Nesting", "", `- **N**: ${file}`, "", "## D. Durability", "", `- **D2**: ${suite}`, ""],
  ]);
  expect(unprovenOn(rules, proofs)).toEqual(["M4", "M7"]);
  expect(unprovenInCore(rules, proofs)).toEqual(["M4", "M6", "M7"]);
});

/** @param {string[]} rules */
function grouped(rules) {
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  for (const id of rules) groups.set(id.charAt(0), [...(groups.get(id.charAt(0)) ?? []), id]);
  return groups;
}
