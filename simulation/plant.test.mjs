// Job: prove that a bug is planted exactly where its code is, whatever the comments and the layout.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { placesOf, plant } from "./plant.mjs";
import { planted } from "./planted.mjs";

const file = "a.ts";

describe("planting", () => {
  test.each([
    ["a comment at the end of a line", "if (late) // why\n  return;\nx();", "if (late) return; x();"],
    ["a comment of several lines inside", "a(b /* first\nsecond */, c);", "a(b, c);"],
    ["other indentation and line breaks", "foo(\n    one,\n    two,\n  );", "foo(one, two);"],
    ["no space where there was one", 'if("a"in b){c()}', 'if ("a" in b) { c() }'],
  ])("%s makes no difference", (_, text, from) => {
    expect(plant(`before();\n${text} /* kept */\nafter();`, { file, from, to: "bug();" })).toBe("before();\nbug(); /* kept */\nafter();");
  });
  test("words stay separate, and a string that looks like a comment is code", () => {
    expect(placesOf("returnx; return x;", { file, from: "return x" })).toEqual([{ start: 9, end: 17 }]);
    expect(placesOf('const url = "http://a//b"; f(); // g()', { file, from: '"http://a//b"; f()' })).toHaveLength(1);
    expect(placesOf("f(); // g();", { file, from: "g();" })).toEqual([]);
  });
  test("code that is missing, or that occurs twice, is an error that shows the code", () => {
    expect(() => plant("f();", { file, from: "g();", to: "" })).toThrow("a.ts has 0 places with this code instead of one:\ng();");
    expect(() => plant("f(); f();", { file, from: "f();", to: "" })).toThrow("a.ts has 2 places");
  });
  test("every bug can be planted in the current sources", () => {
    const root = resolve(import.meta.dirname, "..");
    for (const { name, replacements } of planted)
      for (const replacement of replacements)
        expect(placesOf(readFileSync(join(root, replacement.file), "utf8"), replacement), `${name} in ${replacement.file}`).toHaveLength(1);
  });
});
