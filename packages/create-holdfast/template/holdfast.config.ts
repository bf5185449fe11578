import { defineConfig } from "@holdfast/cli/config";

export default defineConfig({
  // Where runs are kept. HOLDFAST_URL in the environment wins. With several machines: a Postgres url.
  url: "file:.holdfast/holdfast.db",
  entry: "workflows/**/*.ts",
});
