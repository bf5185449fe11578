import { defineConfig } from "@holdfast/cli/config";

export default defineConfig({
  // Where runs are kept: a file for one machine, a Postgres url for several. HOLDFAST_URL in the environment wins.
  url: "file:.holdfast/holdfast.db",
  entry: "workflows/**/*.ts",
});
