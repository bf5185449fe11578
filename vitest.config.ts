import { defaultServerConditions } from "vite";
import { defineConfig } from "vitest/config";

export default defineConfig({
  // Packages of this repository resolve to their sources, so that tests need no build.
  ssr: { resolve: { conditions: ["@holdfast/source", ...defaultServerConditions] } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "{scripts,simulation}/*.test.mjs"],
    // One PostgreSQL for all files that ask for it, started when the first one does.
    globalSetup: ["packages/postgres-server/src/globalSetup.ts"],
    pool: "forks",
    execArgv: ["--expose-gc"],
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
});
