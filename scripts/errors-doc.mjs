// node scripts/errors-doc.mjs: generates docs/errors.md from the error catalogs.
// It reads the built packages, which `npm run docs` builds first.

import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { errorCatalog } from "@holdfast/core";
import { kvErrors } from "@holdfast/kv";
import { engineErrors } from "holdfast";
import { storeErrors } from "holdfast/store";

/**
 * @typedef {import("@holdfast/core").ErrorEntry} ErrorEntry
 * @typedef {import("holdfast").HostErrorEntry} HostErrorEntry
 * @typedef {{ core: readonly ErrorEntry[], engine: readonly HostErrorEntry[], store: readonly HostErrorEntry[], kv: readonly HostErrorEntry[] }} Catalogs
 */

export const page = "docs/errors.md";

/** @param {Catalogs} catalogs */
export function errorsPage({ core, engine, store, kv }) {
  return `# Errors

Every error that Holdfast raises extends \`HoldfastError\`. It has a \`code\` that never changes, so that programs can match on it; a \`name\` equal to its class name; \`retryable\`, which says whether trying the same thing again helps; and a message that says what happened, where, and what to do.

\`npm run docs\` generates this page from the error catalogs: that of [the core](../packages/core/src/base/catalog.ts), whose errors any host may raise, that of [the engine and its stores](../packages/holdfast/src/errorCatalog.ts), and that of [the key-value host](../packages/kv/src/errorCatalog.ts).

| code | class | does retrying help? |
|---|---|---|
${core.map((entry) => row(entry, `[${entry.name}](#${entry.name.toLowerCase()})`)).join("\n")}

Errors of [the engine](#the-engine), of [stores](#stores) and of [the key-value host](#the-key-value-host) have these codes. Those without a class are plain \`HoldfastError\`s or \`StoreError\`s.

| code | class | does retrying help? |
|---|---|---|
${[...engine, ...store, ...kv].map((entry) => row(entry, entry.name ?? "")).join("\n")}

${core.map((entry) => section(`## ${entry.name}`, entry)).join("\n")}
## The engine

${engine.map((entry) => section(`### \`${entry.code}\``, entry)).join("\n")}
## Stores

All of them extend \`StoreError\`, which \`holdfast/store\` exports. A call that fails with one of these has written nothing.

${store.map((entry) => section(`### \`${entry.code}\``, entry)).join("\n")}
## The key-value host

It also raises some errors of the engine: those about messages, timeouts and cancelled steps.

${kv.map((entry) => section(`### \`${entry.code}\``, entry)).join("\n")}`;
}

/** @param {HostErrorEntry} entry @param {string} name */
function row({ code, retryable }, name) {
  return `| \`${code}\` | ${name} | ${retryable ? "yes" : "no"} |`;
}

/** @param {string} title @param {HostErrorEntry} entry */
function section(title, { code, retryable, summary, whatToDo }) {
  return `${title}
${title.includes(code) ? "" : `\nCode: \`${code}\`\n`}
What happened: ${summary}

What to do: ${whatToDo}

Does retrying help? ${retryable ? "Yes." : "No."}
`;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const root = resolve(import.meta.dirname, "..");
  writeFileSync(join(root, page), errorsPage({ core: errorCatalog, engine: engineErrors, store: storeErrors, kv: kvErrors }));
}
