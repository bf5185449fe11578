// The leases of a process that died, in an SQLite file: no store makes one shorter, so tests do.

import { openLibrary, preferredLibrary } from "../../src/store/sqlite/library.ts";

/** A worker that holds a run holds it until then and no longer. */
export async function endLeases(path: string, at: number): Promise<void> {
  const db = openLibrary(path, preferredLibrary());
  try {
    db.exec("PRAGMA busy_timeout = 5000");
    db.prepare("UPDATE holdfast_runs SET available_at = ? WHERE worker_id IS NOT NULL AND finished_at IS NULL").run([at]);
  } finally {
    db.close();
  }
}
