// `holdfast init`

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { holdfast, newFolder } from "./run.ts";

const read = (folder: string, file: string): string => readFileSync(join(folder, file), "utf8");

test("an empty folder becomes a project", async () => {
  const cwd = newFolder();
  const { code, json, err } = await holdfast(["init", "--yes", "--json"], { cwd });
  expect([code, err]).toEqual([0, ""]);
  expect(json).toEqual({ written: ["holdfast.config.ts", "workflows/hello.ts", "package.json", ".gitignore"] });
  expect(read(cwd, "holdfast.config.ts")).toContain("@holdfast/cli/config");
  expect(read(cwd, "workflows/hello.ts")).toContain('workflow("hello"');
  expect(JSON.parse(read(cwd, "package.json"))).toMatchObject({
    private: true,
    type: "module",
    scripts: { dev: "holdfast dev", worker: "holdfast worker", replay: "holdfast replay" },
    dependencies: { holdfast: expect.any(String), "@holdfast/cli": expect.any(String) },
  });
  expect(read(cwd, ".gitignore")).toBe("node_modules/\n.holdfast/\n");
  expect(existsSync(join(cwd, "node_modules"))).toBe(false);
});

test("package.json and .gitignore are added to, and keep what they have", async () => {
  const cwd = newFolder();
  writeFileSync(
    join(cwd, "package.json"),
    '{\n\t"name": "app",\n\t"scripts": { "dev": "vite" },\n\t"devDependencies": { "@holdfast/cli": "*" }\n}',
  );
  writeFileSync(join(cwd, ".gitignore"), "dist");
  expect((await holdfast(["init"], { cwd })).code).toBe(0);
  const text = read(cwd, "package.json");
  expect(JSON.parse(text)).toMatchObject({
    name: "app",
    scripts: { dev: "vite", "holdfast:dev": "holdfast dev", worker: "holdfast worker" },
    devDependencies: { "@holdfast/cli": "*" },
  });
  expect(JSON.parse(text).dependencies).not.toHaveProperty("@holdfast/cli");
  expect(JSON.parse(text)).not.toHaveProperty("type");
  expect(text).toContain('\n\t"name"');
  expect(read(cwd, ".gitignore")).toBe("dist\n.holdfast/\n");
});

test("nothing is written if one of its files exists: 4", async () => {
  for (const file of ["holdfast.config.ts", "holdfast.config.mjs", "workflows/hello.ts"]) {
    const cwd = newFolder();
    mkdirSync(join(cwd, "workflows"));
    writeFileSync(join(cwd, file), "mine");
    const { code, out, problem } = await holdfast(["init", "--json"], { cwd });
    expect([code, out, problem.code]).toEqual([4, "", "HF_FILE_EXISTS"]);
    expect(problem.detail).toContain(file);
    expect(read(cwd, file)).toBe("mine");
    expect(readdirSync(cwd, { recursive: true }).length).toBeLessThanOrEqual(2);
  }
});

test("--force overwrites", async () => {
  const cwd = newFolder();
  writeFileSync(join(cwd, "holdfast.config.ts"), "mine");
  expect((await holdfast(["init", "--force"], { cwd })).code).toBe(0);
  expect(read(cwd, "holdfast.config.ts")).toContain("defineConfig");
  // Once more: there is nothing to add to package.json and .gitignore.
  expect((await holdfast(["init", "--force", "--json"], { cwd })).json).toEqual({ written: ["holdfast.config.ts", "workflows/hello.ts"] });
});

test("a package.json that can't be read is left as it is: 4", async () => {
  for (const content of ["{ not json", "[1]"]) {
    const cwd = newFolder();
    writeFileSync(join(cwd, "package.json"), content);
    expect(await holdfast(["init"], { cwd })).toMatchObject({ code: 4, out: "", err: expect.stringContaining("package.json") });
    expect(readdirSync(cwd)).toEqual(["package.json"]);
    expect(read(cwd, "package.json")).toBe(content);
  }
});
