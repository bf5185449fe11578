// docs/hosts.md says what the suite leaves out on a Temporal cluster, and why.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { LACKS, REFUSED } from "./server/lacks.ts";

test("docs/hosts.md agrees with what the host on a Temporal cluster lacks", () => {
  const lines = readFileSync(new URL("../../../docs/hosts.md", import.meta.url), "utf8").split("\n");
  const head = lines.indexOf("| not offered on Temporal | why |");
  expect(head).toBeGreaterThan(0);
  const rows = lines.slice(head + 2, lines.indexOf("", head)).map((line) => line.split("|").map((cell) => cell.trim()));
  const reasons = new Map([...Object.values(LACKS), ...REFUSED].map(({ feature, why }) => [feature, why]));
  expect(rows.map(([, feature, why]) => [feature, why])).toEqual([...reasons]);
});
