// Job: prove that what is published can be compiled against, whatever types a project has, and with which compiler.
// Owns: a project of its own, with the packages as they are packed.
// Invariants: none of the types need @types/node, or a lib that a project of today does not have; what compiles against the public surface
// as it was designed compiles against the packages, and what does not, does not.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { build, root } from "./built.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-types-"));
const require = createRequire(import.meta.url);
const COMPILERS = { "7": "typescript", "5.9": "typescript-5.9", "5.5": "typescript-5.5" } as const;
type Compiler = keyof typeof COMPILERS;

/** What the compiler says of a project of these files: nothing, if it compiles. */
function compiled(compiler: Compiler, files: readonly string[], options: object = {}): Promise<string> {
  const common = { target: "es2022", module: "nodenext", strict: true, exactOptionalPropertyTypes: true, noEmit: true, types: [] };
  const config = join(folder, `tsconfig.${compiler}.${files.join("-")}.${JSON.stringify(options).length}.json`);
  writeFileSync(config, JSON.stringify({ compilerOptions: { ...common, skipLibCheck: true, ...options }, files }));
  const program = join(dirname(require.resolve(`${COMPILERS[compiler]}/package.json`)), "bin/tsc");
  return new Promise((done) => {
    execFile(process.execPath, [program, "-p", config, "--pretty", "false"], { cwd: folder, encoding: "utf8" }, (_error, stdout, stderr) =>
      done(stdout + stderr),
    );
  });
}

/** Where misspelt.ts is wrong: the name of the signal, three times, and the currency. */
const PLACES = ["misspelt.ts(5", "misspelt.ts(6", "misspelt.ts(7", "misspelt.ts(8"];

beforeAll(() => {
  build();
  for (const [name, from] of [
    ["@holdfast/core", "packages/core"],
    ["@holdfast/host", "packages/host"],
    ["holdfast", "packages/holdfast"],
  ] as const) {
    const to = join(folder, "node_modules", name);
    mkdirSync(to, { recursive: true });
    cpSync(join(root, from, "package.json"), join(to, "package.json"));
    cpSync(join(root, from, "dist"), join(to, "dist"), { recursive: true });
  }
  mkdirSync(join(folder, "node_modules/@standard-schema"));
  for (const name of ["@standard-schema/spec", "zod", "valibot"])
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name), "junction");
  for (const name of ["calls.ts", "designed.ts"]) cpSync(join(import.meta.dirname, "types", name), join(folder, name));
  for (const name of ["seed-examples.ts", "surface.d.ts"]) cpSync(join(import.meta.dirname, "seed", name), join(folder, name));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(
    join(folder, "app.ts"),
    `import { Holdfast, workflow } from "holdfast";
import { testEngine } from "holdfast/testing";
const echo = workflow("echo", async (_ctx, input: number) => input);
const engine: AsyncDisposable = await Holdfast.open("memory:");
const worker: AsyncDisposable = await (await testEngine({ workflows: [echo] })).worker({ workflows: [echo] });
export { engine, worker };
`,
  );
  writeFileSync(
    join(folder, "misspelt.ts"),
    `import { Holdfast, signal, workflow } from "holdfast";
const order = workflow({ name: "order", signals: { approve: signal<{ by: string }>() } }, async (ctx) => ctx.waitForSignal("approve"));
const engine = await Holdfast.open("memory:");
const run = await engine.start(order);
await run.signal("aprove", { by: "ada" });
await engine.start(order, undefined, { signals: [{ name: "aprove", payload: { by: "ada" } }] });
await engine.startMany(order, [{ signals: [{ name: "aprove", payload: { by: "ada" } }] }]);
await engine.start(workflow("pay", async (_ctx, _input: { currency: "eur" | "usd" }) => {}), { currency: "gbp" });
`,
  );
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each<Compiler>(["7", "5.9", "5.5"])("under TypeScript %s", { timeout: 60_000 }, (compiler) => {
  const lib = ["es2023", "esnext.disposable", "dom"];

  // One is enough where a compiler takes its time.
  it.each(compiler === "7" ? ["es2022", "esnext"] : ["es2022"])(
    "the types compile for target %s, with libraries checked and without @types/node",
    async (target) => {
      expect(await compiled(compiler, ["app.ts"], { target, skipLibCheck: false })).toBe("");
    },
  );

  /** Where compiling fails, and what is said of it. */
  const failures = async (paths: Record<string, string[]>, ...files: string[]): Promise<[place: string | undefined, said: string][]> =>
    (await compiled(compiler, [...files, "calls.ts", "seed-examples.ts", "misspelt.ts"], { lib, paths }))
      .split(/^(?=\S)/m)
      .map((said) => [/^\S+\.ts\(\d+/.exec(said)?.[0], said]);

  it("every call compiles, or does not, as calls.ts says; of a misspelt name or a wrong literal the compiler names just that", async () => {
    const found = await failures({ designed: ["./surface.d.ts"] }, "designed.ts");
    expect(found.map(([place]) => place)).toEqual(PLACES);
    expect(found[0]?.[1]).toMatch(/"aprove"' is not assignable to parameter of type '"approve"'/);
    for (const [i, wrong] of ["aprove", "aprove", "aprove", "gbp"].entries()) expect(found[i]?.[1]).toContain(`"${wrong}"`);
  });

  if (compiler !== "7") return; // the design is the same for all
  it("all of that holds for the public surface as it was designed", async () => {
    expect((await failures({ holdfast: ["./surface.d.ts"] })).map(([place]) => place)).toEqual(PLACES);
  });
});
