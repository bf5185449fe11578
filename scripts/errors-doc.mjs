// node scripts/errors-doc.mjs: writes docs/errors.md from the catalog of errors, which is the one source of what it says.
// Reads the built core: `npm run docs` builds it first.

import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { errorCatalog } from "@holdfast/core";

export const page = "docs/errors.md";

/** @param {readonly import("@holdfast/core").ErrorEntry[]} catalog */
export function errorsPage(catalog) {
  const rows = catalog.map(
    ({ name, code, retryable }) => `| \`${code}\` | [${name}](#${name.toLowerCase()}) | ${retryable ? "yes" : "no"} |`,
  );
  return `# Errors

Every error that Holdfast raises extends \`HoldfastError\`. It has a \`code\` that never changes, so that programs can match on it; a \`name\` equal to its class name; \`retryable\`, which says whether trying the same thing again helps; and a message that says what happened, where, and what to do.

This page is made from the catalog in [catalog.ts](../packages/core/src/errors/catalog.ts) by \`npm run docs\`. Some of these errors are raised by hosts only.

| code | class | does retrying help? |
|---|---|---|
${rows.join("\n")}

${catalog.map(section).join("\n")}`;
}

/** @param {import("@holdfast/core").ErrorEntry} entry */
function section({ name, code, retryable, summary, whatToDo }) {
  return `## ${name}

Code: \`${code}\`

What happened: ${summary}

What to do: ${whatToDo}

Does retrying help? ${retryable ? "Yes." : "No."}
`;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  writeFileSync(join(resolve(import.meta.dirname, ".."), page), errorsPage(errorCatalog));
}
