// docs/semantics.md names the tests that exist, and every rule of the core has one.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { hostParts, hostRules, idsIn, page, proofsIn, rulesOn, testFiles, titlesIn, unprovenOn, withProofs } from "./semantics.mjs";
import { root } from "./setup.mjs";

const text = readFileSync(join(root, page), "utf8");

describe("docs/semantics.md", () => {
  test("is up to date: run `npm run docs`", () => {
    expect(text).toBe(withProofs(text, proofsIn(root)));
  });

  test("every rule of the core has a test that carries its id", () => {
    expect(unprovenOn(text, proofsIn(root))).toEqual([]);
  });

  test("has every rule once, and each group numbered without gaps", () => {
    const rules = rulesOn(text);
    const groups = grouped(rules);
    expect([...groups.keys()].join("")).toBe("PMRANCLKVXYDWSHE");
    for (const [group, ids] of groups) {
      expect(ids).toEqual(group === "N" ? ["N"] : ids.map((_, i) => `${group}${i + 1}`));
    }
  });

  test("what is left to hosts are rules that exist, in one list or the other", () => {
    const rules = new Set(rulesOn(text));
    expect([...hostRules.keys(), ...hostParts.keys()].filter((id) => !rules.has(id))).toEqual([]);
    expect([...hostParts.keys()].filter((id) => hostRules.has(id))).toEqual([]);
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

test("lines of proof: what proves a rule, what only types do, and what needs a host", () => {
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
  write("packages/core/test/helper.ts", `it("M6 is no test file", () => {});`);
  write("packages/kv/src/storeConformance.ts", `export const suite = () => it("D2 one commit", () => {});`);

  const before = [
    "## M. Messages",
    ...["- M2 Two", "- M3 Three", "  - Tests: gone", "- M4 Four", "- M6 Six", "- M12 Twelve", ""],
    ...["## N. Nesting", "| a table |", "", "## C. Structured concurrency", "", "## D. Durability", "- D2 Two", ""],
  ].join("\n");
  const proofs = proofsIn(repository);
  const after = withProofs(before, proofs);
  expect(after).toBe(
    [
      "## M. Messages",
      ...["- M2 Two", "  - Tests: [core/rules/a.test.ts](../packages/core/test/rules/a.test.ts)"],
      ...["- M3 Three", "  - Tests: [core/rules/a.test.ts](../packages/core/test/rules/a.test.ts). Needs a host: `idempotencyKey`"],
      ...["- M4 Four", "  - Tests: [core/rules/a.test.ts](../packages/core/test/rules/a.test.ts) (types)"],
      ...["- M6 Six", "  - (not proven yet)", "- M12 Twelve", "  - (not proven yet: needs a host)", ""],
      ...["## N. Nesting", "| a table |", "- Tests: [core/rules/a.test.ts](../packages/core/test/rules/a.test.ts)", ""],
      ...["## C. Structured concurrency", "", "## D. Durability"],
      ...["- D2 Two", "  - Tests: [kv/storeConformance.ts](../packages/kv/src/storeConformance.ts)", ""],
    ].join("\n"),
  );
  expect(withProofs(after, proofs)).toBe(after);
  expect(unprovenOn(before, proofs)).toEqual(["M4", "M6"]);
});

/** @param {string[]} rules */
function grouped(rules) {
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  for (const id of rules) groups.set(id.charAt(0), [...(groups.get(id.charAt(0)) ?? []), id]);
  return groups;
}
