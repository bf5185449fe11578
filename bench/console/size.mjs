// What a browser has to load before it can show the page.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { root } from "./places.mjs";

export async function sizeFigures() {
  const folder = join(root, "packages", "cli", "dist", "dashboard");
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && /\.(html|js|css)$/.test(entry.name),
  );
  const bytes = files.reduce((sum, { parentPath, name }) => sum + gzipSync(readFileSync(join(parentPath, name)), { level: 9 }).length, 0);
  return [{ name: "the page, gzipped", value: bytes / 1_000, unit: "KB", goal: 90 }];
}
