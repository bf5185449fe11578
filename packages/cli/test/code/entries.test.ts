// Which files hold the user's workflows.

import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { Entries } from "../../src/code/entries.ts";
import { project, write } from "./projects.ts";

const FILES = {
  "src/workflows/order.ts": "",
  "src/workflows/deep/er/refund.ts": "",
  "src/workflows/order.test.ts": "",
  "src/workflows/types.d.ts": "",
  "src/workflows/notes.md": "",
  "src/workflows/node_modules/x/y.ts": "",
  "src/workflows/.hidden/z.ts": "",
  "workflows/other.ts": "",
  "workflows.ts": "",
  "src/a(b)[c].ts": "",
};
const found = (folder: string, entry?: readonly string[]) =>
  new Entries({ entry, root: folder }).files().map((file) => relative(folder, file));

test("the first default place that has files is used alone", () => {
  const folder = project(FILES);
  expect(found(folder)).toEqual(["src/workflows/deep/er/refund.ts", "src/workflows/order.ts"]);
  expect(found(project({ "src/workflows/readme.md": "", "workflows/a.ts": "", "workflows.ts": "" }))).toEqual(["workflows/a.ts"]);
  expect(found(project({ "src/workflows.ts": "", "workflows.ts": "" }))).toEqual(["src/workflows.ts"]);
  expect(found(project())).toEqual([]);
});

test.each([
  [["workflows.ts"], ["workflows.ts"]],
  [["./src/workflows/*.ts"], ["src/workflows/order.ts"]],
  [
    ["src/**/*.ts", "!src/workflows/deep/**"],
    ["src/a(b)[c].ts", "src/workflows/order.ts"],
  ],
  [["{workflows,src/workflows}/{other,order}.ts"], ["src/workflows/order.ts", "workflows/other.ts"]],
  [["src/workflows/o?der.ts"], ["src/workflows/order.ts"]],
  [["src/workflows/[a-p]*.ts"], ["src/workflows/order.ts"]],
  [["src/a(b)[[]c].ts"], ["src/a(b)[c].ts"]],
  [["**/other.ts", "workflows/*.ts"], ["workflows/other.ts"]],
  [["src/workflows/order.test.ts"], ["src/workflows/order.test.ts"]],
  [["nowhere/**/*.ts", "workflows/none.ts"], []],
])("%j names %j", (entry, files) => {
  expect(found(project(FILES), entry)).toEqual(files);
});

test("an absolute pattern counts from the root of the file system", () => {
  const folder = project(FILES);
  expect(found("/", [`${folder}/workflows/*.ts`])).toEqual([join(relative("/", folder), "workflows/other.ts")]);
});

test("none is a usage error that names the patterns", () => {
  const required = () => new Entries({ entry: ["lib/*.ts"], root: project() }).required();
  expect(required).toThrow(expect.objectContaining({ exitCode: 2, message: expect.stringContaining("lib/*.ts") }));
});

test("a file that is added is found, and known to be an entry before it exists", () => {
  const folder = project();
  const entries = new Entries({ entry: undefined, root: folder });
  expect(entries.files()).toEqual([]);
  expect(entries.matches(join(folder, "workflows/new.ts"))).toBe(true);
  expect(entries.matches(join(folder, "workflows/new.test.ts"))).toBe(false);
  expect(entries.matches(join(folder, "lib/new.ts"))).toBe(false);
  write(folder, { "workflows/new.ts": "" });
  expect(entries.files()).toEqual([join(folder, "workflows/new.ts")]);
});
