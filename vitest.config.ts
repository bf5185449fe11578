import { defaultServerConditions } from "vite";
import { defineConfig } from "vitest/config";

export default defineConfig({
  // Packages of this repository resolve to their sources, so that tests need no build.
  ssr: { resolve: { conditions: ["@holdfast/source", ...defaultServerConditions] } },
  test: {
    include: ["packages/*/test/**/*.test.ts", "scripts/*.test.mjs"],
    pool: "forks",
    execArgv: ["--expose-gc"],
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
});
