// node scripts/http-doc.mjs: writes the tables of docs/http.md from the table of routes and the list of errors of the console.
// It reads the built packages, which `npm run docs` builds first.

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { consoleErrors, ROUTE_IDS, ROUTES } from "@holdfast/cli/client";

export const page = "docs/http.md";

/** @param {string} text of the page, with tables that may be old */
export function withTables(text) {
  return replaced(replaced(text, "routes", routesTable()), "errors", errorsTable());
}

/** @param {string} text @param {string} name @param {string} table */
function replaced(text, name, table) {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${page} has no ${begin} … ${end}`);
  return `${text.slice(0, from + begin.length)}\n${table}\n${text.slice(to)}`;
}

function routesTable() {
  const rows = ROUTE_IDS.map((id) => {
    /** @type {{ method: string, path: string, role: string, summary: string, status?: number, query?: unknown }} */
    const { method, path, role, summary, status = 200, query } = ROUTES[id];
    const parameters = Object.keys(query === undefined ? {} : /** @type {{ shape: object }} */ (query).shape);
    const shown = parameters.map((name) => (name === "attr" ? "`attr.NAME`" : `\`${name}\``)).join(" ");
    return `| \`${method} ${path}\` | ${role} | ${status} | ${shown} | ${summary} |`;
  });
  return ["| route | role | status | parameters | |", "|---|---|---|---|---|", ...rows].join("\n");
}
function errorsTable() {
  const rows = consoleErrors.map(({ code, status, title, exitCode }) => `| \`${code}\` | ${status} | ${exitCode} | ${title} |`);
  return ["| code | status | exit code of the command line | |", "|---|---|---|---|", ...rows].join("\n");
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const path = join(resolve(import.meta.dirname, ".."), page);
  writeFileSync(path, withTables(readFileSync(path, "utf8")));
}
