// What would be published: the metadata of each package, the files in its tarball, its size, and that it can be imported and required.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, posix } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { installedSizes, LIMIT, satisfies } from "./installSize.mjs";
import { installPacked, pack, publicPackages, runIn } from "./packed.mjs";
import { build, root, workspacePackages } from "./setup.mjs";

const folder = mkdtempSync(join(tmpdir(), "holdfast-packages-"));
const packages = publicPackages();
/** @type {import("./packed.mjs").Packed[]} */
let packed;
beforeAll(async () => {
  const { ok, output } = await build();
  if (!ok) throw new Error(output);
  packed = await pack(
    packages.map(({ name }) => name),
    folder,
  );
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const URL = "https://github.com/holdfast-dev/holdfast";

describe.each(packages.map((one) => [one.name, one]))("%s", (name, { dir, manifest }) => {
  const files = () => packed.find((one) => one.name === name)?.files ?? [];

  test("says what it is and where it comes from", () => {
    expect(manifest).toMatchObject({
      version: publicPackages().find((one) => one.name === "holdfast")?.manifest.version,
      description: expect.stringMatching(/^\S.{20,}[^.]$/),
      keywords: expect.arrayContaining([expect.any(String)]),
      license: "MIT",
      homepage: `${URL}/tree/main/packages/${basename(dir)}#readme`,
      bugs: { url: `${URL}/issues` },
      repository: { type: "git", url: `git+${URL}.git`, directory: `packages/${basename(dir)}` },
      engines: { node: expect.stringMatching(/^>=20\.19/) },
      publishConfig: { access: "public", provenance: true },
    });
    expect(manifest).toHaveProperty("sideEffects");
  });

  test("depends on packages of this repository in exactly this version", () => {
    const own = new Set(workspacePackages().map((one) => one.manifest.name));
    const groups = ["dependencies", "optionalDependencies", "peerDependencies", "devDependencies"];
    const named = groups.flatMap((group) => Object.entries(manifest[group] ?? {})).filter(([dependency]) => own.has(dependency));
    expect(named.filter(([, range]) => range !== manifest.version)).toEqual([]);
  });

  test("depends on what its dependencies require beside them: some package managers install only what is named", () => {
    const named = { ...manifest.dependencies, ...manifest.optionalDependencies };
    const given = { ...named, ...manifest.peerDependencies };
    const missing = Object.keys(named).flatMap((dependency) => {
      const place = [dir, root].map((one) => join(one, "node_modules", dependency, "package.json")).find((path) => existsSync(path));
      const { peerDependencies = {}, peerDependenciesMeta = {} } = place === undefined ? {} : JSON.parse(readFileSync(place, "utf8"));
      return Object.keys(peerDependencies).filter((peer) => !(peer in given || peerDependenciesMeta[peer]?.optional));
    });
    expect(missing).toEqual([]);
  });

  test("has its README and licence, and no tests or caches", () => {
    expect(files()).toEqual(expect.arrayContaining(["README.md", "LICENSE", "package.json"]));
    expect(readFileSync(join(dir, "LICENSE"), "utf8")).toBe(readFileSync(join(root, "LICENSE"), "utf8"));
    // The template of a project has a test.
    const strange = files().filter((path) => !path.startsWith("template/") && /(^|\/)test\/|\.test\.|tsbuildinfo|\.tgz$|\.log$/.test(path));
    expect(strange).toEqual([]);
  });

  test("has every file that package.json names", () => {
    /** @param {unknown} value @returns {string[]} */
    const paths = (value) => (typeof value === "string" ? [value] : Object.values(value ?? {}).flatMap(paths));
    const named = [...paths(manifest.exports), ...paths(manifest.bin), ...paths(manifest.main)].map((path) => path.replace(/^\.\//, ""));
    expect(named.filter((path) => !files().includes(path))).toEqual([]);
    const effects = Array.isArray(manifest.sideEffects) ? manifest.sideEffects : [];
    expect(effects.filter((/** @type {string} */ path) => !files().includes(path.replace(/^\.\//, "")))).toEqual([]);
  });

  test("has source maps that lead to sources in the tarball", () => {
    const lost = files()
      .filter((path) => path.endsWith(".map"))
      .flatMap((path) => {
        const { sources, sourcesContent } = JSON.parse(readFileSync(join(dir, path), "utf8"));
        return sourcesContent
          ? []
          : sources
              .map((/** @type {string} */ source) => posix.join(posix.dirname(path), source))
              .filter((/** @type {string} */ one) => !files().includes(one));
      });
    expect(lost).toEqual([]);
    const unmapped = files()
      .filter((path) => /^dist\/.*\.js$/.test(path))
      .filter((path) => {
        const [, map] = /\/\/# sourceMappingURL=(\S+)\s*$/.exec(readFileSync(join(dir, path), "utf8")) ?? [];
        return map !== undefined && !files().includes(posix.join(posix.dirname(path), map));
      });
    expect(unmapped).toEqual([]);
  });
});

describe("installed size of holdfast, in megabytes", () => {
  const MEGABYTE = 1_000_000;
  const linux = { os: "linux", cpu: "x64", libc: "glibc" };
  const size = (/** @type {string} */ node) => {
    const sizes = installedSizes("holdfast", { node, ...linux }, packed);
    return { sizes, megabytes: [...sizes.values()].reduce((sum, one) => sum + one, 0) / MEGABYTE };
  };
  test(`at most ${LIMIT} where Node's own SQLite is used`, () => {
    for (const node of ["22.20.0", "24.7.0", "26.0.0"]) {
      const { sizes, megabytes } = size(node);
      expect([...sizes.keys()].filter((name) => name.includes("libsql"))).toEqual([]);
      expect(megabytes).toBeLessThan(LIMIT);
      // If it is far below, the limit no longer guards anything.
      expect(megabytes).toBeGreaterThan(LIMIT * 0.7);
    }
  });
  test("libsql comes on top where it is needed", () => {
    for (const node of ["20.19.0", "22.19.0", "23.11.0", "24.6.0"]) expect([...size(node).sizes.keys()]).toContain("node_modules/libsql");
    if (process.platform === "linux") expect(size("20.19.0").megabytes).toBeLessThan(LIMIT + 21);
  });
  test("nothing else asks for libsql: npm would keep it when it leaves out the package that depends on it", () => {
    const asking = packages.filter(({ manifest }) =>
      ["dependencies", "peerDependencies"].some((group) => "libsql" in (manifest[group] ?? {})),
    );
    expect(asking.map(({ name }) => name)).toEqual(["@holdfast/libsql"]);
  });
  test("the versions of Node that need libsql are those that its package names", () => {
    const range = publicPackages().find(({ name }) => name === "@holdfast/libsql")?.manifest.engines.node;
    const needed = (/** @type {string} */ version) => satisfies(version, range);
    expect(["20.19.0", "22.13.0", "22.19.9", "23.11.1", "24.6.0"].filter((version) => !needed(version))).toEqual([]);
    expect(["22.20.0", "22.23.3", "24.7.0", "24.21.0", "26.0.0"].filter(needed)).toEqual([]);
  });
});

const PROGRAM = `
const run = await engine.start(greet, "Ada");
console.log(await run.result());
await engine.close();`;
const WORKFLOW = `const greet = workflow("greet", async (ctx, name) => ctx.step("compose", () => "Hello, " + name));`;

test("a project can import and require what was packed", { timeout: 120_000 }, async () => {
  await installPacked(folder, packed);
  writeFileSync(
    join(folder, "required.cjs"),
    `const { Holdfast, workflow } = require("holdfast");
const { testEngine } = require("holdfast/testing");
${WORKFLOW}
(async () => {
const engine = await Holdfast.open("file:./required.db");
await engine.worker({ workflows: [greet] });${PROGRAM}
await (await testEngine({ workflows: [greet] })).close();
})();`,
  );
  writeFileSync(
    join(folder, "imported.mjs"),
    `import { Holdfast, workflow } from "holdfast";
${WORKFLOW}
const engine = await Holdfast.open("file:./imported.db");
await engine.worker({ workflows: [greet] });${PROGRAM}`,
  );
  for (const file of ["required.cjs", "imported.mjs"])
    expect(await runIn(process.execPath, [file], { cwd: folder })).toEqual({ code: 0, stdout: "Hello, Ada\n", stderr: "" });
  // TypeScript lets a CommonJS file import an ES module, as docs/stability.md says.
  writeFileSync(join(folder, "required.cts"), 'import { workflow } from "holdfast";\nexport = workflow("empty", async () => {});\n');
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--types", "node", "required.cts"];
  for (const module of ["nodenext", "node20"])
    expect(await runIn(join(folder, "node_modules/.bin/tsc"), ["--module", module, ...options], { cwd: folder })).toEqual({
      code: 0,
      stdout: "",
      stderr: "",
    });
  // Every door of every package, except those that are programs or need a package that users bring along.
  const doors = packages.flatMap(({ name, manifest }) =>
    Object.keys(manifest.exports)
      .map((door) => posix.join(name, door))
      .filter((door) => !/package\.json$|^@holdfast\/(libsql|cli\/register)$/.test(door)),
  );
  const required = `for (const door of ${JSON.stringify(doors)}) if (Object.keys(require(door)).length === 0) console.log(door);`;
  expect(await runIn(process.execPath, ["-e", required], { cwd: folder })).toEqual({ code: 0, stdout: "", stderr: "" });
});

describe("versions", () => {
  test("all packages get the same version, by changesets", () => {
    const { fixed, access } = JSON.parse(readFileSync(join(root, ".changeset/config.json"), "utf8"));
    expect(access).toBe("public");
    const covers = (/** @type {string} */ name) =>
      fixed[0].some((/** @type {string} */ one) => one === name || (one.endsWith("/*") && name.startsWith(one.slice(0, -1))));
    expect(workspacePackages().filter(({ manifest }) => !covers(manifest.name))).toEqual([]);
  });
  test("the changelog has an entry for this version", () => {
    const { version } = packages.find(({ name }) => name === "holdfast")?.manifest ?? {};
    expect(readFileSync(join(root, "CHANGELOG.md"), "utf8")).toContain(`## ${version}`);
    expect(existsSync(join(root, "SECURITY.md"))).toBe(true);
  });
});
