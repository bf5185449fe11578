// Where the settings of a command come from, and what is refused.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { resolveSettings, type SettingFlags } from "../../src/config/settings.ts";
import { printableUrl } from "../../src/config/url.ts";
import { project } from "../code/projects.ts";

const settingsOf = (cwd: string, flags: SettingFlags = {}, env: Record<string, string> = {}) => resolveSettings(flags, env, cwd);
const config = (fields: string) => `import { defineConfig } from "@holdfast/cli/config";\nexport default defineConfig(${fields});\n`;
async function refusal(work: Promise<unknown>): Promise<{ exitCode: unknown; message: string }> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown as Error & { exitCode: unknown },
  );
  if (error === undefined) throw new Error("It was accepted.");
  return { exitCode: error.exitCode, message: error.message };
}

describe("the url", () => {
  test("is a file in the working directory without any settings", async () => {
    const folder = project();
    await expect(settingsOf(folder)).resolves.toMatchObject({
      url: `file:${folder}/.holdfast/holdfast.db`,
      configFile: undefined,
      entry: undefined,
      workers: [{}],
      server: {},
    });
  });

  test("is taken from the flag, then the environment, then the configuration", async () => {
    const folder = project({ "holdfast.config.ts": config('{ url: "file:./config.db" }') });
    await expect(settingsOf(folder)).resolves.toMatchObject({ url: `file:${folder}/config.db` });
    await expect(settingsOf(folder, {}, { HOLDFAST_URL: "file:env.db" })).resolves.toMatchObject({ url: `file:${folder}/env.db` });
    await expect(settingsOf(folder, { url: "file:flag.db" }, { HOLDFAST_URL: "file:env.db" })).resolves.toMatchObject({
      url: `file:${folder}/flag.db`,
    });
    await expect(settingsOf(folder, {}, { HOLDFAST_URL: "" })).resolves.toMatchObject({ url: `file:${folder}/config.db` });
  });

  test("counts from the folder of the configuration, by flag and environment from the working directory", async () => {
    const folder = project({ "holdfast.config.mjs": 'export default { url: "file:data/app.db?synchronous=NORMAL" };' });
    const inner = join(folder, "a/b");
    mkdirSync(inner, { recursive: true });
    await expect(settingsOf(inner)).resolves.toMatchObject({ url: `file:${folder}/data/app.db?synchronous=NORMAL`, root: folder });
    await expect(settingsOf(inner, { url: "file:x.db" })).resolves.toMatchObject({ url: `file:${inner}/x.db` });
    await expect(settingsOf(inner, {}, { HOLDFAST_URL: "file:../x.db" })).resolves.toMatchObject({ url: `file:${folder}/a/x.db` });
  });

  test("of the default counts from the folder of the configuration, so that every folder of a project has the same store", async () => {
    const folder = project({ "holdfast.config.mjs": "export default {};", "sub/x.txt": "" });
    await expect(settingsOf(join(folder, "sub"))).resolves.toMatchObject({ url: `file:${folder}/.holdfast/holdfast.db` });
  });

  test("may be absolute, of a server or of a dashboard", async () => {
    const folder = project();
    for (const url of ["file:/data/app.db", "file:///data/app.db", "postgres://u:p@h/d", "temporal://h:7233/n", "https://h/x", "memory:"])
      await expect(settingsOf(folder, { url })).resolves.toMatchObject({ url });
  });

  test("may have its scheme in any case", async () => {
    const folder = project();
    await expect(settingsOf(folder, { url: "FILE:x.db" })).resolves.toMatchObject({ url: `file:${folder}/x.db` });
    await expect(settingsOf(folder, { url: "HTTPS://h/X" })).resolves.toMatchObject({ url: "https://h/X" });
  });

  test("of a console goes with no namespace, and that of a store with no token", async () => {
    const folder = project({ "holdfast.config.mjs": 'export default { namespace: "mine" };' });
    const console = "https://h/x";
    const asked = [
      refusal(settingsOf(folder, { url: console, namespace: "two" })),
      refusal(settingsOf(folder, { namespace: "two" }, { HOLDFAST_URL: console })),
      refusal(settingsOf(project({ "holdfast.config.mjs": `export default { url: "${console}", namespace: "two" };` }))),
    ];
    for (const one of asked)
      await expect(one).resolves.toEqual({ exitCode: 2, message: expect.stringMatching(/namespace"? has no effect .*server decides/) });
    await expect(refusal(settingsOf(folder, { url: "postgres://u:secret@h/d", hasToken: true }))).resolves.toEqual({
      exitCode: 2,
      message: expect.stringMatching(/^--token is for .* postgres:\/\/u@h\/d is a store/),
    });
    // The namespace of the config is that of its own store.
    await expect(settingsOf(folder, { url: console, hasToken: true })).resolves.toMatchObject({ url: console });
    await expect(settingsOf(folder, { namespace: "two" })).resolves.toMatchObject({ namespace: "two" });
  });

  test.each(["mysql://u:secret@h/d", "app.db", ""])("%j is refused, and no password is shown", async (url) => {
    const { exitCode, message } = await refusal(settingsOf(project(), { url }));
    expect(exitCode).toBe(2);
    expect(message).toContain("--url");
    expect(message).not.toContain("secret");
  });

  test.each([
    ["postgres://user:pa:s@s/w?o#rd@host:5432/db?sslmode=require", "postgres://user@host:5432/db?sslmode=require"],
    ["postgres://host/db?user=u&password=secret", "postgres://host/db?user=…&password=…"],
    ["postgres://user@host/db", "postgres://user@host/db"],
    ["temporal://host:7233/default?queue=q", "temporal://host:7233/default?queue=q"],
    ["http://127.0.0.1:4747/#token=secret", "http://127.0.0.1:4747/"],
    ["file:/a b/@x.db?synchronous=NORMAL", "file:/a b/@x.db?synchronous=NORMAL"],
    ["memory:", "memory:"],
    ["host=h password=secret", "…"],
  ])("%s is shown as %s", (url, shown) => {
    expect(printableUrl(url)).toBe(shown);
  });
});

describe("the configuration file", () => {
  test("is found in the nearest folder, TypeScript first", async () => {
    const folder = project({
      "holdfast.config.js": 'export default { namespace: "outer" };',
      "inner/holdfast.config.ts": config('{ namespace: "inner" as string }'),
      "inner/holdfast.config.mjs": 'export default { namespace: "other" };',
    });
    mkdirSync(join(folder, "inner/deep"));
    await expect(settingsOf(join(folder, "inner/deep"))).resolves.toMatchObject({
      namespace: "inner",
      configFile: join(folder, "inner/holdfast.config.ts"),
    });
    await expect(settingsOf(folder)).resolves.toMatchObject({ namespace: "outer" });
  });

  test("above the repository is not used", async () => {
    const folder = project({ "holdfast.config.mjs": "export default {};" });
    const inner = join(folder, "repository/src");
    mkdirSync(join(folder, "repository/.git"), { recursive: true });
    mkdirSync(inner);
    await expect(settingsOf(inner)).resolves.toMatchObject({ configFile: undefined });
  });

  test("is the one that --config or HOLDFAST_CONFIG names", async () => {
    const folder = project({
      "a.mjs": 'export default { namespace: "a" };',
      "b.mts": 'export default { namespace: "b" satisfies string };',
      "holdfast.config.mjs": 'export default { namespace: "found" };',
    });
    await expect(settingsOf(folder, { config: "a.mjs" }, { HOLDFAST_CONFIG: "b.mts" })).resolves.toMatchObject({ namespace: "a" });
    await expect(settingsOf(folder, {}, { HOLDFAST_CONFIG: "b.mts" })).resolves.toMatchObject({ namespace: "b" });
    await expect(refusal(settingsOf(folder, { config: "c.mjs" }))).resolves.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining("c.mjs"),
    });
    await expect(refusal(settingsOf(folder, {}, { HOLDFAST_CONFIG: "d.mjs" }))).resolves.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining("HOLDFAST_CONFIG"),
    });
  });

  test("may have a codec, entries, workers and a server", async () => {
    const folder = project({
      "holdfast.config.ts": config(`{
        namespace: "n", entry: "src/*.ts",
        codec: { encode: (value: unknown) => JSON.stringify(value), decode: (data) => JSON.parse(String(data)) },
        workers: [{ queue: "a", concurrency: 2, activityConcurrency: 3 }],
        server: { port: 0, host: "0.0.0.0", allowedHosts: ["x.example"], readOnly: true,
          tokens: [{ name: "ci", hash: "sha256:${"a".repeat(64)}", role: "read", values: true }] },
      }`),
    });
    await expect(settingsOf(folder)).resolves.toMatchObject({
      namespace: "n",
      entry: ["src/*.ts"],
      codec: { encode: expect.any(Function) },
      workers: [{ queue: "a", concurrency: 2, activityConcurrency: 3 }],
      server: { port: 0, tokens: [{ name: "ci", role: "read" }] },
    });
    await expect(settingsOf(folder, { namespace: "flag" })).resolves.toMatchObject({ namespace: "flag" });
    await expect(refusal(settingsOf(folder, { namespace: "a b" }))).resolves.toMatchObject({ exitCode: 2 });
  });

  test.each([
    ["{ ulr: 1 }", '"ulr"'],
    ['{ server: { prot: 1, host: "h" } }', '"server.prot"'],
    ["{ server: { port: 70000 } }", '"server.port"'],
    ["{ workers: [{}, { concurrency: 0 }] }", '"workers[1].concurrency"'],
    ["{ workers: [{ lease: 1 }] }", '"workers[0].lease"'],
    ['{ server: { tokens: [{ name: "ci", hash: "sha256:secret", role: "read" }] } }', '"server.tokens[0].hash"'],
    [`{ server: { tokens: [{ name: "ci", hash: "sha256:${"A".repeat(64)}", role: "root" }] } }`, '"server.tokens[0].role"'],
    [`{ server: { tokens: [{ hash: "sha256:${"a".repeat(64)}", role: "read" }] } }`, '"server.tokens[0].name"'],
    [`{ server: { tokens: [{ name: "a", token: "t", hash: "sha256:${"a".repeat(64)}", role: "read" }] } }`, '"server.tokens[0].token"'],
    ["{ entry: [] }", '"entry"'],
    ["{ entry: [1] }", '"entry[0]"'],
    ["{ codec: {} }", '"codec"'],
    ['{ namespace: "a/b" }', '"namespace"'],
    ["[]", "the default export"],
    ["undefined", "the default export"],
    ['{ ["__proto__"]: 1 }', '"__proto__"'],
  ])("%s is refused with the key named", async (fields, key) => {
    const { exitCode, message } = await refusal(settingsOf(project({ "holdfast.config.mjs": `export default ${fields};` })));
    expect(exitCode).toBe(2);
    expect(message).toContain(`holdfast.config.mjs: ${key}`);
    expect(message).not.toContain("secret");
  });

  test("without a default export is refused", async () => {
    const { exitCode, message } = await refusal(settingsOf(project({ "holdfast.config.mjs": "export const url = 1;" })));
    expect({ exitCode, message }).toMatchObject({ exitCode: 2, message: expect.stringContaining("default export is missing") });
  });

  test("that throws, or is not TypeScript, is refused with file and line", async () => {
    const throws = project({ "holdfast.config.mjs": 'const a = 1;\n\nthrow new Error("no database");\n' });
    await expect(refusal(settingsOf(throws))).resolves.toEqual({
      exitCode: 2,
      message: expect.stringMatching(/holdfast\.config\.mjs:3: no database/),
    });
  });

  test("that ends the process is refused", async () => {
    const { exit } = process;
    for (const code of ["process.exit(0);", "try {\n  process.exit(0);\n} catch {}\nexport default {};"]) {
      await expect(refusal(settingsOf(project({ "holdfast.config.mjs": code })))).resolves.toEqual({
        exitCode: 2,
        message: expect.stringMatching(/holdfast\.config\.mjs:\d: .*process\.exit\(0\)/),
      });
    }
    expect(process.exit).toBe(exit);
  });
});
