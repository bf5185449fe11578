// The projects of the smoke test.
// Owns: which runtimes, compilers, test runners and frameworks there are, and how each is set up.
// Invariants: each is set up as its documentation says; what Holdfast needs in addition is in docs/platforms.md and docs/testing.md.

/**
 * @typedef {{
 *   name: string,
 *   runtime: string,
 *   packages?: string[],
 *   shown?: string,
 *   files: Record<string, string>,
 *   texts?: Record<string, string>,
 *   manifest?: object,
 *   build?: string[],
 *   command: string[],
 *   env?: Record<string, string>,
 *   server?: boolean,
 *   note?: string,
 * }} World
 * `files` are copied from programs/. The first word of `build` and `command` is a file of the project that the runtime runs; "bin:" stands
 * for an executable of node_modules/.bin. `shown` is the package whose version the table has.
 */

const trip = { "trip.mjs": "trip.mjs" };
const main = { ...trip, "main.mjs": "main.mjs" };
const tests = { ...trip, "body.mjs": "body.mjs" };
const ESM = { NODE_OPTIONS: "--experimental-vm-modules" };
const swc = (/** @type {string} */ type) => [
  "@swc/jest",
  { jsc: { parser: { syntax: "typescript" }, target: "es2022" }, module: { type } },
];

/** @param {string} version @returns {World} */
const typescript = (version) => ({
  name: `TypeScript ${version}`,
  runtime: "node-24",
  packages: [`typescript@${version}`, "@types/node@20"],
  shown: "typescript",
  files: { ...trip, "trip.d.mts": "trip.d.mts", "main.ts": "main.ts" },
  texts: {
    "tsconfig.json": JSON.stringify({
      compilerOptions: { module: "nodenext", target: "es2022", strict: true, exactOptionalPropertyTypes: true, types: ["node"] },
      files: ["main.ts"],
    }),
  },
  build: ["node_modules/typescript/bin/tsc"],
  command: ["main.js"],
  note: "strict, libraries checked",
});

/** @param {string} name @param {string[]} packages @returns {World} */
const server = (name, packages) => ({
  name,
  runtime: "node-24",
  packages,
  ...(packages[0] !== undefined && { shown: packages[0].replace(/(.)@.*/, "$1") }),
  files: { ...trip, "server.mjs": `${name.toLowerCase()}.mjs` },
  command: ["server.mjs"],
  server: true,
});

/** @type {World[]} */
export const worlds = [
  ...["20", "22", "24"].map((version) => ({ name: `Node ${version}`, runtime: `node-${version}`, files: main, command: ["main.mjs"] })),
  {
    name: "Node 20, CommonJS",
    runtime: "node-20",
    files: { ...trip, "main.cjs": "main.cjs" },
    command: ["main.cjs"],
    note: '`require("holdfast")`',
  },
  { name: "Bun", runtime: "bun", files: main, command: ["main.mjs"] },
  { name: "Deno", runtime: "deno", files: main, command: ["run", "-A", "main.mjs"] },
  typescript("5.9"),
  typescript("7"),
  {
    name: "vitest",
    runtime: "node-24",
    packages: ["vitest@latest"],
    shown: "vitest",
    files: { ...tests, "trip.test.mjs": "vitest.test.mjs" },
    command: ["node_modules/vitest/vitest.mjs", "run"],
  },
  { name: "node:test", runtime: "node-24", files: { ...tests, "trip.test.mjs": "node.test.mjs" }, command: ["--test", "trip.test.mjs"] },
  {
    name: "jest, ES modules",
    runtime: "node-20",
    packages: ["jest@30"],
    shown: "jest",
    files: { ...tests, "trip.test.mjs": "jest.test.mjs" },
    command: ["node_modules/jest/bin/jest.js"],
    env: ESM,
    note: "`--experimental-vm-modules`, default configuration",
  },
  {
    name: "jest, @swc/jest",
    runtime: "node-20",
    packages: ["jest@30", "@swc/jest", "@swc/core"],
    shown: "jest",
    // CommonJS: the test and what it imports have the extension .js.
    files: { "trip.js": "trip.mjs", "body.js": "body.mjs", "trip.test.js": "jest.test.mjs" },
    manifest: {
      jest: {
        transform: { "^.+\\.[jt]sx?$": swc("commonjs") },
        transformIgnorePatterns: ["/node_modules/(?!(holdfast|@holdfast|croner)/)"],
      },
    },
    command: ["node_modules/jest/bin/jest.js"],
    note: "CommonJS, `transformIgnorePatterns`",
  },
  {
    name: "jest, ts-jest",
    runtime: "node-24",
    packages: ["jest@30", "ts-jest@29", "typescript@5.9"],
    shown: "ts-jest",
    files: { ...tests, "trip.test.ts": "jest.test.mjs" },
    texts: {
      "tsconfig.json": JSON.stringify({
        compilerOptions: { module: "esnext", moduleResolution: "bundler", target: "es2022", isolatedModules: true, esModuleInterop: true },
      }),
    },
    manifest: { jest: { preset: "ts-jest/presets/default-esm" } },
    command: ["node_modules/jest/bin/jest.js"],
    env: ESM,
    note: "`--experimental-vm-modules`, preset `default-esm`",
  },
  server("Express", ["express@5"]),
  server("Hono", ["hono@4", "@hono/node-server"]),
  server("Fastify", ["fastify@5"]),
  {
    name: "Next",
    runtime: "node-24",
    packages: ["next@16", "react@19", "react-dom@19"],
    shown: "next",
    files: {
      ...trip,
      "instrumentation.js": "next.instrumentation.mjs",
      "app/layout.js": "next.layout.mjs",
      "app/[action]/route.js": "next.route.mjs",
    },
    texts: { "next.config.mjs": 'export default { serverExternalPackages: ["holdfast"] };\n' },
    build: ["node_modules/next/dist/bin/next", "build"],
    command: ["node_modules/next/dist/bin/next", "start"],
    env: { NEXT_TELEMETRY_DISABLED: "1" },
    server: true,
    note: "route handlers, `next build`, `serverExternalPackages`",
  },
];
