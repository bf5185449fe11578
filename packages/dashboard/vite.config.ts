// How the page is built: one script, one style sheet, one icon, into the package that serves them.
// The server writes the path that it is mounted at into index.html: there, every URL is below the root.

import { defineConfig } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../cli/dist/dashboard",
    emptyOutDir: true,
    target: "es2023",
    // Inlined assets would need `data:` in the page's content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
});
