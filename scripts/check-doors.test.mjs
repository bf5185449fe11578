// Each check is tested with a planted violation, in a small temporary repository.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkDoors } from "./check-doors.mjs";

const manifest = (/** @type {string} */ name) =>
  JSON.stringify({ name, exports: { ".": "./src/index.ts", "./testing": "./src/testing.ts" } });

/** @type {string} */
let root;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "holdfast-doors-"));
  write("packages/core/package.json", manifest("@holdfast/core"));
  write("packages/kv/package.json", manifest("@holdfast/kv"));
});
afterEach(() => rmSync(root, { recursive: true }));

/** @param {string} path @param {string} text */
function write(path, text) {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

describe("doors", () => {
  test.each([
    ["packages/kv/src/a.ts", `import { x } from "@holdfast/core/src/index.ts";`, "is not a door of @holdfast/core"],
    ["packages/kv/src/a.ts", `export * from "@holdfast/core/internal";`, "is not a door of @holdfast/core"],
    ["packages/kv/src/a.ts", `const x = await import("@holdfast/core/internal");`, "is not a door of @holdfast/core"],
    ["packages/kv/src/a.ts", "const x = await import(`@holdfast/core/internal`);", "is not a door of @holdfast/core"],
    ["packages/kv/src/a.ts", `type X = import("@holdfast/core/internal").X;`, "is not a door of @holdfast/core"],
    ["packages/kv/src/a.ts", `import x = require("@holdfast/core/internal");`, "is not a door of @holdfast/core"],
    ["packages/kv/src/a.ts", `import { x } from "../../core/src/index.ts";`, `leaves packages/kv/src/`],
    ["packages/kv/src/a.ts", `import { x } from "../test/helper.ts";`, `leaves packages/kv/src/`],
    ["packages/kv/src/a.ts", `import { x } from "/tmp/x.ts";`, "is absolute"],
    ["packages/kv/src/a.ts", `import { x } from "@holdfast/kv";`, "is this package"],
    ["packages/kv/test/a.test.ts", `import { x } from "../../core/src/index.ts";`, `leaves packages/kv/`],
    ["packages/kv/test/a.test.ts", `import { x } from "@holdfast/core/internal";`, "is not a door of @holdfast/core"],
    ["packages/core/src/a.ts", `import { x } from "@holdfast/kv";`, "packages/core may not import @holdfast/kv"],
    ["packages/new/src/a.ts", `import { x } from "@holdfast/kv";`, "has no line in the table of rooms"],
    ["bench/a.mjs", `import { x } from "../packages/core/src/index.ts";`, "reaches into a package"],
  ])("%s: %s", (path, text, problem) => {
    write(path, `\n${text}`);
    expect(checkDoors(root)).toEqual([expect.stringContaining(`${path}:2: `)]);
    expect(checkDoors(root)[0]).toContain(problem);
  });

  test.each([
    ["packages/kv/src/a.ts", `import { x } from "@holdfast/core"; import { y } from "@holdfast/core/testing"; import z from "zod";`],
    ["packages/kv/test/deep/a.test.ts", `import { x } from "../../src/index.ts"; import { y } from "@holdfast/kv";`],
    ["bench/a.mjs", `import { x } from "@holdfast/core"; import { y } from "../scripts/setup.mjs";`],
  ])("%s may: %s", (path, text) => {
    write(path, text);
    expect(checkDoors(root)).toEqual([]);
  });
});

describe("rooms", () => {
  beforeEach(() => {
    const doors = { ".": "./src/index.ts", "./store": "./src/store/index.ts", "./backend": "./src/backend/index.ts" };
    write("packages/holdfast/package.json", JSON.stringify({ name: "holdfast", exports: doors }));
  });
  test.each([
    ["packages/postgres/src/a.ts", `import { x } from "holdfast";`, "packages/postgres may not import holdfast (only holdfast/store)"],
    ["packages/postgres/src/a.ts", `import { x } from "holdfast/backend";`, "packages/postgres may not import holdfast/backend"],
    ["packages/temporal/src/a.ts", `import { x } from "holdfast/store";`, "(only holdfast/backend)"],
    ["packages/conformance/src/a.ts", `import { x } from "@holdfast/kv";`, "packages/conformance may import only types of @holdfast/kv"],
    ["packages/kv/src/a.ts", `import type { X } from "holdfast";`, "packages/kv may not import holdfast"],
  ])("%s may not: %s", (path, text, problem) => {
    write(path, text);
    expect(checkDoors(root)).toEqual([expect.stringContaining(problem)]);
  });
  test.each([
    ["packages/postgres/src/a.ts", `import { x } from "holdfast/store";`],
    ["packages/temporal/src/a.ts", `import { x } from "holdfast/backend";`],
    [
      "packages/conformance/src/a.ts",
      `import type { X } from "@holdfast/kv"; import { y } from "holdfast/store"; import z from "holdfast";`,
    ],
    ["packages/postgres/test/a.test.ts", `import { x } from "holdfast";`],
  ])("%s may: %s", (path, text) => {
    write(path, text);
    expect(checkDoors(root)).toEqual([]);
  });
});

describe("folders", () => {
  test("folders that import each other are a problem, also through types, at any depth, and through other folders", () => {
    write("packages/kv/src/deep/a/x.ts", `import type { Y } from "../b/y.ts";`);
    write("packages/kv/src/deep/b/y.ts", `import { z } from "../c/d/z.ts";`);
    write("packages/kv/src/deep/c/d/z.ts", `import { x } from "../../a/x.ts";`);
    expect(checkDoors(root)).toEqual([
      "packages/kv/src/deep: imports between folders go one way, but a imports b in packages/kv/src/deep/a/x.ts, " +
        "b imports c in packages/kv/src/deep/b/y.ts, c imports a in packages/kv/src/deep/c/d/z.ts",
    ]);
  });
  test("a folder that imports itself through a file of src is a problem", () => {
    write("packages/kv/src/a/x.ts", `import { y } from "../y.ts";`);
    write("packages/kv/src/y.ts", `export * from "./a/z.ts";`);
    expect(checkDoors(root)).toEqual([expect.stringContaining("a imports y.ts in packages/kv/src/a/x.ts, y.ts imports a in")]);
  });
  test("index.ts, files of one folder, a folder and its subfolders, and tests may import in any direction", () => {
    write("packages/kv/src/index.ts", `export * from "./a/x.ts";`);
    write("packages/kv/src/a/x.ts", `import { y } from "./y.ts"; import { z } from "./in/z.ts"; import { b } from "../b/b.ts";`);
    write("packages/kv/src/a/y.ts", `import type { X } from "./x.ts";`);
    write("packages/kv/src/a/in/z.ts", `import { y } from "../y.ts";`);
    write("packages/kv/src/b/b.ts", `export const b = 1;`);
    write("packages/kv/test/a/x.ts", `import { y } from "../b/y.ts";`);
    write("packages/kv/test/b/y.ts", `import { x } from "../a/x.ts";`);
    expect(checkDoors(root)).toEqual([]);
  });
});

describe("purity", () => {
  test.each([
    [`import { readFileSync } from "node:fs";`, `import "node:fs"`],
    [`import type { Readable } from "node:stream";`, `import "node:stream"`],
    [`import { z } from "zod";`, `import "zod"`],
    [`import { type StandardSchemaV1 } from "@standard-schema/spec";`, "only by `import type`"],
    [`const x = (path: string) => import(path);`, "a computed import"],
    [`/// <reference types="node" />`, "reference other types"],
    [`const x = Date.now();`, "Date.now"],
    [`const x = Date["now"]();`, "Date.now"],
    [`const x = (Date as any).now();`, "Date under another name"],
    [`const { now } = Date;`, "Date under another name"],
    [`const x = new Date();`, "new Date() without arguments"],
    [`const x = new Date;`, "new Date() without arguments"],
    [`const x = Date();`, "Date()"],
    [`const x = { clock: Date.now };`, "Date.now"],
    [`const x = Math.random();`, "Math.random"],
    [`const x = AbortSignal.timeout(1);`, "AbortSignal.timeout"],
    [`setTimeout(() => {}, 1);`, "setTimeout"],
    [`setInterval(() => {}, 1);`, "setInterval"],
    [`setImmediate(() => {});`, "setImmediate"],
    [`const x = { setTimeout };`, "setTimeout"],
    [`class A { x = (setTimeout as unknown)!; }`, "setTimeout"],
    [`globalThis.setTimeout(() => {}, 1);`, "globalThis"],
    [`await fetch("http://localhost");`, "fetch"],
    [`const x = crypto.randomUUID();`, "crypto"],
    [`const x = performance.now();`, "performance"],
    [`const x = process.env["X"];`, "process"],
    [`declare const process: { pid: number }; const x = process.pid;`, "process"],
    [`const x = import.meta.url;`, "import.meta"],
    [`console.log(1);`, "console"],
    [`function f(location: string) { return location; } const x = location;`, "location"],
  ])("core can't: %s", (text, problem) => {
    write("packages/core/src/a.ts", text);
    expect(checkDoors(root)).toEqual([expect.stringContaining("packages/core/src/a.ts:1: core is pure: ")]);
    expect(checkDoors(root)[0]).toContain(problem);
  });

  test.each([
    `import type { StandardSchemaV1 } from "@standard-schema/spec"; export type { StandardSchemaV1 };`,
    `import { x } from "./model/x.ts"; export * from "./y.ts"; export type * from "./z.ts";`,
    `export interface Clock { setTimeout(process: Clock): void; fetch: typeof fetch } type X = Performance; export { type X };`,
    `export const f = (at: number, name: string): Date => (name === "Date.now()" ? new Date(at) : new Date(Date.parse(name)));`,
    `export function f(location: string, scheduler: { process(): void }) { scheduler.process(); return { location, fetch: 1 }; }`,
    `declare const brand: unique symbol; export type Brand = { [brand]: true }; // never Date.now()`,
    `export function f() { return [arguments.length, x instanceof Date, Math.max(1, 2)]; var x: unknown; }`,
    `queueMicrotask(() => new AbortController().abort());`,
  ])("core may: %s", (text) => {
    write("packages/core/src/a.ts", text);
    expect(checkDoors(root)).toEqual([]);
  });

  test("the barrier may use the scheduling functions of its runtime, and nothing else", () => {
    write("packages/core/src/executor/barrier.ts", `globalThis.process.nextTick(f); process.nextTick(f); setImmediate(f); function f() {}`);
    expect(checkDoors(root)).toEqual([]);
    write("packages/core/src/executor/barrier.ts", "setTimeout(() => {}, 1);");
    expect(checkDoors(root)).toEqual(["packages/core/src/executor/barrier.ts:1: core is pure: it can't use setTimeout"]);
  });

  test("host is pure too, except for its Node folder, which its other sources can't import", () => {
    write("packages/host/src/a.ts", `import { x } from "@holdfast/core"; import { y } from "./attempts/y.ts";`);
    write("packages/host/src/environment.ts", "const now = Date.now; const { setTimeout } = globalThis;");
    write("packages/host/src/node/a.ts", `import { Worker } from "node:worker_threads"; setTimeout(() => Date.now(), 1);`);
    expect(checkDoors(root)).toEqual([]);
    write("packages/host/src/a.ts", "setTimeout(() => {}, 1);");
    write("packages/host/src/attempts/b.ts", `import { x } from "../node/a.ts";`);
    write("packages/host/src/c.ts", `import { x } from "node:crypto";`);
    expect(checkDoors(root).toSorted()).toEqual([
      "packages/host/src/a.ts:1: host is pure: it can't use setTimeout",
      `packages/host/src/attempts/b.ts:1: host is pure: it can't import "../node/a.ts"`,
      `packages/host/src/c.ts:1: host is pure: it can't import "node:crypto"`,
    ]);
  });

  test("only the sources of core and host have to be pure", () => {
    write("packages/core/test/a.test.ts", "setTimeout(() => Date.now(), 1);");
    write("packages/kv/src/a.ts", "setTimeout(() => Date.now(), 1);");
    expect(checkDoors(root)).toEqual([]);
  });
});

test("a file that does not parse is a problem", () => {
  write("packages/core/src/a.ts", "const = 1;");
  expect(checkDoors(root)).toEqual([expect.stringContaining("packages/core/src/a.ts:1: ")]);
});
