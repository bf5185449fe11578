// node scripts/errors-doc.mjs: generates docs/errors.md from the error catalogs.
// It reads the built packages, which `npm run docs` builds first.

import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { errorCatalog } from "@holdfast/core";
import { kvErrors } from "@holdfast/kv";
import { temporalErrors } from "@holdfast/temporal";
import { engineErrors } from "holdfast";
import { storeErrors } from "holdfast/store";

/**
 * @typedef {import("@holdfast/core").ErrorEntry} ErrorEntry
 * @typedef {import("holdfast").HostErrorEntry} HostErrorEntry
 * @typedef {{ core: readonly ErrorEntry[], engine: readonly HostErrorEntry[], store: readonly HostErrorEntry[], kv: readonly HostErrorEntry[], temporal: readonly HostErrorEntry[] }} Catalogs
 */

export const page = "docs/errors.md";

/** @param {Catalogs} catalogs */
export function errorsPage({ core, engine, store, kv, temporal }) {
  return `# Errors

Every error that Holdfast raises extends \`HoldfastError\`. It has a \`code\` that never changes, so that programs can match on it; a \`name\` equal to its class name; \`retryable\`, which says whether trying the same thing again helps; and a message that says what happened, where, and what to do.

\`npm run docs\` generates this page from the error catalogs: that of [the core](../packages/core/src/base/catalog.ts), whose errors any host may raise, that of [the engine and its stores](../packages/holdfast/src/errorCatalog.ts), that of [the key-value host](../packages/kv/src/errorCatalog.ts), and that of [the Temporal host](../packages/temporal/src/errorCatalog.ts).

| code | class | does retrying help? |
|---|---|---|
${core.map((entry) => row(entry, `[${entry.name}](#${entry.name.toLowerCase()})`)).join("\n")}

Errors of [the engine](#the-engine), of [stores](#stores), of [the key-value host](#the-key-value-host) and of [the Temporal host](#the-temporal-host) have these codes. Those without a class are plain \`HoldfastError\`s or \`StoreError\`s.

| code | class | does retrying help? |
|---|---|---|
${[...engine, ...store, ...kv, ...temporal].map((entry) => row(entry, entry.name ?? "")).join("\n")}

${core.map((entry) => section(`## ${entry.name}`, entry)).join("\n")}
## The engine

${engine.map((entry) => section(`### \`${entry.code}\``, entry)).join("\n")}
## Stores

All of them extend \`StoreError\`, which \`holdfast/store\` exports. A call that fails with one of these has written nothing. The exception is \`HF_STORE_UNAVAILABLE\`: if the answer to a call was lost and the store could not be reached to find out, the call may have been carried out. For stores, \`fault\` says what an error means for the other items of a batch; see [the batch contract](stores.md#the-rules).

${store.map((entry) => section(`### \`${entry.code}\``, entry)).join("\n")}
## The key-value host

It also raises some errors of the engine: those about messages, timeouts and cancelled steps.

${kv.map((entry) => section(`### \`${entry.code}\``, entry)).join("\n")}
## The Temporal host

It also raises errors of the engine: those about waiting, closing and lost workers.

${temporal.map((entry) => section(`### \`${entry.code}\``, entry)).join("\n")}
## The console

The HTTP API adds codes for tokens, roles, hosts and streams: [its errors](http.md#errors) have their statuses and exit codes. The command line adds these:

| code | exit code | what happened |
|---|---|---|
| \`HF_USAGE\` | 2 | An argument, an option or a value is wrong. |
| \`HF_CONFIG\` | 2 | The config file can't be loaded, or a key of it is unknown or wrong. |
| \`HF_NO_WORKFLOWS\` | 2 | No file matches \`entry\`. |
| \`HF_CODE\` | 2 | The code can't be loaded, or exports no workflow. The message names file and line. |
| \`HF_FILE_EXISTS\` | 4 | \`holdfast init\` would overwrite a file. |
| \`HF_RUN_FAILED\`, \`HF_CANCELED\`, \`HF_RUN_TERMINATED\`, \`HF_RUN_BLOCKED\` | 5 | The run whose result was asked for has not completed. |
| \`HF_DECLINED\` | 1 | A question was answered with no. Nothing was done. |
| \`HF_INTERRUPTED\` | 130 | The command was interrupted. What it began in the store goes on. |
| \`HF_ERROR\` | 1 | An error that has no code of its own. |
`;
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
  writeFileSync(
    join(root, page),
    errorsPage({ core: errorCatalog, engine: engineErrors, store: storeErrors, kv: kvErrors, temporal: temporalErrors }),
  );
}
