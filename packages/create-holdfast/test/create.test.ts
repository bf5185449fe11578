// `npm create holdfast`: its arguments, its questions, and what it writes.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { create } from "../src/create.ts";
import { managerOf } from "../src/manager.ts";

const made: string[] = [];
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "create-holdfast-"));
  made.push(folder);
  return folder;
}
const read = (...path: string[]): string => readFileSync(join(...path), "utf8");

interface Called {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  readonly asked: readonly string[];
}

/** With answers there is a terminal. */
async function call(args: readonly string[], cwd: string, given: { answers?: readonly string[]; agent?: string } = {}): Promise<Called> {
  let out = "";
  let err = "";
  const asked: string[] = [];
  const { answers, agent } = given;
  const code = await create(args, {
    cwd,
    env: { npm_config_user_agent: agent },
    write: (text) => {
      out += text;
    },
    complain: (text) => {
      err += text;
    },
    ask:
      answers &&
      (async (question) => {
        asked.push(question);
        return answers[asked.length - 1] ?? "";
      }),
  });
  return { code, out, err, asked };
}

test("with SQLite", async () => {
  const cwd = newFolder();
  expect(await call(["shop", "--store", "sqlite"], cwd)).toMatchObject({ code: 0, err: "", asked: [] });
  expect(JSON.parse(read(cwd, "shop/package.json"))).toMatchObject({
    name: "shop",
    type: "module",
    dependencies: { holdfast: expect.stringMatching(/^\^\d/) },
    devDependencies: { "@holdfast/cli": expect.stringMatching(/^\^\d/), vitest: expect.any(String), typescript: expect.any(String) },
  });
  expect(read(cwd, "shop/holdfast.config.ts")).toContain('entry: "src/workflows/**/*.ts"');
  expect(read(cwd, "shop/src/worker.ts")).toContain("file:.holdfast/holdfast.db");
  expect(read(cwd, "shop/.gitignore")).toBe("node_modules/\n.holdfast/\ndist/\n");
  expect(read(cwd, "shop/.github/workflows/ci.yml")).toContain("npx holdfast replay --github histories/*.json");
});

test("with Postgres: its package, its url, and a database for development", async () => {
  const cwd = newFolder();
  const { code, out } = await call(["shop", "--store", "postgres", "--yes"], cwd);
  expect(code).toBe(0);
  expect(out).toContain("  docker compose up -d --wait\n  npx holdfast migrate\n  npm run dev\n");
  const url = "postgres://postgres:holdfast@localhost:5432/app";
  for (const file of ["holdfast.config.ts", "src/worker.ts", "README.md"]) {
    expect(read(cwd, "shop", file)).toContain(url);
    expect(read(cwd, "shop", file)).not.toContain("file:.holdfast");
  }
  expect(JSON.parse(read(cwd, "shop/package.json")).dependencies).toHaveProperty("@holdfast/postgres");
  expect(read(cwd, "shop/compose.yaml")).toContain("POSTGRES_PASSWORD: holdfast");
  // Without it, --wait does not wait for the database.
  expect(read(cwd, "shop/compose.yaml")).toContain("healthcheck:");
});

test("no placeholder is left in a file", async () => {
  for (const agent of ["npm/11.0.0", "pnpm/10.0.0", "yarn/4.0.0", "bun/1.0.0"]) {
    for (const store of ["sqlite", "postgres"]) {
      const cwd = newFolder();
      expect((await call([".", "--store", store], cwd, { agent })).code).toBe(0);
      const files = readdirSync(cwd, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      expect(files.length).toBeGreaterThan(9);
      for (const { parentPath, name } of files) expect(read(parentPath, name)).not.toMatch(/\{\{\S|undefined/);
    }
  }
});

describe("questions", () => {
  test("on a terminal it asks for what is missing", async () => {
    const cwd = newFolder();
    const { code, asked } = await call([], cwd, { answers: ["shop", "postgres"] });
    expect([code, asked.length]).toEqual([0, 2]);
    expect(read(cwd, "shop/src/worker.ts")).toContain("postgres://");
  });
  test("an empty answer is the default", async () => {
    const cwd = newFolder();
    expect((await call([], cwd, { answers: ["", ""] })).code).toBe(0);
    expect(read(cwd, "holdfast-app/src/worker.ts")).toContain("file:");
  });
  test("what is given is not asked for, and --yes asks nothing", async () => {
    expect((await call(["shop", "--store", "sqlite"], newFolder(), { answers: [] })).asked).toEqual([]);
    expect((await call(["--yes"], newFolder(), { answers: [] })).asked).toEqual([]);
  });
  test("the folder is checked before the next question", async () => {
    const cwd = newFolder();
    writeFileSync(join(cwd, "mine"), "");
    expect(await call([], cwd, { answers: ["."] })).toMatchObject({ code: 4, asked: [expect.stringContaining("Folder")] });
  });
  test("without a terminal a folder or --yes is needed", async () => {
    const cwd = newFolder();
    expect(await call([], cwd)).toMatchObject({ code: 2, err: expect.stringContaining("HF_USAGE") });
    expect(readdirSync(cwd)).toEqual([]);
    expect((await call(["--yes"], cwd)).code).toBe(0);
  });
});

describe("nothing is overwritten", () => {
  test("a folder with files is refused, by name", async () => {
    const cwd = newFolder();
    mkdirSync(join(cwd, "shop"));
    for (const name of ["a", "b", "c", "d", "e"]) writeFileSync(join(cwd, "shop", name), "mine");
    const { code, out, err } = await call(["shop"], cwd);
    expect([code, out]).toEqual([4, ""]);
    expect(err).toContain('"shop" has files already: a, b, c and 2 more. Nothing was written.');
    expect(readdirSync(join(cwd, "shop")).length).toBe(5);
  });
  test("a file is refused", async () => {
    const cwd = newFolder();
    writeFileSync(join(cwd, "shop"), "mine");
    expect(await call(["shop"], cwd)).toMatchObject({ code: 4, out: "", err: expect.stringContaining("is a file") });
    expect(read(cwd, "shop")).toBe("mine");
  });
  test("an empty folder and a new repository are used", async () => {
    const cwd = newFolder();
    mkdirSync(join(cwd, ".git"));
    const { code, out } = await call(["."], cwd);
    expect(code).toBe(0);
    expect(out).not.toContain("cd ");
  });
});

describe("arguments", () => {
  test.each([
    [["shop", "--stor", "sqlite"], "--stor"],
    [["shop", "--store", "redis"], "Stores: sqlite, postgres"],
    [["shop", "sqlite"], "two dashes"],
    [[""], "empty"],
  ])("%j is refused: 2", async (args, reason) => {
    const cwd = newFolder();
    expect(await call(args, cwd)).toMatchObject({ code: 2, out: "", err: expect.stringContaining(reason) });
    expect(readdirSync(cwd)).toEqual([]);
  });
  test("--help and --version write nothing but text", async () => {
    const cwd = newFolder();
    expect(await call(["--help"], cwd)).toMatchObject({ code: 0, out: expect.stringContaining("--store sqlite|postgres") });
    expect(await call(["-v"], cwd)).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
    expect(readdirSync(cwd)).toEqual([]);
  });
});

describe("package managers", () => {
  test.each([
    ["npm/11.0.0 node/v24.0.0 linux x64", ["npm install", "npm run dev"], "npm ci", "npx holdfast"],
    ["pnpm/10.0.0 npm/? node/v24.0.0 linux x64", ["pnpm install", "pnpm dev"], "pnpm install --frozen-lockfile", "pnpm exec holdfast"],
    [
      "yarn/1.22.0 npm/? node/v24.0.0 linux x64",
      ["yarn install", "yarn dev"],
      "yarn install && git diff --exit-code yarn.lock",
      "yarn -s holdfast",
    ],
    [
      "yarn/4.1.0 npm/? node/v24.0.0 linux x64",
      ["yarn install", "yarn dev"],
      "yarn install && git diff --exit-code yarn.lock",
      "yarn holdfast",
    ],
    ["bun/1.3.0 npm/? node/v24.0.0 linux x64", ["bun install", "bun run dev"], "bun install --frozen-lockfile", "bunx holdfast"],
    ["other/1.0.0", ["npm install", "npm run dev"], "npm ci", "npx holdfast"],
  ])("%s", async (agent, next, locked, exec) => {
    const cwd = newFolder();
    const { out } = await call(["shop"], cwd, { agent });
    expect(out.split("Next:\n")[1]).toBe(["cd shop", ...next].map((line) => `  ${line}\n`).join(""));
    const ci = read(cwd, "shop/.github/workflows/ci.yml");
    expect(ci).toContain(`- run: ${locked}\n`);
    expect(ci).toContain(`run: ${exec} replay --min 1`);
  });
  test("yarn 2 and later keeps packages in node_modules, and CI uses the same version of it", async () => {
    const agents = ["yarn/1.22.0", "yarn/4.1.0", "npm/11.0.0"];
    expect(agents.map((agent) => managerOf(agent).needsYarnrc)).toEqual([false, true, false]);
    const pinned = agents.map(async (agent) => {
      const cwd = newFolder();
      await call(["shop"], cwd, { agent });
      return JSON.parse(read(cwd, "shop/package.json")).packageManager;
    });
    expect(await Promise.all(pinned)).toEqual([undefined, "yarn@4.1.0", undefined]);
    const ignored = read(made.at(-2) ?? "", "shop/.gitignore").split("\n");
    expect(ignored).toContain(".yarn/install-state.gz");
  });
});
