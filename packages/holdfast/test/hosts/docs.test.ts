// docs/hosts.md says of the embedded host what the suite leaves out for each store.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { LACKS } from "./lacks.ts";

/** What a host lacks by the table "What a host can't offer": the last column names it, where its cell begins with "no". */
function lacksOf(host: string): string[] {
  const page = readFileSync(new URL("../../../../docs/hosts.md", import.meta.url), "utf8");
  const rows = page
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) => line.split("|").map((cell) => cell.trim()));
  const head = rows.findIndex((row) => row.at(-2) === "left out of the suite as");
  const column = rows[head]?.indexOf(host) ?? -1;
  expect(column, host).toBeGreaterThan(0);
  return rows.slice(head + 1).flatMap((row) => {
    const [, name] = /^`(\w+)`$/.exec(row.at(-2) ?? "") ?? [];
    return name !== undefined && /^no\b/.test(row[column] ?? "") ? [name] : [];
  });
}

test.each(["memory", "SQLite", "Postgres"] as const)("docs/hosts.md agrees with what the embedded host lacks on %s", (host) => {
  expect(lacksOf(host).toSorted()).toEqual([...LACKS[host]].toSorted());
});
